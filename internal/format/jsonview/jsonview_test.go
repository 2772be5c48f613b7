package jsonview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"hotpath/internal/format"
)

func parse(t testing.TB, text string) Value {
	t.Helper()
	v, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%.80s: %v", text, err)
	}
	return v
}

func TestWalk(t *testing.T) {
	v := parse(t, ` { "a" : [ 1 , -2.5e3, "x\"\\" , null ], "b":{}, "c": true, "":[ ], "a":7 } `)
	var got []string
	for key, value := range v.Members() {
		text, _ := key.Text()
		got = append(got, fmt.Sprintf("%s=%s %s", text, value.Kind(), value.Raw()))
	}
	want := []string{`a=an array [ 1 , -2.5e3, "x\"\\" , null ]`, "b=an object {}", "c=true or false true", "=an array [ ]", "a=a number 7"}
	if !reflect.DeepEqual(got, want) || v.Len() != 5 {
		t.Errorf("%q, expected %q", got, want)
	}
	if a, ok := v.Get("a"); !ok || string(a.Raw()) != "7" {
		t.Errorf("of equal keys the last counts, found %s", a.Raw())
	}
	if _, ok := v.Get("absent"); ok || parse(t, "3").Len() != 0 || (Value{}).Kind() != Invalid {
		t.Error("something was found in nothing")
	}
	for key, value := range v.Members() {
		if back := v.At(v.Offset(value)); !bytes.Equal(back.Raw(), value.Raw()) || !bytes.Equal(v.At(v.Offset(key)).Raw(), key.Raw()) {
			t.Errorf("%s: offset %d leads to %s", value.Raw(), v.Offset(value), back.Raw())
		}
		break
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]struct {
		n    int64
		isN  bool
		f    float64
		isF  bool
		bool bool
	}{
		"12":                             {12, true, 12, true, false},
		"-0":                             {0, true, 0, true, false},
		"9223372036854775807":            {9223372036854775807, true, 9223372036854775807, true, false},
		"9223372036854775808":            {0, false, 9223372036854775808, true, false},
		"1.0":                            {0, false, 1, true, false},
		"1e400":                          {0, false, 0, false, false},
		"true":                           {bool: true},
		"false":                          {bool: true},
		`"1"`:                            {},
		"null":                           {},
		strings.Repeat("1", maxNumber+1): {},
	} {
		v := parse(t, text)
		n, isN := v.Int()
		f, isF := v.Float()
		b, isB := v.Bool()
		if isN != want.isN || isF != want.isF || isB != want.bool || isN && n != want.n || isF && f != want.f || b != (text == "true") {
			t.Errorf("%.20s: %d %v, %g %v, %v %v", text, n, isN, f, isF, b, isB)
		}
	}
}

