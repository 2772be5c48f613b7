package gguf

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// golden is a file made by gguf-py through scripts/goldens_format.py.
func golden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustParse(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Parse("test.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// goldenValues is what the script put into the golden, nested arrays apart.
var goldenValues = map[string]any{
	"general.architecture": "golden",
	"k.uint8":              uint8(200), "k.int8": int8(-100),
	"k.uint16": uint16(60000), "k.int16": int16(-30000),
	"k.uint32": uint32(4000000000), "k.int32": int32(-2000000000),
	"k.uint64": uint64(18000000000000000000), "k.int64": int64(-9000000000000000000),
	"k.float32": float32(0.5), "k.float64": 1e-300, "k.bool": true,
	"k.string":  "grüße 🌍",
	"k.strings": []string{"a", "", "ccc", "ü"},
	"k.ints":    []int32{1, -2, 3},
	"k.floats":  []float32{0.25, -1.5},
	"k.bools":   []bool{true, false, true},
	"k.nested":  []any{[]int32{1, 2}, []int32{3}},
}

func TestGoldenMetadata(t *testing.T) {
	f := mustParse(t, golden(t))
	if f.Version() != 3 || len(f.Keys()) != len(goldenValues) {
		t.Fatalf("version %d, keys %v", f.Version(), f.Keys())
	}
	for key, want := range goldenValues {
		v, ok := f.Value(key)
		if !ok || !reflect.DeepEqual(v.Any(), want) {
			t.Errorf("%s: %#v, expected %#v", key, v.Any(), want)
		}
	}
}

func TestGoldenTensors(t *testing.T) {
	f := mustParse(t, golden(t))
	want := map[string]struct {
		typ  string
		dims []int
	}{
		"t.f32": {"F32", []int{3, 64}}, "t.f16": {"F16", []int{3, 64}}, "t.bf16": {"BF16", []int{3, 64}},
		"t.q8_0": {"Q8_0", []int{3, 64}}, "t.q4_1": {"Q4_1", []int{3, 64}}, "t.q4_0": {"Q4_0", []int{3, 64}},
		"t.vector": {"F32", []int{7}}, "t.cube": {"F32", []int{2, 3, 4}},
	}
	if len(f.Tensors()) != len(want) {
		t.Fatalf("%d tensors, expected %d", len(f.Tensors()), len(want))
	}
	for _, x := range f.Tensors() {
		w := want[x.Name]
		if x.Type.String() != w.typ || !slices.Equal(x.Dims(), w.dims) {
			t.Errorf("%s: %s %v, expected %s %v", x.Name, x.Type, x.Dims(), w.typ, w.dims)
		}
	}
	d, data, err := f.Data("t.cube")
	if err != nil || d != tensor.F32 {
		t.Fatal(d, err)
	}
	got := make([]float32, 24)
	if err := tensor.Dequantize(got, d, data); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != float32(i) {
			t.Fatalf("t.cube: element %d is %g", i, x)
		}
	}
	if d, data, err := f.Data("t.q4_0"); err != nil || d != tensor.Q4_0 || len(data) != 3*36 {
		t.Errorf("t.q4_0: %s, %d bytes, %v", d, len(data), err)
	}
	if _, _, err := f.Data("nothing"); err == nil {
		t.Error("a tensor that does not exist was found")
	}
}

func TestGetters(t *testing.T) {
	f := mustParse(t, golden(t))
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, expected %#v", what, got, want)
		}
	}
	for _, key := range []string{"k.uint8", "k.uint16", "k.uint32", "k.uint64"} {
		n, ok := f.Uint(key)
		check(key, ok && n > 0, true)
	}
	n, ok := f.Int("k.int16")
	check("int16", []any{n, ok}, []any{int64(-30000), true})
	_, ok = f.Uint("k.int16")
	check("negative as uint", ok, false)
	_, ok = f.Int("k.uint64")
	check("large as int", ok, false)
	x, ok := f.Float("k.float64")
	check("float64", []any{x, ok}, []any{1e-300, true})
	x, ok = f.Float("k.uint64")
	check("uint64 as float", []any{x, ok}, []any{18e18, true})
	b, ok := f.Bool("k.bool")
	check("bool", []any{b, ok}, []any{true, true})
	s, ok := f.Strings("k.strings")
	check("strings", []any{s, ok}, []any{[]string{"a", "", "ccc", "ü"}, true})
	is, ok := f.Ints("k.ints")
	check("ints", []any{is, ok}, []any{[]int64{1, -2, 3}, true})
	fs, ok := f.Floats("k.floats")
	check("floats", []any{fs, ok}, []any{[]float32{0.25, -1.5}, true})
	bs, ok := f.Bools("k.bools")
	check("bools", []any{bs, ok}, []any{[]bool{true, false, true}, true})
	_, ok = f.String("absent")
	check("absent", ok, false)

	def, err := f.IntOr("absent", 7)
	check("IntOr", []any{def, err}, []any{7, nil})
	for what, err := range map[string]error{
		`key "absent": expected a string, but the file has no such key`:       second(f.NeedString("absent")),
		`key "k.string": expected a positive integer, found string "grüße 🌍"`: second(f.NeedInt("k.string")),
		`key "k.int8": expected a positive integer, found int8 -100`:          second(f.IntOr("k.int8", 1)),
		`key "k.uint32": expected an integer from 0, found uint32 4000000000`: second(f.IDOr("k.uint32", 1)),
		`key "k.bool": expected a finite number, found bool true`:             second(f.FloatOr("k.bool", 1)),
		`key "k.ints": expected a string, found an array of 3 int`:            second(f.NeedString("k.ints")),
		`key "k.uint8": expected true or false, found uint8 200`:              second(f.BoolOr("k.uint8", false)),
	} {
		if err == nil || !strings.Contains(err.Error(), "test.gguf: "+what) || !errors.Is(err, format.ErrInvalid) {
			t.Errorf("%v, expected %s", err, what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// everything writes all that the golden has, and more.
func everything(t testing.TB, align uint32) []byte {
	t.Helper()
	var w Writer
	if align != 0 {
		if err := w.Set(alignmentKey, align); err != nil {
			t.Fatal(err)
		}
	}
	for key, v := range goldenValues {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []any{[]uint8{1}, []int8{-1}, []uint16{2}, []int16{-2}, []uint32{3}, []uint64{4}, []int64{-4},
		[]float64{math.Pi}, []string{}, []any{[]any{[]string{"deep"}}, []any{}}} {
		if err := w.Set("w."+reflect.TypeOf(v).String(), v); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1, tensor.I32} {
		data := bytes.Repeat([]byte{byte(i + 1)}, d.RowBytes(2*3*32))
		if err := w.Add("t."+d.String(), d, []int{2, 3, 32}, data); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	n, err := w.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes said, %d written: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func TestWriterRoundTrip(t *testing.T) {
	for _, align := range []uint32{0, 8, 256} {
		f := mustParse(t, everything(t, align))
		for key, want := range goldenValues {
			if v, _ := f.Value(key); !reflect.DeepEqual(v.Any(), want) {
				t.Errorf("%s: %#v, expected %#v", key, v.Any(), want)
			}
		}
		v, _ := f.Value("w.[]interface {}")
		if want := []any{[]any{[]string{"deep"}}, []any{}}; !reflect.DeepEqual(v.Any(), want) {
			t.Errorf("nested: %#v, expected %#v", v.Any(), want)
		}
		for i, x := range f.Tensors() {
			d, data, err := f.Data(x.Name)
			if err != nil || "t."+d.String() != x.Name || !slices.Equal(x.Dims(), []int{2, 3, 32}) {
				t.Fatal(x, err)
			}
			if want := bytes.Repeat([]byte{byte(i + 1)}, d.RowBytes(192)); !bytes.Equal(data, want) {
				t.Errorf("%s: data differ", x.Name)
			}
		}
	}
}

// Copying every value and tensor of gguf-py's file gives its bytes again,
// which holds the Writer to the layout of the reference.
func TestWriterReproducesGolden(t *testing.T) {
	want := golden(t)
	f := mustParse(t, want)
	var w Writer
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		if err := w.SetValue(key, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range f.Tensors() {
		d, data, err := f.Data(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(x.Name, d, x.Dims(), data); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes differ from the golden's %d", b.Len(), len(want))
	}
}

func TestWriterRefuses(t *testing.T) {
	var w Writer
	deep := any([]any{[]int8{1}})
	for range maxDepth {
		deep = []any{deep}
	}
	for what, err := range map[string]error{
		"int":         w.Set("k", 1),
		"nil":         w.Set("k", nil),
		"mixed":       w.Set("k", []any{1}),
		"deep":        w.Set("k", deep),
		"empty key":   w.Set("", "x"),
		"alignment":   w.Set(alignmentKey, uint32(24)),
		"align type":  w.Set(alignmentKey, "32"),
		"short data":  w.Add("t", tensor.F32, []int{2}, make([]byte, 7)),
		"split block": w.Add("t", tensor.Q8_0, []int{2, 16}, make([]byte, 34)),
		"no dims":     w.Add("t", tensor.F32, nil, make([]byte, 4)),
		"zero dim":    w.Add("t", tensor.F32, []int{0}, nil),
		"overflow":    w.Add("t", tensor.F32, []int{math.MaxInt, 2}, nil),
		"rank":        w.Add("t", tensor.F32, []int{1, 1, 1, 1, 1}, make([]byte, 4)),
		"no name":     w.Add("", tensor.F32, []int{1}, make([]byte, 4)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if len(w.keys) != 0 || len(w.tensors) != 0 {
		t.Error("something refused was kept")
	}
	for range 2 {
		_ = w.Set("k", "x")
		_ = w.Add("t", tensor.F32, []int{1}, make([]byte, 4))
	}
	if len(w.keys) != 1 || len(w.tensors) != 1 {
		t.Error("a name was taken twice")
	}
}
