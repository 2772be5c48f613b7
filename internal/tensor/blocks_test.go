package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// blockTypes have random blocks in testdata, made by scripts/goldens_quant.py.
var blockTypes = []DType{Q4_0, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4}

// Every bit of what gguf decodes.
func TestBlocksGolden(t *testing.T) {
	for _, d := range blockTypes {
		file := "blocks." + strings.ToLower(d.String())
		src, want := readGolden(t, file), readGolden(t, file+".f32")
		got := make([]float32, len(want)/4)
		if err := Dequantize(got, d, src); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(got[i]) != w {
				t.Fatalf("%s: element %d: %g, expected %g", d, i, got[i], math.Float32frombits(w))
			}
		}
		part := make([]float32, 96)
		for first := 0; first+96 <= len(got); first += 32 {
			if err := DequantizeFrom(part, d, src, first); err != nil {
				t.Fatal(err)
			}
			for i := range part {
				if math.Float32bits(part[i]) != math.Float32bits(got[first+i]) {
					t.Fatalf("%s from %d: element %d: %g, expected %g", d, first, i, part[i], got[first+i])
				}
			}
		}
	}
}

func TestDequantizeFromRefuses(t *testing.T) {
	src := make([]byte, 2*144)
	for name, err := range map[string]error{
		"split group":  DequantizeFrom(make([]float32, 32), Q4_K, src, 16),
		"short group":  DequantizeFrom(make([]float32, 16), Q4_K, src, 0),
		"past the end": DequantizeFrom(make([]float32, 64), Q4_K, src, 480),
		"negative":     DequantizeFrom(make([]float32, 32), Q4_K, src, -32),
		"no codec":     DequantizeFrom(make([]float32, 1), I32, src, 0),
		"no type":      DequantizeFrom(make([]float32, 1), numDTypes, src, 0),
	} {
		if err == nil {
			t.Errorf("%s: expected an error", name)
		}
	}
}

// The errors that llama.cpp's quantizers leave are never below ours.
func TestErrorsAgainstLlamaCpp(t *testing.T) {
	var golden struct {
		Rows, Cols int
		Sources    []string
		Theirs     map[string]map[string][2]float64 `json:"llama.cpp"`
	}
	if err := json.Unmarshal(readGolden(t, "errors.json"), &golden); err != nil {
		t.Fatal(err)
	}
	all, weight := floats(t, readGolden(t, "errors.f32")), floats(t, readGolden(t, "errors.weight"))
	for name, bySource := range golden.Theirs {
		d, ok := ByName(name)
		if !ok {
			t.Fatal(name)
		}
		for i, source := range golden.Sources {
			x := all[i*golden.Rows*golden.Cols:][:golden.Rows*golden.Cols]
			for k, w := range [][]float32{nil, weight} {
				ours, theirs := squareError(t, d, x, w, golden.Cols), bySource[source][k]
				t.Logf("%-7s %-8s weighted %-5v ours/theirs %.4f", d, source, w != nil, math.Sqrt(ours/theirs))
				if ours > theirs*(1+1e-6) {
					t.Errorf("%s: %s, weighted %v: square error %g, llama.cpp's is %g", d, source, w != nil, ours, theirs)
				}
			}
		}
	}
}

func squareError(t *testing.T, d DType, x, w []float32, cols int) (sum float64) {
	t.Helper()
	b, back := make([]byte, d.RowBytes(cols)), make([]float32, cols)
	for ; len(x) > 0; x = x[cols:] {
		if err := QuantizeWeighted(b, d, x[:cols], w); err != nil {
			t.Fatal(err)
		}
		if err := Dequantize(back, d, b); err != nil {
			t.Fatal(err)
		}
		for i, v := range back {
			e := float64(v) - float64(x[i])
			if w != nil {
				e *= math.Sqrt(float64(w[i]))
			}
			sum += e * e
		}
	}
	return sum
}

// Awkward blocks: nothing panics, and what comes back is as near as the
// encoding allows.
func TestQuantizeAwkward(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	fill := func(f func(i int) float32) []float32 {
		x := make([]float32, 256)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	blocks := map[string][]float32{
		"zeros":     fill(func(int) float32 { return 0 }),
		"same":      fill(func(int) float32 { return 3.25 }),
		"negative":  fill(func(int) float32 { return -float32(rng.ExpFloat64()) }),
		"positive":  fill(func(int) float32 { return 5 + rng.Float32() }),
		"one":       fill(func(i int) float32 { return map[bool]float32{true: -7}[i == 77] }),
		"tiny":      fill(func(int) float32 { return 1e-40 * rng.Float32() }),
		"subnormal": fill(func(int) float32 { return 1e-7 * rng.Float32() }),
		"large":     fill(func(int) float32 { return 1e4 * (rng.Float32() - 0.5) }),
		"steps":     fill(func(i int) float32 { return float32(i % 16) }),
	}
	zero, sparse := make([]float32, 256), make([]float32, 256)
	sparse[3], sparse[200] = 1, 1e-30
	for name, x := range blocks {
		for _, d := range Codecs() {
			for _, w := range [][]float32{nil, zero, sparse} {
				b := make([]byte, d.RowBytes(256))
				if err := QuantizeWeighted(b, d, x, w); err != nil {
					t.Errorf("%s %s: %v", d, name, err)
				}
			}
			var power, limit float64
			for _, v := range x {
				power += float64(v) * float64(v)
			}
			limit = power*0.1 + 1e-12
			if e := squareError(t, d, x, nil, 256); e > limit {
				t.Errorf("%s %s: square error %g of %g", d, name, e, power)
			}
		}
	}
	for name, w := range map[string][]float32{"short": make([]float32, 255), "negative": fill(func(int) float32 { return -1 }),
		"nan": fill(func(int) float32 { return float32(math.NaN()) }), "inf": fill(func(int) float32 { return float32(math.Inf(1)) })} {
		if err := QuantizeWeighted(make([]byte, 144), Q4_K, blocks["steps"], w); err == nil {
			t.Errorf("weights %s: accepted", name)
		}
	}
}

func TestByName(t *testing.T) {
	for _, d := range Codecs() {
		if got, ok := ByName(strings.ToLower(d.String())); !ok || got != d {
			t.Errorf("%s: %v", d, got)
		}
	}
	if d, ok := ByName("q9_9"); ok {
		t.Errorf("q9_9 is %s", d)
	}
}

// FuzzCodecs: whatever floats the bytes are, encoding and decoding them ends,
// and what was encoded decodes to finite numbers.
func FuzzCodecs(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 0, 128, 63}, 16), uint8(Q4_K))
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 255, 255, 127, 127}, 8), uint8(IQ4_XS))
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		all := Codecs()
		d := all[int(kind)%len(all)]
		x, w := make([]float32, 256), make([]float32, 256)
		for i := range x {
			if 4*i+4 <= len(data) {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			if i < len(data) {
				w[i] = float32(data[i])
			}
		}
		b, back := make([]byte, d.RowBytes(256)), make([]float32, 256)
		if QuantizeWeighted(b, d, x, w) != nil || !d.Quantized() {
			return
		}
		if err := Dequantize(back, d, b); err != nil {
			t.Fatal(err)
		}
		for i, v := range back {
			if v-v != 0 && d != MXFP4 {
				t.Fatalf("%s: element %d: %g from %g", d, i, v, x[i])
			}
		}
	})
}
