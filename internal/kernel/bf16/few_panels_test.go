package bf16

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// inPanels is w in panels of codes.
func inPanels(tb testing.TB, w *gemm.Stored) *gemm.Stored {
	tb.Helper()
	data := make([]byte, codes.Bytes(w.DType, w.N, w.K))
	codes.Pack(data, w.Data, w.DType, w.N, w.K, 0, codes.NumPanels(w.N))
	p, err := gemm.NewPanels(data, w.DType, w.N, w.K)
	if err != nil {
		tb.Fatal(err)
	}
	p.Halves = codes.Halves(data, w.DType, w.K, 0, codes.NumPanels(w.N))
	return p
}

// BenchmarkFewPanels multiplies few rows with weights of the size of a layer, in
// panels of codes and as the file has them, on tiles and by codes, in turn. It
// reports cycles per 16 x 32 weights: the least of all turns (-benchtime 100x for
// a hundred), which other programs disturb least, and the median.
func BenchmarkFewPanels(b *testing.B) {
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K} {
		for _, z := range [][2]int{{1536, 576}, {576, 1536}, {2048, 2048}} {
			n, k := z[0], z[1]
			if k%d.Info().BlockLen != 0 {
				continue
			}
			rows := stored(b, d, n, k)
			panels := inPanels(b, rows)
			for _, m := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
				a, c := random(m*k, 1), make([]float32, m*n)
				var ways []benchWay
				for _, w := range []*gemm.Stored{panels, rows} {
					from := map[bool]string{true: "panels", false: "rows"}[w.InPanels]
					if CanFew(w) {
						task, s := FewTask{M: m, A: a, LDA: k, W: w, C: c, LDC: n}, NewFewScratch(k)
						ways = append(ways, benchWay{"tiles-" + from, func() { RunFew(&task, 0, n, s) }})
					}
					if gemm.CanCodes(w) && m <= gemm.CodeRows {
						task, s := gemm.CodeTask{M: m, A: a, LDA: k, W: w, C: c, LDC: n}, gemm.NewCodeScratch(k)
						ways = append(ways, benchWay{"codes-" + from, func() { gemm.RunCodes(&task, 0, n, s) }})
					}
				}
				b.Run(fmt.Sprintf("%v/n=%d/k=%d/rows=%d", d, n, k, m), func(b *testing.B) {
					benchTurns(b, float64(n*k/512), ways)
				})
			}
		}
	}
}

type benchWay struct {
	name string
	run  func()
}

// benchTurns runs ways in turn, b.N times, and reports cycles per unit of each.
func benchTurns(b *testing.B, units float64, ways []benchWay) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([][]float64, len(ways))
	const multiplications = 20000 // one after the other, of three cycles each
	cycle, x := 1e9, uint64(3)
	for range b.N {
		start := time.Now()
		for range multiplications {
			x *= 0x9e3779b97f4a7c15
		}
		cycle = min(cycle, float64(time.Since(start))/(3*multiplications))
		for i, w := range ways {
			w.run()
			for range 4 {
				start := time.Now()
				w.run()
				took[i] = append(took[i], float64(time.Since(start))/units)
			}
		}
	}
	if x == 0 {
		b.Fatal("a product of odd numbers is even")
	}
	for i, w := range ways {
		slices.Sort(took[i])
		b.ReportMetric(took[i][0]/cycle, w.name+"-cycles")
		b.ReportMetric(took[i][len(took[i])/2]/cycle, w.name+"-median")
	}
}

// TestPanelCodes: a product with one activation of 1 is the weight itself, for
// every code of a byte. Codes become numbers of bf16 by their bits, so each one
// counts.
func TestPanelCodes(t *testing.T) {
	const k = 32
	n := 256 / k * codes.Rows
	w := stored(t, tensor.Q8_0, n, k)
	if !CanFew(inPanels(t, w)) {
		t.Skip("no tiles")
	}
	size := w.DType.RowBytes(k)
	for r := range n {
		row := w.Data[r*size:][:size]
		row[0], row[1] = 0, 0x3c // a scale of 1
		for i := range k {
			row[2+i] = byte(r/codes.Rows*k + (i+r)%k)
		}
	}
	panels, s := inPanels(t, w), NewFewScratch(k)
	for i := range k {
		a, c := make([]float32, FewRows*k), make([]float32, FewRows*n)
		for m := range FewRows {
			a[m*k+i] = float32(m + 1)
		}
		RunFew(&FewTask{M: FewRows, A: a, LDA: k, W: panels, C: c, LDC: n}, 0, n, s)
		for m := range FewRows {
			for r := range n {
				if want := float32(m+1) * float32(int8(w.Data[r*size+2+i])); c[m*n+r] != want {
					t.Fatalf("row %d of activations, weight %d of row %d: %v, expected %v", m, i, r, c[m*n+r], want)
				}
			}
		}
	}
}
