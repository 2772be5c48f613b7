package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// goldenTypes have files in testdata, made by scripts/goldens_format.py.
var goldenTypes = []struct {
	file string
	d    DType
}{{"f16", F16}, {"bf16", BF16}, {"q8_0", Q8_0}, {"q4_1", Q4_1}}

func readGolden(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func floats(t *testing.T, b []byte) []float32 {
	t.Helper()
	out := make([]float32, len(b)/4)
	if err := Dequantize(out, F32, b); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDequantizeGolden(t *testing.T) {
	for _, g := range goldenTypes {
		want := readGolden(t, "codes."+g.file+".f32")
		got := make([]float32, len(want)/4)
		if err := Dequantize(got, g.d, readGolden(t, "codes."+g.file)); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(got[i]) != w {
				t.Fatalf("%s: element %d: %g, expected %g", g.d, i, got[i], math.Float32frombits(w))
			}
		}
	}
}

func TestQuantizeGolden(t *testing.T) {
	src := floats(t, readGolden(t, "source.f32"))
	for _, g := range goldenTypes {
		if g.d == Q4_1 { // Quantize finds a better scale: TestErrorsAgainstLlamaCpp
			continue
		}
		want := readGolden(t, "source."+g.file)
		got := make([]byte, len(want))
		if err := Quantize(got, g.d, src); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: byte %d: %#x, expected %#x", g.d, i, got[i], want[i])
			}
		}
	}
}

// Every half must widen to what its fields say and come back unchanged.
func TestF16Exhaustive(t *testing.T) {
	for h := range 1 << 16 {
		sign, exp, frac := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Copysign(math.Ldexp(frac/1024, -14), sign)
		case exp == 31 && frac == 0:
			want = math.Inf(int(sign))
		case exp == 31:
			want = math.NaN()
		}
		got := F16ToF32(uint16(h))
		if math.IsNaN(want) {
			if got == got {
				t.Fatalf("%#04x: %g, expected NaN", h, got)
			}
			if back := F32ToF16(got); back != uint16(h)|0x200 {
				t.Fatalf("%#04x comes back as %#04x, expected it quieted", h, back)
			}
			continue
		}
		if math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("%#04x: %g, expected %g", h, got, want)
		}
		if back := F32ToF16(got); back != uint16(h) {
			t.Fatalf("%#04x comes back as %#04x", h, back)
		}
	}
}

// Between two neighbours the nearer wins, and half way the even one.
func TestRoundingTies(t *testing.T) {
	for h := uint16(0); h < 0x7c00; h++ {
		lo := F16ToF32(h)
		hi := float32(65536)
		if h+1 < 0x7c00 {
			hi = F16ToF32(h + 1)
		}
		checkTie(t, "F16", lo, hi, h, F32ToF16)
	}
	for h := uint16(0); h < 0x7f7f; h++ {
		checkTie(t, "BF16", BF16ToF32(h), BF16ToF32(h+1), h, F32ToBF16)
	}
}

func checkTie(t *testing.T, name string, lo, hi float32, h uint16, round func(float32) uint16) {
	t.Helper()
	mid := lo + (hi-lo)/2
	even := h + h&1
	for _, c := range []struct {
		x    float32
		want uint16
	}{{mid, even}, {math.Nextafter32(mid, lo), h}, {math.Nextafter32(mid, hi), h + 1}} {
		if got := round(c.x); got != c.want {
			t.Fatalf("%s: %g: %#04x, expected %#04x", name, c.x, got, c.want)
		}
		if got := round(-c.x); got != c.want|0x8000 {
			t.Fatalf("%s: %g: %#04x, expected %#04x", name, -c.x, got, c.want|0x8000)
		}
	}
}

func TestBF16Special(t *testing.T) {
	for _, c := range []struct {
		bits uint32
		want uint16
	}{
		{0x7f800000, 0x7f80}, {0xff800000, 0xff80}, // infinities
		{0x7f800001, 0x7fc0}, {0xffffffff, 0xffff}, // NaN, never an infinity
		{0x7f7fffff, 0x7f80}, // the largest float rounds up
	} {
		if got := F32ToBF16(math.Float32frombits(c.bits)); got != c.want {
			t.Errorf("%#x: %#04x, expected %#04x", c.bits, got, c.want)
		}
	}
}

