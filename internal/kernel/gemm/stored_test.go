package gemm

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

var storedTypes = tensor.Codecs()

// store encodes n rows of k noisy values and returns the weights, at an odd
// address, with what they decode to.
func store(t testing.TB, rng *rand.Rand, d tensor.DType, n, k int) (*Stored, []float32) {
	t.Helper()
	size := n * d.RowBytes(k)
	odd := 2 // f32 views need 4: F32 runs unaligned on purpose
	data := append(make([]byte, odd, odd+size), make([]byte, size)...)[odd:]
	if err := tensor.Quantize(data, d, noise(rng, n*k)); err != nil {
		t.Fatal(err)
	}
	w, err := NewStored(data, d, n, k)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, n*k)
	if err := tensor.Dequantize(values, d, data); err != nil {
		t.Fatal(err)
	}
	return w, values
}

func lengthsOf(d tensor.DType) []int {
	switch d.Info().BlockLen {
	case 256:
		return []int{256, 768}
	case 32:
		return []int{32, 64, 96, 160, 576}
	}
	return []int{1, 5, 31, 32, 33, 64, 100, 417}
}

func TestDequantizeIsExact(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, d := range storedTypes {
			for _, k := range lengthsOf(d) {
				w, want := store(t, rng, d, 1, k)
				dst, intact := poisoned(k)
				Dequantize(dst, d, w.Data)
				same(t, fmt.Sprint(d, k), dst, want)
				if !intact() {
					t.Fatalf("%v of %d: wrote outside", d, k)
				}
			}
		}
		// Any scale a half can hold, denormal ones too, and any codes.
		for _, d := range storedTypes {
			info := d.Info()
			if d == tensor.F32 || d == tensor.BF16 {
				continue
			}
			n := max(info.BlockLen, 32)
			b := make([]byte, d.RowBytes(n))
			got, want := make([]float32, n), make([]float32, n)
			for h := 0; h < 1<<16; h += 137 {
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				for _, i := range halves[d] {
					b[i], b[i+1] = byte(h), byte(h>>8)
				}
				if err := tensor.Dequantize(want, d, b); err != nil {
					t.Fatal(err)
				}
				Dequantize(got, d, b)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
						t.Fatalf("%v with scale %#04x: value %d = %g, want %g", d, h, i, got[i], want[i])
					}
				}
			}
		}
	})
}

// halves is where the scales and minima of a block lie.
var halves = map[tensor.DType][]int{
	tensor.F16: {0, 2}, tensor.Q8_0: {0}, tensor.Q4_0: {0}, tensor.Q4_1: {0, 2}, tensor.Q5_0: {0}, tensor.Q5_1: {0, 2},
	tensor.Q2_K: {80, 82}, tensor.Q3_K: {108}, tensor.Q4_K: {0, 2}, tensor.Q5_K: {0, 2}, tensor.Q6_K: {208}, tensor.IQ4_NL: {0}, tensor.IQ4_XS: {0},
}

func TestDequantizePanicsOnWrongLength(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("33 bytes for a block of 34 did not panic")
		}
	}()
	Dequantize(make([]float32, 32), tensor.Q8_0, make([]byte, 33))
}

func TestStoredPanels(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(2, 2))
		for _, d := range storedTypes {
			for _, k := range lengthsOf(d) {
				for _, n := range []int{1, 9, 32, 45} {
					w, values := store(t, rng, d, n, k)
					for _, pair := range []struct {
						name      string
						got, want Panels
						n, k      int
					}{
						{"forward", w, Rows{W: values, N: n, K: k, LD: k}, n, k},
						{"transposed", StoredT{w}, Natural{W: values, N: k, K: n, LD: k}, k, n},
					} {
						for p := range NumPanels(pair.n) {
							for k0 := 0; k0 < pair.k; k0 += 320 {
								k1 := min(pair.k, k0+320)
								dst, intact := poisoned((k1-k0)*NR() + UnpackLen)
								want := make([]float32, (k1-k0)*NR())
								name := fmt.Sprintf("%s %v [%d,%d] panel %d from %d", pair.name, d, n, k, p, k0)
								same(t, name, pair.got.Panel(p, k0, k1, dst), pair.want.Panel(p, k0, k1, want))
								if !intact() {
									t.Fatalf("%s: wrote outside", name)
								}
							}
						}
					}
				}
			}
		}
	})
}

func TestGemvRows(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(3, 3))
		for _, d := range storedTypes {
			for _, k := range lengthsOf(d) {
				const n = 23
				w, values := store(t, rng, d, n, k)
				x := noise(rng, k)
				xs := make([]float32, XSumsLen(k))
				XSums(xs, x, d)
				whole, intact := poisoned(n)
				GemvRows(whole, w, x, xs, 0, n)
				if !intact() {
					t.Fatalf("%v of %d: wrote outside", d, k)
				}
				for r := range n {
					var want, mag float64
					for i := range k {
						p := float64(values[r*k+i]) * float64(x[i])
						want += p
						mag += math.Abs(p)
					}
					// The codes of Q4_1 and their minimum are summed apart.
					if got := whole[r]; !(math.Abs(float64(got)-want) <= 1e-6*(mag+1)) {
						t.Fatalf("%v of %d: row %d = %g, want %g", d, k, r, got, want)
					}
				}
				parts, _ := poisoned(n)
				for _, c := range [][2]int{{0, 1}, {1, 4}, {4, 12}, {12, 12}, {12, 21}, {21, n}} {
					GemvRows(parts, w, x, xs, c[0], c[1])
				}
				same(t, fmt.Sprint("parts of ", d, k), parts, whole)
			}
		}
	})
}

