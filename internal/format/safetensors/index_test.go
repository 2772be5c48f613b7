package safetensors

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// holding is a file of empty tensors.
func holding(t *testing.T, file string, names ...string) *File {
	t.Helper()
	var w Writer
	for _, name := range names {
		if err := w.Add(name, tensor.F32, []int{0}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := Parse(file, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestIndex(t *testing.T) {
	x, err := ParseIndex("i", []byte(`{"metadata":{"total_size":8},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"\u0031.safetensors"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x.Shards(), []string{"1.safetensors", "2.safetensors"}) {
		t.Error(x.Shards())
	}
	for says, second := range map[string][]string{
		"": {"b", "unlisted"},
		`i: field weight_map: tensor "b" is not in 2.safetensors`: {"d"},
		`1.safetensors: tensor "a" is in 2.safetensors too`:       {"a", "b"},
	} {
		err := x.Check([]*File{holding(t, "1.safetensors", "c", "a"), holding(t, "2.safetensors", second...)})
		if says == "" && err != nil || says != "" && (!errors.Is(err, format.ErrInvalid) || !strings.HasPrefix(err.Error(), says)) {
			t.Errorf("%v, expected %q", err, says)
		}
	}
}

func TestIndexHostile(t *testing.T) {
	many := `{"weight_map":{`
	for i := range maxShards + 1 {
		many += `"a":"` + strings.Repeat("x", 1+i%200) + strings.Repeat("y", i/200) + `",`
	}
	for bad, says := range map[string]string{
		``:                                 "expected a JSON value",
		`[]`:                               "field weight_map: expected an object",
		`{}`:                               "field weight_map: expected an object",
		`{"weight_map":{}}`:                "0 tensors, expected 1",
		`{"weight_map":{"a":1}}`:           `tensor "a": 1, expected the name of a file`,
		`{"weight_map":["a"]}`:             "found an array",
		`{"weight_map":{"a":"../x"}}`:      "a file beside the index",
		`{"weight_map":{"a":"/etc/pass"}}`: "a file beside the index",
		`{"weight_map":{"a":"d/x"}}`:       "a file beside the index",
		`{"weight_map":{"a":"d\\x"}}`:      "a file beside the index",
		`{"weight_map":{"a":""}}`:          "a file beside the index",
		`{"weight_map":{"a":"."}}`:         "a file beside the index",
		`{"weight_map":{"a":".."}}`:        "a file beside the index",
		`{"weight_map":{"a":"x\u0000"}}`:   "a file beside the index",
		`{"weight_map":{"a":"` + strings.Repeat("x", 256) + `"}}`: "the name of a file",
		many + `"a":"b"}}`: "more than 1024 files",
	} {
		if _, err := ParseIndex("i", []byte(bad)); !errors.Is(err, format.ErrInvalid) || !strings.HasPrefix(err.Error(), "i: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, expected %q", bad, err, says)
		}
	}
}
