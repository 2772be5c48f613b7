package cuda

import (
	"context"
	"testing"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Blocks follow the bytes: few words have a word per thread, many have as many as a
// thread has under way, and changes have blocks for a full copy only.
func TestTransferBlocks(t *testing.T) {
	for _, c := range []struct {
		bytes          int64
		plain, changes int
	}{
		{0, 1, 1}, {4, 1, 1}, {1024, 1, 1}, {1028, 2, 1}, {8 << 10, 8, 1}, {16 << 10, 16, 2}, {128 << 10, 16, 16}, {136 << 10, 17, 17}, {512 << 10, 64, 64}, {1 << 30, 64, 64},
	} {
		if plain, changes := transferBlocks(c.bytes, false), transferBlocks(c.bytes, true); plain != c.plain || changes != c.changes {
			t.Errorf("%d bytes have %d blocks, %d by changes, expected %d and %d", c.bytes, plain, changes, c.plain, c.changes)
		}
	}
}

// travelling is a session of a graph with inputs and outputs of 4 and of 800 bytes per
// row.
func travelling(t *testing.T, f *fake) (*plan.Session, []tensor.Bind) {
	t.Helper()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	b := graph.NewBuilder(tensor.Bind{T: 4000, S: 1, R: 1})
	rows := tensor.Of(tensor.T, 1)
	ids, x := b.Input("ids", tensor.I32, tensor.Rows(rows)), b.Input("x", tensor.F32, tensor.Rows(rows, 200))
	g, err := b.Freeze(b.Gather("y", b.Scale("half", x, 0.5), ids), b.Scale("twice", b.Input("z", tensor.F32, tensor.Rows(rows)), 2))
	if err != nil {
		t.Fatal(err)
	}
	buckets := []tensor.Bind{{T: 8, S: 1, R: 1}, g.Max}
	prog, err := plan.Compile("test", g, be, buckets, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, zeros{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, buckets
}

// A plan has blocks for its own largest run, a value as many as it needs. Threads read
// ahead within a value of that run, and within the list of changes.
func TestTransferFollowsThePlan(t *testing.T) {
	f := newFake()
	_, buckets := travelling(t, f)
	grids, seen := map[int][2][3]int{8: {{1, 3, 1}, {7, 2, 1}}, 4000: {{64, 3, 1}, {64, 2, 1}}}, 0
	for _, list := range f.lists {
		for way, l := range []launch{list[0], list[len(list)-1]} {
			parts := f.parts(l.args[stampBytes:])
			rows := 8
			for _, p := range parts {
				if p.bytes == 4 && p.ahead > 8 {
					rows = 4000
				}
			}
			seen++
			if l.kernel != "k_transfer" || l.grid != grids[rows][way] {
				t.Errorf("%d rows: %s has a grid of %v, expected %v", rows, l.kernel, l.grid, grids[rows][way])
			}
			for _, p := range parts {
				words := int64(rows) * int64(p.bytes) / 4
				if want := transferBlocks(4*words, p.changes != 0); int(p.blocks) != want {
					t.Errorf("%d rows of %d bytes have %d blocks, expected %d", rows, p.bytes, p.blocks, want)
				}
				most := min(words, int64(p.blocks)*transferThreads)
				if p.changes != 0 {
					most = changesAhead
				}
				if int64(p.ahead) != most {
					t.Errorf("%d rows of %d bytes are read %d words ahead, expected %d", rows, p.bytes, p.ahead, most)
				}
			}
		}
	}
	if seen != 2*2*len(buckets) { // runs with and without a profile
		t.Errorf("%d transfers", seen)
	}
}

// Results have travelled when the last block has carried its part, not the first one.
func TestOutputsEndWithTheirLastBlock(t *testing.T) {
	f := newFake()
	s, _ := travelling(t, f)
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	f.slow = 5 * time.Millisecond
	if err := s.Run(t.Context(), tensor.Bind{T: 8, S: 1, R: 1}); err != nil {
		t.Fatal(err)
	}
	const blocks = 8 // one for 32 bytes, seven for 6,400
	found := false
	for _, p := range rec.Snapshot().Plans {
		for i, step := range p.Steps {
			if step.Name != "outputs" || p.Stats[i].Calls == 0 {
				continue
			}
			found = true
			if got := time.Duration(p.Stats[i].Self); got < blocks*f.slow {
				t.Errorf("outputs took %v, expected at least %v", got, blocks*f.slow)
			}
		}
	}
	if !found {
		t.Error("the profile has no outputs")
	}
}