func TestText(t *testing.T) {
	for _, text := range []string{`""`, `"abc"`, `"a\"b\\c\/\b\f\n\r\t"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d"`,
		`"\ud83d\ud83d\ude00"`, `"\uFFFD"`, "\"\xff\xfe é\"", "\"\xed\xa0\x80\"", `"\\u0041"`, `"\u0000"`} {
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		v := parse(t, text)
		got, ok := v.Text()
		if got != want || !ok || v.TextLen() != len(want) || string(v.AppendText(nil)) != want || !v.Is(want) || v.Is(want+"x") || v.CompareText(want) != 0 {
			t.Errorf("%s: %q %d, expected %q", text, got, v.TextLen(), want)
		}
		plain, ok := v.Plain()
		if inside := text[1 : len(text)-1]; ok != (inside == want) || ok && string(plain) != want {
			t.Errorf("%s: plain %q %v", text, plain, ok)
		}
	}
	order := []string{`""`, `"\u0000"`, `"a"`, `"a\u0062"`, `"ac"`, `"\\"`, `"\u00e9"`, `"中"`, `"\ud83d\ude00"`}
	for i, a := range order {
		for k, b := range order {
			x, y := parse(t, a), parse(t, b)
			ta, _ := x.Text()
			tb, _ := y.Text()
			if want := strings.Compare(ta, tb); x.Compare(y) != want || x.CompareText(tb) != want {
				t.Errorf("%d %s, %d %s: %d, expected %d", i, a, k, b, x.Compare(y), want)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                            "byte 0: expected a JSON value, found the end",
		"  ":                          "byte 2: expected a JSON value, found the end",
		"nul":                         `byte 0: expected a JSON value, found "nul"`,
		"not json":                    `byte 0: expected a JSON value, found "not json"`,
		`{"a":False}`:                 `byte 5: expected a JSON value, found "False}"`,
		`[fals]`:                      `byte 1: expected a JSON value, found "fals]"`,
		"NaN":                         "expected a JSON value",
		"{} x":                        `byte 3: expected nothing after the JSON value, found "x"`,
		`{"a" 1}`:                     "expected a colon",
		`{"a":1,}`:                    "expected a key in quotes",
		`{a:1}`:                       "expected a key in quotes",
		`[1,]`:                        "expected a JSON value",
		`[1 2]`:                       "expected a comma or the end of the array",
		`{"a":1 "b":2}`:               "expected a comma or the end of the object",
		`"a`:                          "expected the end of the string, found the end",
		"\"a\nb\"":                    "byte 2: expected no control character",
		`"\x"`:                        "expected an escape",
		`"\u12g4"`:                    "expected four hexadecimal digits",
		`01`:                          "expected nothing after",
		`-`:                           "expected a digit",
		`1.`:                          "expected a digit",
		`1e+`:                         "expected a digit",
		`+1`:                          "expected a JSON value",
		strings.Repeat("[", 100):      "byte 64: nested more than 64 deep",
		strings.Repeat(`{"a":`, 1000): "nested more than 64 deep",
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, format.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, expected %q", text, err, says)
		}
	}
	if _, err := Parse([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil {
		t.Error(err)
	}
}

// Checking and walking allocate nothing, whatever the document is made of.
func TestNothingIsAllocated(t *testing.T) {
	docs := map[string]string{
		"numbers": "[" + strings.Repeat("1.5e3,", 1000) + "0]",
		"keys":    "{" + strings.Repeat(`"a":0,`, 1000) + `"\u0061":1}`,
		"strings": "[" + strings.Repeat(`"a\u00e9\n",`, 1000) + `""]`,
		"deep":    strings.Repeat(`{"a":[`, 32) + strings.Repeat("]}", 32),
	}
	for name, doc := range docs {
		data := []byte(doc)
		if n := testing.AllocsPerRun(10, func() {
			v, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range v.Members() {
				x.Int()
				if k.Is("absent") || k.Compare(k) != 0 || k.CompareText("a") != 0 {
					t.Fatal(name)
				}
			}
			for x := range v.Items() {
				x.Float()
				if x.Is("absent") || x.Compare(x) != 0 {
					t.Fatal(name)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

// depth is how deep a document is nested, for documents that parse.
func depth(data []byte) int {
	d, most := 0, 0
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		tok, err := dec.Token()
		if err != nil {
			return most
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			d++
			most = max(most, d)
		case json.Delim('}'), json.Delim(']'):
			d--
		}
	}
}

// decoded is v as encoding/json decodes it with UseNumber.
func decoded(t *testing.T, v Value) any {
	switch v.Kind() {
	case Object:
		m := map[string]any{}
		for k, x := range v.Members() {
			key, ok := k.Text()
			if !ok || len(key) != k.TextLen() || !k.Is(key) || k.CompareText(key) != 0 {
				t.Fatalf("key %s: %q", k.Raw(), key)
			}
			m[key] = decoded(t, x)
		}
		for key := range m {
			last, ok := v.Get(key)
			if !ok || !reflect.DeepEqual(decoded(t, last), m[key]) {
				t.Fatalf("Get(%q): %s", key, last.Raw())
			}
		}
		return m
	case Array:
		l := []any{}
		for x := range v.Items() {
			l = append(l, decoded(t, x))
		}
		return l
	case String:
		s, _ := v.Text()
		return s
	case Bool:
		b, _ := v.Bool()
		return b
	case Number:
		f, ok := v.Float()
		var want float64
		if err := json.Unmarshal(v.Raw(), &want); len(v.Raw()) <= maxNumber && ((err == nil) != ok || ok && f != want) {
			t.Fatalf("%s: %g %v, expected %g %v", v.Raw(), f, ok, want, err)
		}
		var n int64
		i, ok := v.Int()
		if err := json.Unmarshal(v.Raw(), &n); len(v.Raw()) <= maxNumber && ((err == nil) != ok || ok && i != n) {
			t.Fatalf("%s: %d %v, expected %d %v", v.Raw(), i, ok, n, err)
		}
		return json.Number(v.Raw())
	}
	return nil
}

// FuzzJSON holds the reader against encoding/json.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5E+3,"\ud83d\ude00\ud83d",null,true],"a":{"b":{}}," ":false}`, "[]", "\"\xff\\\\\"", "-0.0e-1", "[[[[]]]]",
		`{"hidden_size":384,"rope_scaling":null}`, "{\"\\u0061\":1,\"a\":2}", "[1,]", "NaN", "1 2",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if valid := json.Valid(data); err == nil != valid {
			if !valid || depth(data) <= MaxDepth {
				t.Fatalf("%q: %v, but encoding/json says %v", data, err, valid)
			}
		}
		if err != nil {
			if !errors.Is(err, format.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if got := decoded(t, v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v, expected %v", data, got, want)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var doc strings.Builder
	doc.WriteString(`{"vocab":{`)
	for i := range 100_000 {
		fmt.Fprintf(&doc, `"token%d": %d,`, i, i)
	}
	doc.WriteString(`"":0}}`)
	data := []byte(doc.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		v, err := Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		vocab, _ := v.Get("vocab")
		for _, id := range vocab.Members() {
			id.Int()
		}
	}
}