// TestGemvLongRange crosses the bound on one assembly call.
func TestGemvLongRange(t *testing.T) {
	const n, k = 4*40 + 3, 4096
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(4, 4))
		w, _ := store(t, rng, tensor.F32, n, k)
		x := noise(rng, k)
		whole, single := make([]float32, n), make([]float32, n)
		GemvRows(whole, w, x, nil, 0, n)
		for r := range n {
			GemvRows(single, w, x, nil, r, r+1)
		}
		same(t, "row by row", single, whole)
		MulRows(whole, n, w, x, k, 1, 0, n)
		for r := range n {
			MulRows(single, n, w, x, k, 1, r, r+1)
		}
		same(t, "MulRows row by row", single, whole)
	})
}

func TestMulRows(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(6, 6))
		for _, d := range storedTypes {
			for _, k := range lengthsOf(d) {
				const n, most = 23, 9
				w, values := store(t, rng, d, n, k)
				ldx, ldd := k+3, n+2
				x := noise(rng, most*ldx)
				var first []float32
				for m := 1; m <= most; m++ {
					dst, intact := poisoned((m-1)*ldd + n)
					MulRows(dst, ldd, w, x, ldx, m, 0, n)
					if !intact() {
						t.Fatalf("%v of %d, %d rows: wrote outside", d, k, m)
					}
					for i := range m {
						for r := range n {
							var want, mag float64
							for c := range k {
								p := float64(values[r*k+c]) * float64(x[i*ldx+c])
								want += p
								mag += math.Abs(p)
							}
							if got := dst[i*ldd+r]; !(math.Abs(float64(got)-want) <= 1e-6*(mag+1)) {
								t.Fatalf("%v of %d, %d rows: [%d,%d] = %g, want %g", d, k, m, i, r, got, want)
							}
						}
						if i < m-1 && (dst[i*ldd+n] == dst[i*ldd+n] || dst[i*ldd+n+1] == dst[i*ldd+n+1]) {
							t.Fatalf("%v of %d, %d rows: wrote right of row %d", d, k, m, i)
						}
					}
					if m == 1 {
						first = dst
					}
					same(t, fmt.Sprintf("%v of %d: row 0 among %d", d, k, m), dst[:n], first)
					parts, _ := poisoned((m-1)*ldd + n)
					for _, c := range [][2]int{{0, 1}, {1, 4}, {4, 12}, {12, 12}, {12, 21}, {21, n}} {
						MulRows(parts, ldd, w, x, ldx, m, c[0], c[1])
					}
					for i := range m {
						same(t, fmt.Sprintf("%v of %d: parts of %d", d, k, m), parts[i*ldd:][:n], dst[i*ldd:][:n])
					}
				}
			}
		}
	})
}

func TestNewStoredRefuses(t *testing.T) {
	for _, c := range []struct {
		bytes int
		d     tensor.DType
		n, k  int
	}{{100, tensor.I32, 1, 25}, {68, tensor.Q8_0, 2, 33}, {67, tensor.Q8_0, 2, 32}, {4, tensor.F32, -1, 1}, {0, tensor.F16, 1, 1}} {
		if _, err := NewStored(make([]byte, c.bytes), c.d, c.n, c.k); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	if !bytes.Equal((&Stored{Data: []byte{1, 2, 3, 4}, DType: tensor.F16, N: 2, K: 1, RowBytes: 2}).part(1, 0, 1), []byte{3, 4}) {
		t.Error("part of row 1 is not its bytes")
	}
}

func TestStoredAllocatesNothing(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q2_K, tensor.Q3_K, tensor.IQ4_NL, tensor.IQ4_XS, tensor.MXFP4} {
			k := max(96, d.Info().BlockLen)
			w, _ := store(t, rng, d, 40, k)
			x, xs, dst := noise(rng, k), make([]float32, XSumsLen(k)), make([]float32, 40)
			s := NewScratch(nil)
			task := &Task{M: 5, N: 40, K: k, A: noise(rng, 5*k), LDA: k, B: w, C: make([]float32, 200), LDC: 40}
			if n := testing.AllocsPerRun(5, func() {
				XSums(xs, x, d)
				GemvRows(dst, w, x, xs, 0, 40)
				MulRows(task.C, 40, w, task.A, k, 5, 0, 39)
				MulRows(task.C, 40, w, task.A, k, 1, 39, 40)
				Run(task, 0, 5, 0, NumPanels(40), s)
			}); n != 0 {
				t.Errorf("%v: %v allocations", d, n)
			}
		}
	})
}

// TestPanelsDecode: panels are decoded into the values of the file's rows, any
// part of them.
func TestPanelsDecode(t *testing.T) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, d := range codes.Types() {
			const n, k = 45, 512
			w := codeWeights(t, d, n, k)
			p := panelsOf(t, w)
			for _, c := range [][4]int{{0, n, 0, k}, {3, 20, 64, 256}, {16, 16, 32, 64}, {44, 1, 448, 64}, {0, 1, 0, k}} {
				n0, rows, k0, cols := c[0], c[1], c[2], c[3]
				want, got := make([]float32, rows*cols), make([]float32, rows*cols)
				w.Decode(want, cols, n0, rows, k0, cols)
				if p.Decode(got, cols, n0, rows, k0, cols); !slices.Equal(got, want) {
					t.Fatalf("%v, %v: rows %d, columns %d of panels differ from the file's", tier, d, n0, k0)
				}
			}
		}
	}
}
