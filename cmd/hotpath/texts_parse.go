package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// parser reads one line.
func (f *textFlags) parser(objects bool) func([]byte, *text) error {
	switch {
	case objects && f.ids:
		return parseIDs
	case objects:
		return parseText
	}
	return parseLine
}

// readLine appends one line without its end. io.EOF means that there is none.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return line, fmt.Errorf("line is longer than %d MiB", maxLine>>20)
		case err == nil:
			line = line[:len(line)-1]
			return bytes.TrimSuffix(line, []byte("\r")), nil
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err != bufio.ErrBufferFull:
			return line, err
		}
	}
}

// errBlank is a line that holds no input.
var errBlank = errors.New("blank line")

func parseLine(line []byte, t *text) error {
	t.body = string(line)
	return nil
}

func parseText(line []byte, t *text) error {
	value, err := parseObject(line, t, "text")
	if err == nil && (json.Unmarshal(value, &t.body) != nil || string(value) == "null") {
		err = errors.New(`field "text": expected a string`)
	}
	return err
}

func parseIDs(line []byte, t *text) error {
	value, err := parseObject(line, t, "ids")
	t.body = string(value)
	return err
}

// parseObject reads {"key": value, ...}: it returns the value of key and
// carries the other fields.
func parseObject(line []byte, t *text, key string) (json.RawMessage, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errBlank
	}
	if !utf8.Valid(line) { // what is carried must not break the output
		line = bytes.ToValidUTF8(line, []byte("\ufffd"))
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("expected a JSON object with %q", key)
	}
	var found json.RawMessage
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("not a JSON object: field %.40q: %w", name, err)
		}
		if name == key {
			found = value
			continue
		}
		t.carry = append(t.carry, field{name.(string), value})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("expected one JSON object per line")
	}
	if found == nil {
		return nil, fmt.Errorf("field %q is missing", key)
	}
	return found, nil
}
