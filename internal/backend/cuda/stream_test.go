package cuda

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// A product of a single row reads its norm's gain before it waits for other kernels, so
// it must not where a step of the same run writes the gain.
func TestGainsThatAStepWritesAreReadLate(t *testing.T) {
	const dim = 512
	for _, trained := range []bool{false, true} {
		f := newFake()
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
		x, gain := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), dim)), b.Weight("gain", graph.RoleOther, tensor.Static(dim))
		if trained {
			gain = b.Shift("shifted", gain, 1)
		}
		g, err := b.Freeze(b.Linear("proj", b.RMSNorm("normed", x, gain, 1e-6, 0), b.Weight("w", graph.RoleOther, tensor.Static(dim, dim)), nil))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, sized{"gain": dim, "w": dim * dim}), plan.BindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, l := range f.lists[1] {
			if !strings.HasPrefix(l.kernel, "k_stream_") {
				continue
			}
			found = true
			early := binary.LittleEndian.Uint32(l.args[len(l.args)-32:]) // the last fields of One
			if want := map[bool]uint32{false: 1, true: 0}[trained]; early != want {
				t.Errorf("trained %v: %s has early %d, expected %d", trained, l.kernel, early, want)
			}
		}
		if !found {
			t.Errorf("trained %v: no k_stream_", trained)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
