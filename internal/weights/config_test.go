package weights

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	c, err := ParseConfig("config.json", []byte(`{"n":12,"n1":12.0,"zero":0,"neg":-1,"half":0.5,"big":3000000000,"f":1e-5,
		"yes":true,"s":"text","null":null,"list":["a","b"],"ids":[3,4],"fs":[1,2.5],"o":{"factor":8,"bad":"x","p":{"q":[]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]any{
		"Int":            {must(c.Int("n")), 12},
		"Int of 12.0":    {must(c.Int("n1")), 12},
		"IntOr":          {must(c.IntOr("absent", 5)), 5},
		"IntOr null":     {must(c.IntOr("null", 5)), 5},
		"IntOr present":  {must(c.IntOr("n", 5)), 12},
		"ID":             {must(c.ID("zero")), 0},
		"IDOr":           {must(c.IDOr("absent", -1)), -1},
		"IDs of one":     {must(c.IDs("n")), []int{12}},
		"IDs":            {must(c.IDs("ids")), []int{3, 4}},
		"IDs absent":     {must(c.IDs("null")), []int(nil)},
		"Float":          {must(c.Float("f")), 1e-5},
		"FloatOr":        {must(c.FloatOr("absent", 2)), 2.0},
		"BoolOr present": {must(c.BoolOr("yes", false)), true},
		"BoolOr":         {must(c.BoolOr("absent", true)), true},
		"String":         {must(c.String("s")), "text"},
		"StringOr":       {must(c.StringOr("null", "d")), "d"},
		"Strings":        {must(c.Strings("list")), []string{"a", "b"}},
		"Floats":         {must(c.Floats("fs")), []float64{1, 2.5}},
		"Has":            {c.Has("n") && !c.Has("null") && !c.Has("absent"), true},
		"Null":           {c.Null("null") && !c.Null("n") && !c.Null("absent"), true},
		"Object":         {must(must(c.Object("o")).Int("factor")), 8},
		"no Object":      {must(c.Object("null")), (*Config)(nil)},
		"Keys":           {len(c.Keys()), 14},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, expected %v", what, pair[0], pair[1])
		}
	}
	o := must(c.Object("o"))
	for says, err := range map[string]error{
		"field absent: expected a positive integer, but it is missing":                 second(c.Int("absent")),
		"field null: expected a string, but it is missing":                             second(c.String("null")),
		"field zero: expected a positive integer, found 0":                             second(c.Int("zero")),
		"field neg: expected an integer from 0, found -1":                              second(c.ID("neg")),
		"field half: expected a positive integer, found 0.5":                           second(c.Int("half")),
		"field big: expected a positive integer, at most 2147483647, found 3000000000": second(c.IntOr("big", 1)),
		"field big: expected an integer from 0, at most 2147483647, found 3000000000":  second(c.ID("big")),
		"field big: expected true or false, found 3000000000":                          second(c.BoolOr("big", true)),
		`field s: expected a number, found "text"`:                                     second(c.FloatOr("s", 1)),
		"field n: expected true or false, found 12":                                    second(c.BoolOr("n", true)),
		"field n: expected a string, found 12":                                         second(c.StringOr("n", "")),
		"field ids: expected a list of strings, found [3,4]":                           second(c.Strings("ids")),
		`field list: expected a list of numbers, found ["a","b"]`:                      second(c.Floats("list")),
		"field neg: expected an integer from 0 or a list":                              second(c.IDs("neg")),
		"field n: expected an object, found 12":                                        second(c.Object("n")),
		`field o.bad: expected a positive integer, found "x"`:                          second(o.Int("bad")),
		`field o.p.q: expected a number, found []`:                                     second(must(o.Object("p")).Float("q")),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "config.json: "+says) {
			t.Errorf("%v, expected %s", err, says)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestConfigHostile(t *testing.T) {
	var many strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&many, `,"%d":0`, i)
	}
	for name, c := range map[string]struct{ data, says string }{
		"empty":     {"", "expected a JSON value, found the end"},
		"list":      {"[]", "expected a JSON object, found an array"},
		"cut":       {`{"a":1`, "config.json: "},
		"cut value": {`{"a":"x`, "byte 7: expected the end of the string"},
		"after":     {`{} {}`, "expected nothing after"},
		"twice":     {`{"a":1,"a":2}`, `field "a" appears twice`},
		"escaped":   {`{"a":1,"\u0061":2}`, "appears twice"},
		"deep":      {`{"a":` + strings.Repeat("[", 1000), "nested more than 64"},
		"many":      {"{" + many.String()[1:] + "}", "more than 16384 fields"},
		"large":     {strings.Repeat(" ", maxConfig+1), "expected at most"},
		"NaN":       {`{"a":NaN}`, "byte 5: expected a JSON value"},
	} {
		_, err := ParseConfig("config.json", []byte(c.data))
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "config.json: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", name, err, c.says)
		}
	}
	long, _ := ParseConfig("c", []byte(`{"a":"`+strings.Repeat("x", 1000)+`"}`))
	if _, err := long.Int("a"); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long value is quoted whole: %v", err)
	}
}

// Objects within are held to the same bounds when they are asked for, and so
// are lists and texts.
func TestConfigFieldsHostile(t *testing.T) {
	var many strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&many, `,"%d":0`, i)
	}
	c := must(ParseConfig("config.json", []byte(`{"many":{`+many.String()[1:]+`},"twice":{"b":1,"b":2},
		"text":"`+strings.Repeat("x", maxStrings+1)+`","texts":["`+strings.Repeat(`x","`, maxStrings+1)+`"],
		"ids":[`+strings.Repeat("0,", maxNumbers)+`0],"number":`+strings.Repeat("1", 2000)+`}`)))
	for says, err := range map[string]error{
		"field many: more than 16384 fields":     second(c.Object("many")),
		`field twice."b" appears twice`:          second(c.Object("twice")),
		"field text: expected a string":          second(c.String("text")),
		"field texts: expected a list of string": second(c.Strings("texts")),
		"field ids: expected an integer from 0":  second(c.IDs("ids")),
		"field number: expected a number":        second(c.Float("number")),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "config.json: "+says) || len(err.Error()) > 200 {
			t.Errorf("%v, expected %s", err, says)
		}
	}
}

// FuzzConfig asks for every field of whatever parses, as everything.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		`{"hidden_size":384,"rope_scaling":{"factor":8.0},"eos_token_id":[1,2],"x":null}`,
		`{"a":"b","c":[1.5,"d"],"e":1e400}`, `[{"type":"a.Dense","path":"2_Dense"}]`, `{"a":[[[{}]]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if modules, err := parseModules("fuzz", data); err == nil {
			for _, m := range modules {
				m.Kind()
			}
		}
		c, err := ParseConfig("fuzz", data)
		if err != nil {
			return
		}
		for _, key := range c.Keys() {
			n, err := c.IntOr(key, 1)
			if err == nil && n < 1 {
				t.Fatalf("IntOr gave %d", n)
			}
			for _, err := range []error{second(c.IDs(key)), second(c.FloatOr(key, 0)), second(c.BoolOr(key, false)),
				second(c.StringOr(key, "")), second(c.Strings(key)), second(c.Floats(key)), second(c.Object(key))} {
				if err != nil && !errors.Is(err, ErrInvalid) {
					t.Fatal(err)
				}
			}
		}
	})
}
