package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Few rows of a small model on a card with a multiprocessor per row: norms have a block
// per row, and products request all of x at once. Gains that a step writes are not read
// before that step has ended.
func TestFewRowsOfASmallModel(t *testing.T) {
	const rows = 16
	type call struct {
		kernel        string
		blocks, block int
		early         uint32 // of norms
	}
	for _, c := range []struct {
		name     string
		dim, ffn int
		trained  bool
		want     []call // by first launches
	}{
		{"embedding", 768, 1152, false, []call{{"k_norm_row", rows, 192, 1}, {"k_few16_glu_bf16_held", 144, 384, 0}, {"k_few16_bf16_held", 96, 384, 0}}},
		{"trained", 768, 1152, true, []call{{"k_norm_row", rows, 192, 0}, {"k_few16_glu_bf16_held", 144, 384, 0}, {"k_few16_bf16_held", 96, 384, 0}}},
		{"odd", 520, 1032, false, []call{{"k_norm_row", rows, 160, 1}, {"k_few16_glu_bf16_held", 129, 288, 0}, {"k_few16_bf16_held", 65, 352, 0}}},
		{"longer k", 776, 1160, false, []call{{"k_norm_row", rows, 224, 1}, {"k_wide", 37, 128, 0}, {"k_few16_bf16", 97, 512, 0}}},
		{"long rows", 2056, 512, false, []call{{"k_norm_block", rows, 256, 0}, {"k_wide", 16, 128, 0}, {"k_few16_bf16_held", 257, 256, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.units = 132
			be, err := newBackend(Options{}, f)
			if err != nil {
				t.Fatal(err)
			}
			b := graph.NewBuilder(tensor.Bind{T: rows, S: 1, R: 1})
			sizes := sized{"norm": c.dim, "gate": c.ffn * c.dim, "up": c.ffn * c.dim, "down": c.ffn * c.dim}
			weight := func(name string, shape ...int) *graph.Value {
				return b.Weight(name, graph.RoleOther, tensor.Static(shape...))
			}
			x, gain := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), c.dim)), weight("norm", c.dim)
			if c.trained {
				gain = b.Shift("shifted", gain, 1)
			}
			h := b.RMSNorm("normed", x, gain, 1e-6, 0)
			h = b.GLU("glu", b.Linear("gate_proj", h, weight("gate", c.ffn, c.dim), nil), b.Linear("up_proj", h, weight("up", c.ffn, c.dim), nil), graph.SiLU)
			g, err := b.Freeze(b.Linear("down_proj", h, weight("down", c.dim, c.ffn), nil))
			if err != nil {
				t.Fatal(err)
			}
			prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, sizes), plan.BindOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []call
			for _, l := range f.lists[1] {
				if l.kernel == "k_transfer" || l.kernel == "k_shift" {
					continue
				}
				k := call{l.kernel, l.grid[0], l.block, 0}
				if l.kernel == "k_norm_row" {
					k.early = binary.LittleEndian.Uint32(l.args[124:])
				}
				got = append(got, k)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%v, expected %v", got, c.want)
			}
			for i, w := range c.want {
				if got[i] != w {
					t.Errorf("%v, expected %v", got[i], w)
				}
			}
			if err := errors.Join(s.Close(), be.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
