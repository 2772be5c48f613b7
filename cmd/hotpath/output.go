package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/builtin"
	"hotpath/internal/term"
)

// formatFlag is --format with the values that a command knows, the first being
// the default.
type formatFlag struct {
	value string
	known []string
}

func (f *formatFlag) addFlag(cmd *cobra.Command, known ...string) {
	f.value, f.known = known[0], known
	cmd.Flags().Var(f, "format", "output: "+strings.Join(known, ", "))
}

func (f *formatFlag) String() string { return f.value }
func (f *formatFlag) Type() string   { return "FORMAT" }
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.known, s) {
		return fmt.Errorf("expected %s", strings.Join(f.known, ", "))
	}
	f.value = s
	return nil
}

// filledFlag is a text that is not empty. An empty one is wrong, not none: it is
// what a script's variable holds that was never set.
type filledFlag struct {
	to   *string
	want string // for the error
}

// fileFlag is the name of a file.
func fileFlag(to *string) filledFlag { return filledFlag{to, "the name of a file"} }

// folderFlag is the name of a folder.
func folderFlag(to *string) filledFlag { return filledFlag{to, "the name of a folder"} }

// modelFlag is a model; name is the one inside the program that is taken without
// the flag, "" where there is none for the command.
func modelFlag(to *string, name string) filledFlag {
	*to = builtin.Default(name)
	return filledFlag{to, "the name of a model"}
}

func (f filledFlag) String() string {
	if f.to == nil { // pflag asks a zero value for its default
		return ""
	}
	return *f.to
}
func (f filledFlag) Type() string { return "string" }
func (f filledFlag) Set(s string) error {
	if s == "" {
		return fmt.Errorf("expected %s", f.want)
	}
	*f.to = s
	return nil
}

// percentFlag is the value of --fail-above.
type percentFlag struct {
	text  string // as it was given; empty if it was not
	value float64
}

func (f *percentFlag) given() bool    { return f.text != "" }
func (f *percentFlag) String() string { return f.text }
func (f *percentFlag) Type() string   { return "string" }

// Set reads 3%, or 3 for the same.
func (f *percentFlag) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return errors.New("expected a percentage such as 3%")
	}
	f.text, f.value = s, v
	return nil
}

// records writes one object an input: as lines (jsonl) or as the elements of
// one array (json).
type records struct {
	w     *bufio.Writer
	array bool
	n     int
	buf   bytes.Buffer
}

func newRecords(w io.Writer, format string) *records {
	return &records{w: bufio.NewWriterSize(w, 64<<10), array: format == "json"}
}

// write takes an encoded object.
func (r *records) write(object []byte) {
	if r.array {
		r.w.WriteString([]string{"[\n", ",\n"}[min(r.n, 1)])
	}
	r.n++
	r.w.Write(object)
	if !r.array {
		r.w.WriteByte('\n')
	}
}

// encode writes v, which encodes as an object, with the carried fields behind
// its own.
func (r *records) encode(v any, carry []field) error {
	r.buf.Reset()
	if err := encodeJSON(&r.buf, v); err != nil {
		return err
	}
	r.write(appendCarried(bytes.TrimRight(r.buf.Bytes(), "\n"), carry))
	return nil
}

// line writes a line for people, in place of objects.
func (r *records) line(s string) {
	r.w.WriteString(s)
	r.w.WriteByte('\n')
}

// flush makes everything written so far visible; its error is that of any
// write before it.
func (r *records) flush() error { return r.w.Flush() }

// end completes the document.
func (r *records) end() error {
	if r.array {
		if r.n == 0 {
			r.w.WriteByte('[')
		}
		r.w.WriteString("\n]\n")
	}
	return r.w.Flush()
}

// appendCarried puts fields at the end of an encoded object.
func appendCarried(object []byte, carry []field) []byte {
	if len(carry) == 0 {
		return object
	}
	object = object[:len(object)-1]
	for _, f := range carry {
		if len(object) > 1 {
			object = append(object, ',')
		}
		key, _ := json.Marshal(f.key) // a string always encodes
		object = append(object, key...)
		object = append(append(object, ':'), f.value...)
	}
	return append(object, '}')
}

// encodeJSON leaves <, > and & as they are: they are common in tokens.
func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// document writes v as one indented JSON document.
func document(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// excerpt is the beginning of a text on one line, safe to show on a terminal.
func excerpt(s string, n int) string {
	words := strings.Fields(strings.ToValidUTF8(s[:min(len(s), 16*n)], "\ufffd"))
	cut := []rune(term.Printable(strings.Join(words, " ")))
	if len(cut) <= n {
		return string(cut)
	}
	return string(cut[:n-1]) + "…"
}
