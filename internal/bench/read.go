package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"
)

// ErrFormat is matched by every error about a file that is no report.
var ErrFormat = errors.New("not a benchmark report")

// maxFile bounds what is read: a report of every case, with a thousand samples
// each, is smaller.
const maxFile = 64 << 20

// Data is a report as it was read, ours or that of go test -bench.
type Data struct {
	File    string
	Machine map[string]string // header lines
	Units   map[string]Unit
	Series  []Series // in the order of the file
	index   map[[2]string]int
}

// ReadFile reads a report.
func ReadFile(path string) (*Data, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return Read(path, data)
}

// Read decodes a report: JSON where it begins with a brace, else Go's benchmark
// format. name is what errors call the file.
func Read(name string, data []byte) (*Data, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %w: more than %d MiB", name, ErrFormat, maxFile>>20)
	}
	d := &Data{File: name, Machine: map[string]string{}, Units: map[string]Unit{}, index: map[[2]string]int{}}
	parse := d.readText
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		parse = d.readJSON
	}
	if err := parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrFormat, err)
	}
	if len(d.Series) == 0 {
		return nil, fmt.Errorf("%s: %w: no results, expected lines that begin with Benchmark or a JSON document with results", name, ErrFormat)
	}
	return d, nil
}

func (d *Data) readText(data []byte) error {
	r := benchfmt.NewReader(bytes.NewReader(data), d.File)
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			return fmt.Errorf("line %d: %s", rec.Line, rec.Msg)
		case *benchfmt.UnitMetadata:
			u := d.Units[rec.OrigUnit]
			switch rec.Key {
			case "better":
				u.Better = rec.Value
			case "assume":
				u.Assume = rec.Value
			}
			d.Units[rec.OrigUnit] = u
		case *benchfmt.Result:
			_, line := rec.Pos()
			if err := d.result(rec); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("a line is too long: %w", err)
	}
	return nil
}

func (d *Data) result(rec *benchfmt.Result) error {
	name := rec.Name.String()
	for _, c := range rec.Config {
		switch {
		case c.Key == "pkg": // go test runs packages that have cases of the same name
			name = string(c.Value) + "." + name
		case c.File:
			d.Machine[c.Key] = string(c.Value)
		}
	}
	for _, v := range rec.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		if err := d.addSamples(name, unit, value); err != nil {
			return err
		}
	}
	return nil
}

// addSamples appends samples of a case.
func (d *Data) addSamples(name, unit string, samples ...float64) error {
	if !printable(name) {
		return fmt.Errorf("name %q, expected printable characters without spaces", shortened(name))
	}
	if !printable(unit) {
		return fmt.Errorf("%s: unit %q, expected printable characters without spaces", name, shortened(unit))
	}
	for _, v := range samples {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %v %s, expected a number", name, v, unit)
		}
	}
	key := [2]string{name, unit}
	i, ok := d.index[key]
	if !ok {
		i = len(d.Series)
		d.index[key] = i
		d.Series = append(d.Series, Series{Name: name, Unit: unit})
	}
	d.Series[i].Samples = append(d.Series[i].Samples, samples...)
	return nil
}

func (d *Data) readJSON(data []byte) error {
	var doc struct {
		Machine map[string]any  `json:"machine"`
		Units   map[string]Unit `json:"units"`
		Results []struct {
			Name    string     `json:"name"`
			Unit    string     `json:"unit"`
			Samples []*float64 `json:"samples"`
		} `json:"results"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is more text after the JSON document")
	}
	for key, v := range doc.Machine {
		switch v.(type) {
		case string, float64, bool:
			d.Machine[key] = fmt.Sprint(v)
		}
	}
	if doc.Units != nil {
		d.Units = doc.Units
	}
	for i, s := range doc.Results {
		if len(s.Samples) == 0 {
			return fmt.Errorf("results[%d].samples is empty, expected numbers", i)
		}
		if _, twice := d.index[[2]string{s.Name, s.Unit}]; twice {
			return fmt.Errorf("results[%d] repeats %s in %s", i, shortened(s.Name), shortened(s.Unit))
		}
		samples := make([]float64, len(s.Samples))
		for k, v := range s.Samples {
			if v == nil {
				return fmt.Errorf("results[%d].samples[%d] is null, expected a number", i, k)
			}
			samples[k] = *v
		}
		if err := d.addSamples(s.Name, s.Unit, samples...); err != nil {
			return fmt.Errorf("results[%d]: %w", i, err)
		}
	}
	return nil
}

// series finds a case in a unit; nil where there is none.
func (d *Data) series(name, unit string) *Series {
	if i, ok := d.index[[2]string{name, unit}]; ok {
		return &d.Series[i]
	}
	return nil
}

// declared is what the report itself says of a unit: 1 where more is better, -1
// where less is, 0 where it does not say.
func (d *Data) declared(unit string) int {
	switch d.Units[unit].Better {
	case "higher":
		return 1
	case "lower":
		return -1
	}
	return 0
}

// better is what is declared, or else what the unit's name tells.
func (d *Data) better(unit string) int {
	declared := d.declared(unit)
	switch {
	case declared != 0:
		return declared
	case strings.HasSuffix(unit, "/s") || unit == "%ceiling":
		return 1
	case strings.HasSuffix(unit, "/op"):
		return -1
	}
	return 0
}

// printable keeps what is printed later from playing tricks on a terminal.
func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) < 0
}

func shortened(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
