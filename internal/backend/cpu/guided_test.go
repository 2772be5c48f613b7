package cpu

import (
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// TestGuide: claims of a queue become smaller, end with single shares, and none is larger
// than allowed.
func TestGuide(t *testing.T) {
	for _, c := range []struct {
		shares, most int
		want         []int
	}{
		{1, 8, []int{1}},
		{3, 8, []int{1, 1, 1}},
		{8, 8, []int{4, 2, 1, 1}},
		{32, 16, []int{16, 8, 4, 2, 1, 1}},
		{33, 8, []int{8, 8, 8, 4, 2, 1, 1, 1}},
		{6, 1, []int{1, 1, 1, 1, 1, 1}},
	} {
		var got []int
		for left := c.shares; left > 0; left -= got[len(got)-1] {
			got = append(got, guide(left, c.most))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d shares, at most %d: %v, expected %v", c.shares, c.most, got, c.want)
		}
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
				if shares, queues := cutStep(l, tensor.Bind{}, workers); c != (cut{int32(shares), int32(queues), 1, int64(shares)}) {
					t.Errorf("%d columns, %d workers: %+v, expected %d shares", n, workers, c, shares)
				}
			} else if int(c.shares) != n/codes.Rows || int(c.queues) != workers || c.most < 2 || int(c.most)*codes.Rows*k > maxWeights {
				t.Errorf("%d columns, %d workers: %+v", n, workers, c)
			}
			next := 0
			for v := range int(c.queues) {
				lo, hi := int(c.shares)*v/int(c.queues), int(c.shares)*(v+1)/int(c.queues)
				for {
					s, some := f.claim(v, 1, lo, hi, int(c.most))
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
