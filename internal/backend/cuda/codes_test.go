package cuda

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// typed are weights of a type, by their number of values.
type typed struct {
	d     tensor.DType
	sizes sized
}

func (s typed) Weight(name string) (weights.Tensor, error) {
	if name == "gain" {
		return s.sizes.Weight(name)
	}
	info := s.d.Info()
	return weights.Tensor{DType: s.d, Data: make([]byte, s.sizes[name]/info.BlockLen*info.BlockBytes)}, nil
}
func (typed) Drop(weights.Tensor) {}

// A wide gate of a single row hands its results as codes to the product behind it, if
// nobody else reads them and both multiply codes.
func TestGateHandsOnCodes(t *testing.T) {
	for _, c := range []struct {
		name      string
		d         tensor.DType
		wide      int
		readTwice bool
		want      []uint32 // of both kernels, One.codes
	}{
		{"wide", tensor.Q4_0, 3584, false, []uint32{writeCodes, readCodes}},
		{"two blocks per unit", tensor.Q8_0, 8192, false, []uint32{writeCodes, readCodes}},
		{"narrow", tensor.Q4_0, 1536, false, []uint32{0, 0}},
		{"rows that do not fit", tensor.Q4_0, 1 << 14, false, []uint32{0, 0}},
		{"another reader", tensor.Q4_0, 3584, true, []uint32{0, 0}},
	} {
		f := newFake()
		f.units = 132
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		const dim = 512
		b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
		b.WeightType = func(name string) (tensor.DType, error) {
			if name == "gain" {
				return tensor.F32, nil
			}
			return c.d, nil
		}
		in := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), dim))
		x := b.RMSNorm("normed", in, b.Weight("gain", graph.RoleOther, tensor.Static(dim)), 1e-6, 0)
		up := func(name string) *graph.Value {
			return b.Linear(name, x, b.Weight("w_"+name, graph.RoleOther, tensor.Static(c.wide, dim)), nil)
		}
		h := b.GLU("h", up("gate"), up("up"), graph.SiLU)
		out := []*graph.Value{b.Linear("down", h, b.Weight("w_down", graph.RoleOther, tensor.Static(dim, c.wide)), nil)}
		if c.readTwice {
			out = append(out, b.Scale("again", h, 2))
		}
		g, err := b.Freeze(out...)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := dim * c.wide
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, typed{c.d, sized{"gain": dim, "w_gate": n, "w_up": n, "w_down": n}}), plan.BindOptions{})
		if err != nil {
			t.Fatal(c.name, err)
		}
		var got []uint32
		for _, l := range f.lists[1] {
			if strings.HasPrefix(l.kernel, "k_codes_") {
				got = append(got, binary.LittleEndian.Uint32(l.args[len(l.args)-4:])) // the last field of One
			} else if strings.HasPrefix(l.kernel, "k_one_") {
				got = append(got, 0)
			} else if strings.Contains(l.kernel, "norm") {
				t.Errorf("%s: %s beside products that could take it in", c.name, l.kernel)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: codes of kernels %v, expected %v", c.name, got, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
