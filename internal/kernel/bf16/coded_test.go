package bf16

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// codedTypes are all that have panels of codes.
var codedTypes = []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K}

// coded is the panels of w.
func coded(w *gemm.Stored) *Coded {
	c := &Coded{Data: make([]byte, codes.Bytes(w.DType, w.N, w.K)), DType: w.DType, N: w.N, K: w.K}
	codes.Pack(c.Data, w.Data, w.DType, w.N, w.K, 0, codes.NumPanels(w.N))
	return c
}

// TestCoded holds every tier to float64 sums of rounded activations and weights
// as the file has them: every number of rows, columns that are no whole panels,
// ranges in parts, strides beyond the rows, guards around C.
func TestCoded(t *testing.T) {
	for _, tier := range cpu.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer cpu.Use(tier)()
			for _, d := range codedTypes {
				for m := 1; m <= FewRows; m++ {
					codedCase(t, d, m, []int{16, 50, 7, 96}[m%4], 256*(1+m%2), m%3 == 0)
				}
				if d.Info().BlockLen <= 32 {
					codedCase(t, d, 5, 33, 32, true)
					codedCase(t, d, 16, 64, 96, false)
					codedCase(t, d, 9, 16, 17*32, false)
				}
			}
		})
	}
}

func codedCase(t *testing.T, d tensor.DType, m, n, k int, bias bool) {
	t.Helper()
	w := stored(t, d, n, k)
	lda, ldc := k+3, n+5
	a := random(m*lda, 1)
	const guard = 12345
	c := make([]float32, m*ldc)
	for i := range c {
		c[i] = guard
	}
	task := CodedTask{M: m, A: a, LDA: lda, W: coded(w), C: c, LDC: ldc}
	if bias {
		task.Bias = random(n, 3)
	}
	s := NewCodedScratch(k)
	third := n / 3
	for _, r := range [][2]int{{0, third}, {third, third + 2}, {third + 2, n}} {
		RunCoded(&task, r[0], r[1], s)
	}
	row := make([]float32, k)
	for j := range ldc {
		if j < n {
			if err := tensor.Dequantize(row, d, w.Data[j*w.RowBytes:][:w.RowBytes]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range m {
			got := c[i*ldc+j]
			if j >= n {
				if got != guard {
					t.Fatalf("%v %dx%dx%d: wrote beyond row %d", d, m, n, k, i)
				}
				continue
			}
			var want, size float64
			for x, v := range row {
				p := bf16(a[i*lda+x]) * float64(v)
				want += p
				size += math.Abs(p)
			}
			if bias {
				want += float64(task.Bias[j])
			}
			if math.Abs(float64(got)-want) > 2e-6*(size+1) {
				t.Fatalf("%v %dx%dx%d: C[%d,%d] is %g, expected %g", d, m, n, k, i, j, got, want)
			}
		}
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spin takes three cycles per turn.
func spin(n int) (x uint64) {
	x = 3
	for range n {
		x *= 0x9e3779b97f4a7c15
	}
	return x
}

var sink uint64

// BenchmarkCoded multiplies few rows with weights of the size of a layer: from
// panels of codes and from the file's rows, on tiles and by codes, in turn, and
// reports cycles per 16 x 32 weights, the least of the turns and their median.
func BenchmarkCoded(b *testing.B) {
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K} {
		for _, z := range [][2]int{{64, 576}, {1536, 576}, {576, 1536}, {2048, 2048}} {
			n, k := z[0], z[1]
			if k%d.Info().BlockLen != 0 {
				continue
			}
			w := stored(b, d, n, k)
			for _, m := range []int{1, 2, 4, 6, 8, 12, 16} {
				a, c := random(m*k, 1), make([]float32, m*n)
				fs, cs, gs := NewFewScratch(k), NewCodedScratch(k), gemm.NewCodeScratch(k)
				ways := []struct {
					name string
					run  func()
				}{
					{"coded", func() { RunCoded(&CodedTask{M: m, A: a, LDA: k, W: coded(w), C: c, LDC: n}, 0, n, cs) }},
				}
				cw := coded(w)
				ct := CodedTask{M: m, A: a, LDA: k, W: cw, C: c, LDC: n, Epoch: 1}
				ways[0].run = func() { RunCoded(&ct, 0, n, cs) }
				if CanFew(w) {
					ft := FewTask{M: m, A: a, LDA: k, W: w, C: c, LDC: n, Epoch: 1}
					ways = append(ways, struct {
						name string
						run  func()
					}{"few", func() { RunFew(&ft, 0, n, fs) }})
				}
				if gemm.CanCodes(w) && m <= gemm.CodeRows {
					gt := gemm.CodeTask{M: m, A: a, LDA: k, W: w, C: c, LDC: n, Epoch: 1}
					ways = append(ways, struct {
						name string
						run  func()
					}{"codes", func() { gemm.RunCodes(&gt, 0, n, gs) }})
				}
				b.Run(fmt.Sprintf("%v/n=%d/k=%d/m=%d", d, n, k, m), func(b *testing.B) {
					turns(b, float64(n*k/512), ways)
				})
			}
		}
	}
}
