package bf16

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hotpath/internal/tensor"
)

// acts are the definitions in float64.
var acts = [numActs]func(x float64) float64{
	Plain:    func(x float64) float64 { return x },
	Gelu:     func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) },
	GeluTanh: func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
	Silu:     func(x float64) float64 { return x / (1 + math.Exp(-x)) },
}

// TestRounded holds rounded products to float64: within half a step of bf16
// and what the activations' approximations are allowed.
func TestRounded(t *testing.T) {
	if !CanRound(NR) {
		t.Skip("this machine has no tiles")
	}
	for _, z := range [][3]int{{1, 32, 32}, {16, 64, 96}, {31, 32, 64}, {33, 96, 100}, {64, 64, 32}, {100, 32, 384}, {600, 64, 1536}} {
		m, n, k := z[0], z[1], z[2]
		a, w, w2 := random(m*k, 1), random(n*k, 2), random(n*k, 3)
		for i := range w {
			w[i] /= float32(math.Sqrt(float64(k))) / 2
			w2[i] /= float32(math.Sqrt(float64(k)))
		}
		bias, bias2 := random(n, 4), random(n, 5)
		first := exact(a, w, bias, m, n, k)
		second := exact(a, w2, bias2, m, n, k)
		half := make([]uint16, m*k)
		if k%kStep == 0 {
			for i, x := range a {
				half[blockAt(i/k, i%k, m, k)] = tensor.F32ToBF16(x)
			}
		}
		for act := range numActs {
			for _, glu := range []bool{false, true} {
				if glu && act == Plain {
					continue
				}
				out := make([]uint16, m*n+1)
				task := &RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: pack(w, n, k), Bias: bias, Act: act, Out: out}
				if glu {
					task.B2, task.Bias2 = pack(w2, n, k), bias2
				}
				if k%kStep == 0 {
					task.A, task.Rounded = nil, half
				}
				s, mid := NewScratch(k), m/3/MR*MR
				RunRounded(task, 0, mid, 0, n/NR, s)
				RunRounded(task, mid, m, 0, 1, s)
				RunRounded(task, mid, m, 1, n/NR, s)
				if out[m*n] != 0 {
					t.Fatalf("%v: wrote beyond the end", z)
				}
				for i := range m * n {
					want := acts[act](first[i])
					size := math.Abs(first[i])
					if glu {
						want *= second[i]
						size *= math.Abs(second[i]) + 1
					}
					got := float64(tensor.BF16ToF32(out[blockAt(i/n, i%n, m, n)]))
					if d := math.Abs(got - want); !(d <= math.Abs(want)/255+1e-4*(size+1)) {
						t.Fatalf("%v act %d glu %v: out[%d] is %g, expected %g (before: %g)", z, act, glu, i, got, want, first[i])
					}
				}
			}
		}
	}
}

func exact(a, w, bias []float32, m, n, k int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			sum := float64(bias[j])
			for x := range k {
				sum += bf16(a[i*k+x]) * bf16(w[j*k+x])
			}
			out[i*n+j] = sum
		}
	}
	return out
}

// TestRoundedWalks: packed panels, along them and down the rows, in one call and
// in several, give the bits that panels give one at a time, whichever operand
// has a bias.
func TestRoundedWalks(t *testing.T) {
	if !CanRound(NR) {
		t.Skip("this machine has no tiles")
	}
	for _, z := range [][3]int{{64, 320, 64}, {75, 1056, 96}, {300, 1536, 384}} {
		m, n, k := z[0], z[1], z[2]
		a, w, w2, biases := random(m*k, 1), pack(random(n*k, 2), n, k), pack(random(n*k, 3), n, k), random(2*n, 4)
		for i := range 8 {
			var out [2][]uint16
			for j := range out {
				out[j] = make([]uint16, m*n)
				task := RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: w, Act: Silu, Out: out[j]}
				if i&1 != 0 {
					task.Bias = biases[:n]
				}
				if i&2 != 0 {
					task.Bias2 = biases[n:]
				}
				if i&4 != 0 {
					task.B2 = w2
				}
				if j == 1 {
					task.B = single{w}
					if task.B2 != nil {
						task.B2 = single{w2}
					}
				}
				RunRounded(&task, 0, m, 0, n/NR, NewScratch(k))
			}
			for j, x := range out[0] {
				if x != out[1][j] {
					t.Fatalf("%v, variant %d: value %d is %#x, of single panels %#x", z, i, j, x, out[1][j])
				}
			}
		}
	}
}

