package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
)

// ErrFormat is matched by every error about a profile file that cannot be
// read.
var ErrFormat = errors.New("not a readable hotpath profile")

// maxFile is the size of the largest file that ReadFile accepts.
const maxFile = 1 << 30

// Write encodes the profile as one JSON document.
func (p *Profile) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(p)
}

// WriteFile writes the profile atomically.
func (p *Profile) WriteFile(path string) error { return atomicfile.Write(path, p.Write) }

// ReadFile reads and checks a profile file.
func ReadFile(path string) (*Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %w: larger than %d bytes", path, ErrFormat, maxFile)
	}
	return Read(path, data)
}

// Read decodes and checks a profile. name is what errors call the file.
func Read(name string, data []byte) (*Profile, error) {
	p, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrFormat, err)
	}
	return p, nil
}

func read(data []byte) (*Profile, error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) == 0 {
		return nil, errors.New("the file is empty")
	} else if start[0] != '{' {
		return nil, fmt.Errorf("begins with %.8q, expected a JSON object", start)
	}
	if err := scan(data); err != nil {
		return nil, err
	}
	// The version comes first: what a newer writer put into the other fields
	// is not for this reader to judge.
	var head struct {
		Format  string   `json:"format"`
		Version int      `json:"version"`
		Plans   arrayLen `json:"plans"`
	}
	if err := decode(data, &head); err != nil {
		return nil, err
	}
	if head.Format != Format {
		return nil, fmt.Errorf("field format is %.40q, expected %q", head.Format, Format)
	}
	if head.Version > Version {
		return nil, fmt.Errorf("field version is %d, this program reads up to %d: a newer hotpath wrote it", head.Version, Version)
	}
	if head.Version < 1 {
		return nil, fmt.Errorf("field version is %d, expected 1 to %d", head.Version, Version)
	}
	if head.Plans > maxPlans {
		return nil, fmt.Errorf("field plans has %d entries, expected at most %d", head.Plans, maxPlans)
	}
	p := new(Profile)
	if err := decode(data, p); err != nil {
		return nil, err
	}
	p.upgrade(head.Version)
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// upgrade makes a profile of an older version one of this version, which it is written
// as from here on.
func (p *Profile) upgrade(version int) {
	p.Version = Version
	if version < 3 { // says nothing of runs side by side
		p.Elapsed = p.Ledger.Wall
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		if version < 3 {
			s.Elapsed = s.Ledger.Wall
		}
		if version >= 4 {
			continue
		}
		for j := range s.Stats { // what lanes computed, divided by their number, was held against the machine
			st := &s.Stats[j]
			st.Clock, st.OffClock, st.Roof = st.Self, 0, nil
			st.FloorLow, st.FloorHigh, st.LostLow, st.LostHigh = 0, 0, 0, 0
			if st.Floor != 0 || st.Lost != 0 {
				st.Lost = st.Clock - st.Floor
			}
		}
	}
	p.clamp()
}

// decode reads JSON; its errors speak of the file, not of Go's types.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && cutOff(data):
		return fmt.Errorf("it is truncated: it ends at byte %d within a value", len(data))
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	case errors.As(err, &kind):
		return fmt.Errorf("field %s: %s, expected %s", fieldPath(kind.Field), kind.Value, jsonName(kind.Type))
	}
	return err
}

// fieldPath leaves out embedded structs of Go, whose fields are those of the object that
// contains them in JSON.
func fieldPath(path string) string {
	parts := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s != strings.ToLower(s) }), ".")
}

// cutOff distinguishes a truncated file from a file with a wrong byte, which may
// be the last byte.
func cutOff(data []byte) bool {
	return errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(new(json.RawMessage)), io.ErrUnexpectedEOF)
}

// jsonName is what JSON calls values of a type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number of 64 bits at most"
}

// maxPlans bounds how many plans a file may have. A plan takes 440 bytes in
// memory and little in a file; a program has a few dozen.
const maxPlans = 4096

// arrayLen is the length of an array, whose items are not decoded. What is no
// array counts as none: a newer version may have something else there.
type arrayLen int

func (n *arrayLen) UnmarshalJSON(data []byte) error {
	var items []skipped
	if json.Unmarshal(data, &items) == nil {
		*n = arrayLen(len(items))
	}
	return nil
}

type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// minObject is less than the encoded size of any of our records.
const minObject = 16

// scan bounds what decoding can allocate by the size of the file: no record of
// ours is empty, so a file of many records is a long file, and none is null.
func scan(data []byte) error {
	var objects int
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			objects++
		case c == 'n':
			return fmt.Errorf("null at byte %d, expected a value", i)
		}
	}
	if objects > len(data)/minObject+16 {
		return fmt.Errorf("%d records in %d bytes, expected at least %d bytes per record", objects, len(data), minObject)
	}
	return nil
}
