package engine

import (
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/calib"
	"hotpath/internal/testmodels"
)

// TestComposeKeepsTheOrder: a text that a run does not take, because it is
// beyond its limit, stays where it is: what is left is searched as longest first.
func TestComposeKeepsTheOrder(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	e := open(t, name, be, Options{Parallel: Coarse})
	if err := e.EmbedIDs(t.Context(), [][]int32{{1}, {2}}, make([]float32, 2*e.cfg.EmbedDim), e.pooling()); err != nil {
		t.Fatal(err)
	}
	m := e.embedders[e.pooling()]
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &call{ctx: t.Context()}
	total := 0
	for i, n := range []int{12, 20, 6, 18, 16} {
		c.seqs, c.order = append(c.seqs, make([]int32, n)), append(c.order, int32(i))
		total += n
	}
	c.longestFirst()
	m.push(c)
	defer m.remove(c)
	m.split = calib.Work{}.Split(total, 2, CoarseRunTokens)
	defer func() { m.split = calib.Split{} }()
	if m.split.Next(); !m.split.Last() {
		t.Fatal("a load of few tokens has more than one round")
	}
	left := func() (lengths []int) {
		for _, i := range c.order[c.taken:] {
			lengths = append(lengths, len(c.seqs[i]))
		}
		return lengths
	}
	// The longest; of the rest not even the shortest fits.
	if m.compose(m.others[0], 21); !slices.Equal(left(), []int{18, 16, 12, 6}) {
		t.Errorf("a run of one text left texts of %d tokens", left())
	}
	// The longest, then the longest that fits.
	if m.compose(m.others[0], 31); !slices.Equal(left(), []int{16, 6}) {
		t.Errorf("a run of two texts left texts of %d tokens", left())
	}
}