// TestRoundedRows: a row's result depends on nothing but the row, wherever in
// a block it lies.
func TestRoundedRows(t *testing.T) {
	if !CanRound(NR) {
		t.Skip("this machine has no tiles")
	}
	const n, k = 64, 96
	x, w := random(k, 1), pack(random(n*k, 2), n, k)
	for act := range numActs {
		var want []uint16
		for _, m := range []int{1, 7, 32, 45, 200} {
			a := random(m*k, 7)
			copy(a[(m-1)*k:], x)
			out := make([]uint16, m*n)
			RunRounded(&RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: w, Act: act, Out: out}, 0, m, 0, n/NR, NewScratch(k))
			last := make([]uint16, n)
			for i := range last {
				last[i] = out[blockAt(m-1, i, m, n)]
			}
			if want == nil {
				want = last
			}
			for i := range last {
				if last[i] != want[i] {
					t.Fatalf("act %d: column %d of the last of %d rows is %#x, of the only one %#x", act, i, m, last[i], want[i])
				}
			}
		}
	}
}

// TestRoundRow: rows that are rounded one by one lie where all of them at once
// do.
func TestRoundRow(t *testing.T) {
	if !CanRound(NR) {
		t.Skip("this machine has no tiles")
	}
	for _, k := range []int{32, 96, 384} {
		for _, m := range []int{1, 16, 31, 32, 33, 70} {
			a, want, got := random(m*k, 1), make([]uint16, m*k), make([]uint16, m*k)
			Round(want, a, k, m, k)
			for r := range m {
				RoundRow(got, a[r*k:][:k], r, m)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d rows of %d values differ", m, k)
			}
		}
	}
}

// TestRoundedExtremes: infinities, NaN and large values come out as the
// activations define them.
func TestRoundedExtremes(t *testing.T) {
	if !CanRound(NR) {
		t.Skip("this machine has no tiles")
	}
	values := []float32{0, 1e-30, -1e-30, 5, -5, 20, -20, 100, -100, 1e4, -1e4, 1e30, float32(math.NaN()), float32(math.Inf(1))}
	for act := range numActs {
		for i, v := range values {
			// One product of 1 and the value, so that the sum is the value.
			a, w := make([]float32, kStep), make([]float32, NR*kStep)
			a[0] = 1
			for j := range NR {
				w[j*kStep] = v
			}
			out := make([]uint16, NR)
			RunRounded(&RoundedTask{M: 1, N: NR, K: kStep, A: a, LDA: kStep, B: pack(w, NR, kStep), Act: act, Out: out}, 0, 1, 0, 1, NewScratch(kStep))
			got, want := float64(tensor.BF16ToF32(out[0])), acts[act](bf16(v))
			if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && !math.IsInf(want, 0) && math.Abs(got-want) > math.Abs(want)/255+1e-4 {
				t.Errorf("act %d of value %d, %g: %g, expected %g", act, i, v, got, want)
			}
		}
	}
}

func BenchmarkRounded(b *testing.B) {
	if !CanRound(NR) {
		b.Skip("this machine has no tiles")
	}
	const m, n, k = 256, 1536, 384
	a, w := random(m*k, 1), pack(random(n*k, 2), n, k)
	w2 := pack(random(n*k, 3), n, k)
	for act := range numActs {
		for _, glu := range []bool{false, true} {
			if glu && act == Plain {
				continue
			}
			b.Run(fmt.Sprintf("act=%d/glu=%v", act, glu), func(b *testing.B) {
				t, s, flops := &RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: w, Act: act, Out: make([]uint16, m*n)}, NewScratch(k), 2.0*m*n*k
				if glu {
					t.B2 = w2
					flops *= 2
				}
				b.ReportAllocs()
				for b.Loop() {
					RunRounded(t, 0, m, 0, n/NR, s)
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
	b.Run("f32", func(b *testing.B) {
		t, s := &Task{M: m, N: n, K: k, A: a, LDA: k, B: w, C: make([]float32, m*n), LDC: n}, NewScratch(k)
		for b.Loop() {
			Run(t, 0, m, 0, n/NR, s)
		}
		b.ReportMetric(2.0*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
}