// What was decoded encodes to the same values again.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	src := make([]float32, 256*3)
	for i := range src {
		src[i] = float32(rng.NormFloat64())
	}
	for _, d := range Codecs() {
		once, twice := make([]byte, d.RowBytes(len(src))), make([]byte, d.RowBytes(len(src)))
		x := make([]float32, len(src))
		for _, err := range []error{Quantize(once, d, src), Dequantize(x, d, once), Quantize(twice, d, x)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		tol := map[DType]float32{F16: 0.003, BF16: 0.02, Q8_0: 0.025, Q4_0: 0.4, Q4_1: 0.4, Q5_0: 0.2, Q5_1: 0.2,
			Q2_K: 1.2, Q3_K: 0.8, Q4_K: 0.4, Q5_K: 0.2, Q6_K: 0.1, IQ4_NL: 0.6, IQ4_XS: 0.6, MXFP4: 1}[d]
		for i := range x {
			if diff := x[i] - src[i]; diff > tol || -diff > tol {
				t.Fatalf("%s: element %d: %g, expected %g within %g", d, i, x[i], src[i], tol)
			}
		}
		if !d.Quantized() && !bytes.Equal(once, twice) {
			t.Errorf("%s: a second round trip changed bytes", d)
		}
	}
}

func TestCodecErrors(t *testing.T) {
	buf := make([]byte, 68)
	for name, err := range map[string]error{
		"partial block": Dequantize(make([]float32, 33), Q8_0, buf),
		"short source":  Dequantize(make([]float32, 64), Q8_0, buf[:67]),
		"long source":   Dequantize(make([]float32, 32), Q8_0, buf),
		"short target":  Quantize(buf[:33], Q8_0, make([]float32, 32)),
		"no codec":      Dequantize(make([]float32, 1), I32, buf[:4]),
		"no type":       Dequantize(make([]float32, 1), numDTypes, buf[:4]),
	} {
		if err == nil {
			t.Errorf("%s: expected an error", name)
		}
	}
	if err := Dequantize(make([]float32, 1), I32, buf[:4]); !errors.Is(err, ErrNoCodec) {
		t.Errorf("I32: %v, expected ErrNoCodec", err)
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e9} {
		x := make([]float32, 512)
		x[440] = bad
		for _, d := range Codecs() {
			if !d.Quantized() || d == MXFP4 && bad == 1e9 {
				continue
			}
			if err := Quantize(make([]byte, d.RowBytes(len(x))), d, x); err == nil {
				t.Errorf("%s: %g was accepted", d, bad)
			}
		}
	}
	tiny := make([]float32, 32) // 1/scale overflows
	tiny[3] = 1e-40
	out := make([]byte, 34)
	if err := Quantize(out, Q8_0, tiny); err != nil || !bytes.Equal(out, make([]byte, 34)) {
		t.Errorf("tiny values: %v, %v, expected zeros", out, err)
	}
}

// The copy that little-endian machines make and the loop of the others agree.
func TestF32EitherEndian(t *testing.T) {
	src := readGolden(t, "source.f32")
	native := littleEndian
	defer func() { littleEndian = native }()
	for _, little := range []bool{native, false} {
		littleEndian = little
		x := floats(t, src)
		if want := math.Float32frombits(binary.LittleEndian.Uint32(src[4*100:])); x[100] != want {
			t.Errorf("element 100: %g, expected %g", x[100], want)
		}
		b := make([]byte, len(src))
		if err := Quantize(b, F32, x); err != nil || !bytes.Equal(b, src) {
			t.Errorf("F32 does not come back: %v", err)
		}
	}
}

func TestCodecsAllocateNothing(t *testing.T) {
	x, b := make([]float32, 256), make([]byte, 1024)
	for _, d := range Codecs() {
		n := testing.AllocsPerRun(10, func() {
			b := b[:d.RowBytes(len(x))]
			if Quantize(b, d, x) != nil || Dequantize(x, d, b) != nil {
				t.Error("conversion failed")
			}
		})
		if n != 0 {
			t.Errorf("%s: %g allocations", d, n)
		}
	}
}

func BenchmarkDequantize(b *testing.B) {
	const n = 1 << 16
	dst := make([]float32, n)
	for _, d := range Codecs() {
		src := make([]byte, d.RowBytes(n))
		for i := range src {
			src[i] = byte(i*7) & 0xbb
		}
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := Dequantize(dst, d, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
