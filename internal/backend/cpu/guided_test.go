package cpu

import (
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// TestGuide: claims of a queue become smaller, down to the least, and none is larger than
// allowed.
func TestGuide(t *testing.T) {
	for _, c := range []struct {
		shares int
		claims claims
		want   []int
	}{
		{1, claims{1, 8}, []int{1}},
		{3, claims{1, 8}, []int{1, 1, 1}},
		{8, claims{1, 8}, []int{4, 2, 1, 1}},
		{32, claims{1, 16}, []int{16, 8, 4, 2, 1, 1}},
		{6, claims{1, 1}, []int{1, 1, 1, 1, 1, 1}},
		{3, claims{4, 16}, []int{3}},
		{12, claims{4, 16}, []int{4, 4, 4}},
		{13, claims{4, 16}, []int{4, 4, 5}},
		{6, claims{4, 16}, []int{6}},
		{7, claims{4, 16}, []int{4, 3}},
		{6, claims{4, 4}, []int{4, 2}},
		{64, claims{4, 16}, []int{16, 16, 16, 8, 4, 4}},
		{33, claims{4, 10}, []int{8, 8, 8, 4, 5}},
	} {
		var got []int
		for left := c.shares; left > 0; left -= got[len(got)-1] {
			got = append(got, c.claims.guide(left))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d shares, %+v: %v, expected %v", c.shares, c.claims, got, c.want)
		}
	}
}

// TestLeastClaims: a claim has at least four panels, however many a smallest share has, but
// no more than maxWeights.
func TestLeastClaims(t *testing.T) {
	for _, c := range []struct {
		nr, n, k, products, shares int
		want                       claims
	}{
		{codes.Rows, 2048, 2048, 1, 128, claims{4, 32}},
		{codes.Rows, 2048, 8192, 1, 128, claims{4, 8}},
		{codes.Rows, 8192, 2048, 2, 512, claims{4, 16}},
		{codes.Rows, 2048, 512, 1, 32, claims{1, 32}}, // shares of four panels
		{codes.Rows, 2048, 768, 1, 48, claims{2, 32}}, // of two and two thirds
		{codes.Rows, 2048, 1 << 15, 1, 128, claims{2, 2}},
		{codes.Rows, 2048, 1 << 18, 1, 128, claims{1, 1}},
		{codes.Rows, 50257, 4096, 1, 3142, claims{4, 16}}, // the last panel is not full
		{64, 3072, 2048, 1, 48, claims{1, 8}},             // whole heads
		{32, 3072, 2048, 1, 96, claims{2, 16}},
		{128, 6144, 4096, 1, 48, claims{1, 2}},
	} {
		s := split{nr: c.nr, codes: true}
		if shares, got := s.grains(c.n, c.k, c.products); shares != c.shares || got != c.want {
			t.Errorf("%d columns of %d by %d: %d shares, %+v; expected %d, %+v", c.n, c.k, c.nr, shares, got, c.shares, c.want)
		}
	}
	if shares, _ := (split{nr: codes.Rows}).grains(2048, 2048, 1); shares != 0 {
		t.Errorf("%d shares of a product without codes, expected 0", shares)
	}
}

// TestManyWorkersClaimGrains: products of codes are cut into panels for more than
// fewWorkers, and as before for a few. Claims cover each share once.
func TestManyWorkersClaimGrains(t *testing.T) {
	const k = 2048
	for _, n := range []int{2048, 8192} {
		w, err := gemm.NewPanels(make([]byte, codes.Bytes(tensor.Q4_0, n, k)), tensor.Q4_0, n, k)
		if err != nil {
			t.Fatal(err)
		}
		l := &linear{product: &product{n: n, k: k, ways: []rowsWay{{1, &i16Direct{w: w, own: pairRows}}}}, x: operand{mat: mat{cols: k, outer: tensor.Fixed(1)}}}
		for _, workers := range []int{1, 2, fewWorkers, fewWorkers + 1, 16} {
			e := &exec{workers: make([]worker, workers), bound: []kernel{l}, groups: []int{0, 1}, guides: []guided{l}, queues: make([]queue, workers)}
			f := &flight{exec: e, cuts: make([]cut, 1), kernels: e.bound, n: workers}
			f.cutFor(workers)
			c := f.cuts[0]
			if workers <= fewWorkers {
				if shares, queues := cutStep(l, tensor.Bind{}, workers); c != (cut{int32(shares), int32(queues), claims{1, 1}, int64(shares)}) {
					t.Errorf("%d columns, %d workers: %+v, expected %d shares", n, workers, c, shares)
				}
			} else if int(c.shares) != n/codes.Rows || int(c.queues) != workers || c.least != 4 || c.most < c.least || int(c.most)*codes.Rows*k > maxWeights {
				t.Errorf("%d columns, %d workers: %+v", n, workers, c)
			}
			next := 0
			for v := range int(c.queues) {
				lo, hi := int(c.shares)*v/int(c.queues), int(c.shares)*(v+1)/int(c.queues)
				for {
					s, some := f.claim(v, 1, lo, hi, c.claims)
					if some == 0 {
						break
					}
					_, _, c0, c1 := l.at(1).split().span(1, n, s, s+some, int(c.shares))
					if s*n/int(c.shares) != next || c0 != next {
						t.Fatalf("%d columns, %d workers: share %d begins at column %d, expected %d", n, workers, s, c0, next)
					}
					next = c1
				}
			}
			if next != n || f.claimed.Load() != int64(c.shares) {
				t.Errorf("%d columns, %d workers: claims end at column %d", n, workers, next)
			}
		}
	}
}
