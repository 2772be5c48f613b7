package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"hotpath/internal/format/jsonview"
)

// Line is one line of a .jsonl file.
type Line struct {
	File   string
	Number int
	Object jsonview.Value
	text   []byte
	begin  int // of the object in text
}

// Objects calls each for the object of every line that is not blank.
func (b *Block) Objects(each func(l Line) error) error {
	rest, number := b.Text, b.Line
	for ; len(rest) > 0; number++ {
		text := rest
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			text, rest = rest[:n], rest[n+1:]
		} else {
			rest = nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		l, err := ParseLine(b.File.Path, number, text)
		if err == nil {
			err = each(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ParseLine reads one line; file and number are for errors.
func ParseLine(file string, number int, text []byte) (Line, error) {
	l := Line{File: file, Number: number, text: text}
	v, err := jsonview.Parse(text)
	if bad := (*jsonview.SyntaxError)(nil); errors.As(err, &bad) {
		found := bad.Found
		if bad.Offset >= len(bytes.TrimSpace(text)) { // the text of a JSON file is cut into lines
			found = "the end of the line"
		}
		return l, l.errorAt(bad.Offset, "not JSON: expected %s, found %s", bad.Want, found)
	}
	if err != nil {
		return l, l.errorAt(0, "not JSON: %v", err)
	}
	l.Object, l.begin = v, len(text)-len(bytes.TrimLeft(text, " \t\r"))
	if v.Kind() != jsonview.Object {
		return l, l.ErrorAt(v, "expected an object, found %s", v.Kind())
	}
	return l, nil
}

// ErrorAt is an error about a value of the line.
func (l *Line) ErrorAt(v jsonview.Value, format string, args ...any) error {
	return l.errorAt(l.begin+l.Object.Offset(v), format, args...)
}

func (l *Line) errorAt(offset int, format string, args ...any) error {
	return fmt.Errorf("%s: line %d, column %d: %s: %w", l.File, l.Number, 1+utf8.RuneCount(l.text[:offset]), fmt.Sprintf(format, args...), ErrData)
}

// Text gives a field of the object, which must be a string.
func (l *Line) Text(name string) (jsonview.Value, error) {
	v, ok := l.Object.Get(name)
	if !ok {
		return v, l.ErrorAt(l.Object, "expected an object with a string %q", name)
	}
	if v.Kind() != jsonview.String {
		return v, l.ErrorAt(v, "field %q: expected a string, found %s", name, v.Kind())
	}
	return v, nil
}
