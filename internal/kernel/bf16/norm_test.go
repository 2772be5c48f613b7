package bf16

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hotpath/internal/kernel/vec"
)

// byVec is a NormTask by the kernels of vec, one after the other.
func byVec(t *NormTask, r0, r1 int) {
	row := func(v []float32, r int) []float32 { return v[r*t.N:][:t.N] }
	spare := make([]float32, t.N)
	for r := r0; r < r1; r++ {
		x, y := row(t.X, r), spare
		if t.Y != nil {
			y = row(t.Y, r)
		}
		if t.Add != nil {
			sum, add := y, row(t.Add, r)
			if len(t.Sum) > t.N {
				sum = row(t.Sum, r)
			}
			if t.Kind == RMSNormAdd {
				vec.RMSNorm(y, add, t.PreW, t.PreEps)
				add = y
			}
			vec.Add(sum, x, add)
			x = sum
		}
		if t.Kind >= Layer {
			vec.LayerNorm(y, x, t.W, t.Bias, t.Eps)
		} else {
			vec.RMSNorm(y, x, t.W, t.Eps)
		}
		if t.Half != nil {
			RoundRow(t.Half, y, r, t.Rows)
		}
	}
}

// normTask is a task of a kind over random rows, with everything that one can
// have.
func normTask(kind NormKind, rows, n int) NormTask {
	t := NormTask{Kind: kind, N: n, X: random(rows*n, 1), W: random(n, 2), Eps: 1e-5, Y: make([]float32, rows*n), Half: make([]uint16, rows*n), Rows: rows}
	if kind == RMSAdd || kind == RMSNormAdd || kind == LayerAdd {
		t.Add, t.Sum = random(rows*n, 3), make([]float32, rows*n)
	}
	if kind >= Layer {
		t.Bias = random(n, 4)
	}
	if kind == RMSNormAdd {
		t.PreW, t.PreEps = random(n, 5), 1e-6
	}
	return t
}

// TestNorms holds norms to the kernels of vec, bit by bit, whatever is wanted of
// them and however rows are cut.
func TestNorms(t *testing.T) {
	if !CanNorm(normGrain) {
		t.Skip("this machine has no tiles")
	}
	for kind := range numNorms {
		for _, n := range []int{64, 384, 768} {
			for _, rows := range []int{1, 7, 32, 75} {
				for want := 1; want < 8; want++ {
					name := fmt.Sprintf("kind %d, %d rows of %d, wanted %b", kind, rows, n, want)
					var got [2]NormTask
					for i := range got {
						g := normTask(kind, rows, n)
						if want&1 == 0 {
							g.Y = nil
						}
						if want&2 == 0 {
							g.Half = nil
						}
						if want&4 == 0 && g.Add != nil {
							g.Sum = make([]float32, n)
						}
						got[i] = g
					}
					if got[0].Y == nil && got[0].Half == nil {
						continue
					}
					byVec(&got[0], 0, rows)
					cut := rows / 3
					RunNorm(&got[1], 0, cut)
					RunNorm(&got[1], cut, rows)
					if !slices.Equal(got[0].Y, got[1].Y) || !slices.Equal(got[0].Half, got[1].Half) {
						t.Errorf("%s: the result differs", name)
					}
					if len(got[0].Sum) > n && !slices.Equal(got[0].Sum, got[1].Sum) {
						t.Errorf("%s: the sum differs", name)
					}
				}
			}
		}
	}
	// In place, as a plan may lay it out.
	a, b := normTask(Layer, 9, 128), normTask(Layer, 9, 128)
	a.Half, b.Half, b.X = nil, nil, b.Y
	copy(b.X, a.X)
	byVec(&a, 0, 9)
	RunNorm(&b, 0, 9)
	if !slices.Equal(a.Y, b.Y) {
		t.Error("in place the result differs")
	}
	// Where the sum takes the place of what is added to, as each worker keeps it.
	for _, kind := range []NormKind{RMSAdd, RMSNormAdd, LayerAdd} {
		for _, rows := range []int{1, 9, 32} {
			a, b := normTask(kind, rows, 128), normTask(kind, rows, 128)
			b.Sum = b.X
			byVec(&a, 0, rows)
			RunNorm(&b, 0, rows)
			for r := range rows { // byVec stores no sum of one row
				add, sum := a.Add[r*a.N:][:a.N], a.Sum[r*a.N:][:a.N]
				if kind == RMSNormAdd {
					vec.RMSNorm(sum, add, a.PreW, a.PreEps)
					add = sum
				}
				vec.Add(sum, a.X[r*a.N:][:a.N], add)
			}
			if !slices.Equal(a.Sum, b.Sum) || !slices.Equal(a.Y, b.Y) || !slices.Equal(a.Half, b.Half) {
				t.Errorf("kind %d, %d rows: with the sum in place the result differs", kind, rows)
			}
		}
	}
}

// BenchmarkNorm takes turns with the kernels of vec, one after the other, at the
// models' widths: MiniLM's both forms of a norm of a sum, EmbeddingGemma's two
// norms with a sum, SmolLM2's norm of a sum.
func BenchmarkNorm(b *testing.B) {
	if !CanNorm(normGrain) {
		b.Skip("this machine has no tiles")
	}
	for _, c := range []struct {
		name string
		kind NormKind
		n    int
	}{{"minilm", LayerAdd, 384}, {"embeddinggemma", RMSNormAdd, 768}, {"smollm2", RMSAdd, 576}} {
		for _, rows := range []int{16, 128, 512, 4096} {
			b.Run(fmt.Sprintf("%s/rows=%d", c.name, rows), func(b *testing.B) {
				t := normTask(c.kind, rows, c.n)
				if c.kind == LayerAdd {
					t.Sum = t.Sum[:c.n]
				} else {
					t.Y = nil
				}
				var took [2]time.Duration
				for b.Loop() {
					for i, f := range []func(*NormTask, int, int){RunNorm, byVec} {
						start := time.Now()
						f(&t, 0, rows)
						took[i] += time.Since(start)
					}
				}
				per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*rows) }
				b.ReportMetric(per(took[0]), "ns/row")
				b.ReportMetric(per(took[1]), "ns/row-by-vec")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
