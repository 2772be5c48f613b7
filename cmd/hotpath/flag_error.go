package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// expectedOf is what the flags of pflag's own types take, and how wide they are.
var expectedOf = map[string]struct{ want, wide string }{
	"int":      {"an integer", " that fits 64 bits"},
	"uint64":   {"an integer from 0", " that fits 64 bits"},
	"float32":  {"a number", " that fits 32 bits"},
	"bool":     {"true or false", ""},
	"duration": {"a duration such as 500ms or 2s", ""},
}

// flagError says what was expected of a flag, where pflag quotes the function that
// reads its value. Types of our own say it themselves.
func flagError(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	expected, known := expectedOf[wrong.GetFlag().Value.Type()]
	if !known {
		return err
	}
	want := expected.want
	if errors.Is(err, strconv.ErrRange) {
		want += expected.wide
	}
	return errors.New(strings.TrimSuffix(err.Error(), wrong.Unwrap().Error()) + "expected " + want)
}
