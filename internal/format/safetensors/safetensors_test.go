package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// golden is a file made by the Python package through
// scripts/goldens_format.py.
func golden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustParse(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Parse("test.safetensors", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func values(t *testing.T, f *File, name string) []float32 {
	t.Helper()
	d, data, err := f.Data(name)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(data)/d.Info().BlockBytes)
	if err := tensor.Dequantize(out, d, data); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGolden(t *testing.T) {
	f := mustParse(t, golden(t))
	if v, ok := f.Metadata("format"); v != "pt" || !ok {
		t.Errorf("metadata format: %q", v)
	}
	if want := []string{"f16", "f32", "i64", "scalar"}; !slices.Equal(f.Names(), want) {
		t.Fatalf("names %v, expected %v", f.Names(), want)
	}
	for name, dims := range map[string][]int{"f16": {2, 2, 2}, "f32": {3, 5}, "i64": {3}, "scalar": {}} {
		if x, ok := f.Tensor(name); !ok || !slices.Equal(x.Dims, dims) {
			t.Errorf("%s: %v, expected %v", name, x.Dims, dims)
		}
	}
	if got, want := values(t, f, "f16"), []float32{-4, -3, -2, -1, 0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("f16: %v, expected %v", got, want)
	}
	if got := values(t, f, "scalar"); !slices.Equal(got, []float32{1.5}) {
		t.Errorf("scalar: %v", got)
	}
	if _, _, err := f.Data("i64"); !errors.Is(err, format.ErrUnsupported) || !strings.Contains(err.Error(), "I64") {
		t.Errorf("i64: %v, expected ErrUnsupported that names I64", err)
	}
}

func TestWriterRoundTrip(t *testing.T) {
	w := Writer{Metadata: map[string]string{"step": "7", "quote": `"<>`}}
	data := map[string][]byte{}
	for i, d := range []tensor.DType{tensor.BF16, tensor.F32, tensor.F16, tensor.I32} {
		name := fmt.Sprintf("b%d \"ü\"", i)
		data[name] = bytes.Repeat([]byte{byte(i + 1)}, 15*d.Info().BlockBytes)
		if err := w.Add(name, d, []int{3, 5}, data[name]); err != nil {
			t.Fatal(err)
		}
	}
	data["empty"] = nil
	if err := w.Add("empty", tensor.F32, []int{0, 4}, nil); err != nil {
		t.Fatal(err)
	}
	var b, again bytes.Buffer
	if n, err := w.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	if _, err := w.WriteTo(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("a second write differs")
	}
	f := mustParse(t, b.Bytes())
	if v, _ := f.Metadata("quote"); v != `"<>` || len(f.Names()) != len(data) {
		t.Fatalf("metadata %q, names %v", v, f.Names())
	}
	for name, want := range data {
		d, got, err := f.Data(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: data differ: %v", name, err)
		}
		i, _ := f.find(name)
		if at := (b.Len() - len(f.data) + f.table[i].begin) % d.Info().BlockBytes; at != 0 {
			t.Errorf("%s: %d bytes off its alignment", name, at)
		}
	}
	for what, err := range map[string]error{
		"taken":     w.Add("empty", tensor.F32, []int{1}, make([]byte, 4)),
		"metadata":  w.Add(metaKey, tensor.F32, []int{1}, make([]byte, 4)),
		"no UTF-8":  w.Add("\xff", tensor.F32, []int{1}, make([]byte, 4)),
		"quantized": w.Add("q", tensor.Q8_0, []int{32}, make([]byte, 34)),
		"short":     w.Add("q", tensor.F32, []int{2}, make([]byte, 7)),
		"overflow":  w.Add("q", tensor.F32, []int{math.MaxInt, math.MaxInt}, nil),
		"negative":  w.Add("q", tensor.F32, []int{-1}, nil),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// file is a header and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func one(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"t":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

func TestHostile(t *testing.T) {
	pair := func(a, b string) string {
		return `{"a":{"dtype":"F32","shape":[2],"data_offsets":` + a + `},"b":{"dtype":"F32","shape":[2],"data_offsets":` + b + `}}`
	}
	for name, c := range map[string]struct {
		data []byte
		is   error
		says string
	}{
		"empty":          {nil, format.ErrTruncated, "0 bytes"},
		"length 0":       {make([]byte, 16), format.ErrInvalid, "header of 0 bytes"},
		"length top":     {bytes.Repeat([]byte{0xff}, 16), format.ErrInvalid, "header of 18446744073709551615 bytes"},
		"length 2^63":    {[]byte{0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'}, format.ErrInvalid, "header of 9223372036854775808"},
		"length cut":     {file("{}", 0)[:9], format.ErrTruncated, "only 1 are left"},
		"not JSON":       {file("hello", 8), format.ErrInvalid, "expected a JSON object"},
		"list":           {file("[1]", 8), format.ErrInvalid, "expected a JSON object"},
		"open":           {file(`{"t":`, 8), format.ErrInvalid, "header"},
		"after":          {file(`{} x`, 8), format.ErrInvalid, "expected nothing after"},
		"entry type":     {file(`{"t":3}`, 8), format.ErrInvalid, `tensor "t": field dtype: expected a string, found nothing`},
		"no offsets":     {file(`{"t":{"dtype":"F32","shape":[1]}}`, 8), format.ErrInvalid, "field data_offsets: "},
		"no shape":       {file(`{"t":{"dtype":"F32","data_offsets":[0,4]}}`, 8), format.ErrInvalid, "field shape: expected an array, found nothing"},
		"three offsets":  {file(one(`"F32"`, "[1]", "[0,4,8]"), 8), format.ErrInvalid, "field data_offsets: "},
		"backwards":      {file(one(`"F32"`, "[1]", "[4,0]"), 8), format.ErrInvalid, "expected a range"},
		"negative":       {file(one(`"F32"`, "[1]", "[-4,0]"), 8), format.ErrInvalid, "expected a range"},
		"fraction":       {file(one(`"F32"`, "[1.5]", "[0,4]"), 8), format.ErrInvalid, `tensor "t"`},
		"beyond int":     {file(one(`"F32"`, "[1]", "[0,9223372036854775808]"), 8), format.ErrInvalid, `tensor "t"`},
		"near 2^63":      {file(one(`"F32"`, "[1]", "[9223372036854775803,9223372036854775807]"), 8), format.ErrTruncated, "only 8 bytes"},
		"past the end":   {file(one(`"F32"`, "[3]", "[0,12]"), 8), format.ErrTruncated, "only 8 bytes"},
		"wrong size":     {file(one(`"F32"`, "[1]", "[0,8]"), 8), format.ErrInvalid, "hold 8 bytes, expected 4"},
		"negative shape": {file(one(`"F32"`, "[-1,-2]", "[0,8]"), 8), format.ErrInvalid, "-1 is negative"},
		"overflow":       {file(one(`"F32"`, "[4611686018427387904,4]", "[0,0]"), 8), format.ErrInvalid, "too many"},
		"rank":           {file(one(`"F32"`, "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 8), format.ErrInvalid, "field shape: more than 8 numbers"},
		"long shape":     {file(one(`"F32"`, "["+strings.Repeat("1,", 600)+"1]", "[0,4]"), 8), format.ErrInvalid, "field shape: more than 8 numbers"},
		"overlap":        {file(pair("[0,8]", "[4,12]"), 16), format.ErrInvalid, `"a" (bytes 0 to 8) and "b"`},
		"duplicate":      {file(strings.Replace(pair("[0,8]", "[8,16]"), `"b"`, `"a"`, 1), 16), format.ErrInvalid, "appears twice"},
		"metadata":       {file(`{"__metadata__":{"a":1}}`, 0), format.ErrInvalid, "object of strings"},
		"metadata twice": {file(`{"__metadata__":{},"__metadata__":{}}`, 0), format.ErrInvalid, "appears twice"},
		"metadata list":  {file(`{"__metadata__":["a"]}`, 0), format.ErrInvalid, "object of strings"},
		"deep":           {file(`{"t":`+strings.Repeat("[", 20000), 0), format.ErrInvalid, "nested more than 64 deep"},
		"same escaped":   {file(strings.Replace(pair("[0,8]", "[8,16]"), `"b"`, `"\u0061"`, 1), 16), format.ErrInvalid, `"a" appears twice`},
		"field twice":    {file(`{"t":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}`, 4), format.ErrInvalid, "field dtype appears twice"},
		"long name":      {file(`{"`+strings.Repeat("n", 5000)+`":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), format.ErrInvalid, "name of a tensor of 5000 bytes"},
		"long type":      {file(one(`"`+strings.Repeat("F", 5000)+`"`, "[]", "[0,4]"), 4), format.ErrInvalid, "field dtype: a name of 5000 bytes"},
		"type of number": {file(one("32", "[1]", "[0,4]"), 4), format.ErrInvalid, "field dtype: expected a string, found a number"},
		"hole":           {file(pair("[0,8]", "[12,20]"), 20), format.ErrInvalid, `"b" begins at byte 12, expected 8`},
		"first hole":     {file(one(`"F32"`, "[1]", "[4,8]"), 8), format.ErrInvalid, `"t" begins at byte 4, expected 0`},
		"too long":       {file(one(`"F32"`, "[1]", "[0,4]"), 8), format.ErrInvalid, "8 bytes of tensors, but the header describes 4"},
	} {
		_, err := Parse("bad", c.data)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "bad: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q (%v)", name, err, c.says, c.is)
		}
	}
	// An encoding that nobody knows yet is listed and refused when asked for.
	f := mustParse(t, file(one(`"F4"`, "[2]", "[0,1]"), 1))
	if _, _, err := f.Data("t"); !errors.Is(err, format.ErrUnsupported) {
		t.Errorf("F4: %v, expected ErrUnsupported", err)
	}
}

func TestTruncation(t *testing.T) {
	whole := golden(t)
	for n := range whole {
		if _, err := Parse("cut", whole[:n:n]); !errors.Is(err, format.ErrTruncated) {
			t.Fatalf("cut at %d of %d: %v, expected ErrTruncated", n, len(whole), err)
		}
	}
}

// Data that come one by one, in any order, make the same file.
func TestStream(t *testing.T) {
	type row struct {
		name string
		d    tensor.DType
		data []byte
	}
	rows := []row{{"b", tensor.F16, []byte("bcde")}, {"a", tensor.F32, []byte("12345678")}, {"c", tensor.F16, []byte("wxyz")}, {"none", tensor.F32, []byte{}}}
	dims := func(r row) []int { return []int{len(r.data) / r.d.Info().BlockBytes} }
	var whole, reserved Writer
	for i, r := range rows {
		if err := whole.Add(r.name, r.d, dims(r), r.data); err != nil {
			t.Fatal(err)
		}
		add := reserved.Reserve(r.name, r.d, dims(r))
		if i == 1 { // some may have their data
			reserved = Writer{tensors: reserved.tensors[:1], names: map[string]bool{"b": true}}
			add = reserved.Add(r.name, r.d, dims(r), r.data)
		}
		if add != nil {
			t.Fatal(add)
		}
	}
	var want bytes.Buffer
	if _, err := whole.WriteTo(&want); err != nil {
		t.Fatal(err)
	}
	if _, err := reserved.WriteTo(io.Discard); err == nil {
		t.Error("a file without all data was written")
	}
	path := filepath.Join(t.TempDir(), "f")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s, err := reserved.Stream(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), `tensor "b": its data never came`) {
		t.Error(err)
	}
	for _, bad := range []error{s.Put("absent", nil), s.Put("b", []byte("123")), s.Put("a", rows[1].data)} {
		if !errors.Is(bad, format.ErrInvalid) {
			t.Error(bad)
		}
	}
	for _, i := range []int{3, 2, 0} {
		if err := s.Put(rows[i].name, rows[i].data); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%q, expected %q", got, want.Bytes())
	}
	full := fmt.Errorf("disk full")
	if _, err := reserved.Stream(failing{full}); err != full {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) WriteAt([]byte, int64) (int, error) { return 0, f.err }

// FuzzSafetensors asks everything of whatever parses, as a file and as an
// index.
func FuzzSafetensors(f *testing.F) {
	f.Add(golden(f))
	f.Add(file(one(`"BF16"`, "[2,2]", "[0,8]"), 8))
	f.Add(file(`{"__metadata__":{"a":"b"}}`, 0))
	f.Add([]byte(`{"weight_map":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if x, err := ParseIndex("fuzz", data); err == nil {
			for _, shard := range x.Shards() {
				if filepath.Base(shard) != shard {
					t.Fatalf("shard %q", shard)
				}
			}
		}
		x, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		var w Writer
		for _, name := range x.Names() {
			d, b, err := x.Data(name)
			if err != nil {
				continue
			}
			y, _ := x.Tensor(name)
			if err := w.Add(name, d, y.Dims, b); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if _, err := w.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		mustParse(t, out.Bytes())
	})
}
