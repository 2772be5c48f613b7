package bf16

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hotpath/internal/kernel/isa"
)

// TestHeadGrad holds the gradients of a key head with two query heads to those in
// float64, for sequences of several groups of queries, with and without masks.
func TestHeadGrad(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AMX) {
		t.Skip("no tiles")
	}
	defer isa.Use(isa.AMX)()
	masks := map[string]func(i, n int) (int, int){
		"all":    func(_, n int) (int, int) { return 0, n },
		"causal": func(i, _ int) (int, int) { return 0, i + 1 },
		"window": func(i, _ int) (int, int) { return max(0, i-50), i + 1 },
	}
	for _, z := range [][2]int{{1, 16}, {5, 24}, {33, 64}, {300, 48}, {70, 20}, {45, 80}, {100, 96}, {MaxQueries + 1, 32}} {
		for mask, visible := range masks {
			headGrad(t, z[0], z[1], fmt.Sprintf("%d tokens, heads of %d, mask %s", z[0], z[1], mask), visible)
		}
	}
}

func headGrad(t *testing.T, n, dim int, name string, visible func(i, n int) (int, int)) {
	t.Helper()
	const heads = 2
	ldq, ldk, scale := heads*dim+3, dim+5, float32(1/math.Sqrt(float64(dim)))
	q, do, dq := random(n*ldq, 1), random(n*ldq, 2), make([]float32, n*ldq)
	k, v, dk, dv := random(n*ldk, 3), random(n*ldk, 4), make([]float32, n*ldk), make([]float32, n*ldk)
	wantQ, wantK, wantV, lse := make([]float64, n*ldq), make([]float64, n*ldk), make([]float64, n*ldk), make([]float32, n*heads)
	dot := func(a, b []float32) (s float64) {
		for i := range dim {
			s += float64(a[i]) * float64(b[i])
		}
		return s
	}
	for h := range heads {
		for i := range n {
			at, p, dp := i*ldq+h*dim, make([]float64, n), make([]float64, n)
			lo, hi := visible(i, n)
			sum, mean := 0.0, 0.0
			for j := lo; j < hi; j++ {
				p[j], dp[j] = math.Exp(dot(q[at:], k[j*ldk:])*float64(scale)), dot(do[at:], v[j*ldk:])
				sum += p[j]
			}
			lse[i*heads+h] = float32(math.Log(sum))
			for j := lo; j < hi; j++ {
				p[j] /= sum
				mean += p[j] * dp[j]
			}
			for j := lo; j < hi; j++ {
				ds := p[j] * (dp[j] - mean) * float64(scale)
				for c := range dim {
					wantQ[at+c] += ds * float64(k[j*ldk+c])
					wantK[j*ldk+c] += ds * float64(q[at+c])
					wantV[j*ldk+c] += p[j] * float64(do[at+c])
				}
			}
		}
	}
	g := NewHeadGrad(dim, n)
	g.Reset(dim, n, scale, k, ldk, v, ldk)
	for h := range heads {
		for i := 0; i < n; i += MaxQueries {
			at := i*ldq + h*dim
			g.Add(&Queries{N: min(MaxQueries, n-i), Q: q[at:], DOut: do[at:], DQ: dq[at:], LD: ldq, LSE: lse[i*heads+h:], LDL: heads,
				Visible: func(r int) (int, int) { return visible(i+r, n) }})
		}
	}
	g.Keys(dk, ldk, dv, ldk)
	for what, c := range map[string]struct {
		got  []float32
		want []float64
	}{"dq": {dq, wantQ}, "dk": {dk, wantK}, "dv": {dv, wantV}} {
		most := 0.1
		for _, w := range c.want {
			most = max(most, math.Abs(w))
		}
		for i, w := range c.want {
			if d := math.Abs(float64(c.got[i]) - w); !(d <= 1e-2*most) {
				t.Errorf("%s: %s[%d] is %g, expected %g (largest is %g)", name, what, i, c.got[i], w, most)
				break
			}
		}
	}
}
