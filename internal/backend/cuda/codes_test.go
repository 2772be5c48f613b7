package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// typed are weights with a type for each name, by their number of values.
type typed struct {
	types map[string]tensor.DType
	sizes sized
}

func (s typed) Weight(name string) (weights.Tensor, error) {
	d := s.types[name]
	info := d.Info()
	return weights.Tensor{DType: d, Data: make([]byte, s.sizes[name]/info.BlockLen*info.BlockBytes)}, nil
}
func (typed) Drop(weights.Tensor) {}

// gateAndBack is a norm, a wide gate and the product behind it.
type gateAndBack struct {
	gate, down tensor.DType
	wide, rows int
	readTwice  bool
	invariant  bool
}

const gateDim = 512

func (c gateAndBack) compile(t *testing.T, be *Backend) (*plan.Program, typed) {
	t.Helper()
	types := map[string]tensor.DType{"gain": tensor.F32, "w_gate": c.gate, "w_up": c.gate, "w_down": c.down}
	b := graph.NewBuilder(tensor.Bind{T: c.rows, S: 1, R: 1})
	b.WeightType = func(name string) (tensor.DType, error) { return types[name], nil }
	in := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), gateDim))
	x := b.RMSNorm("normed", in, b.Weight("gain", graph.RoleOther, tensor.Static(gateDim)), 1e-6, 0)
	up := func(name string) *graph.Value {
		return b.Linear(name, x, b.Weight("w_"+name, graph.RoleOther, tensor.Static(c.wide, gateDim)), nil)
	}
	h := b.GLU("h", up("gate"), up("up"), graph.SiLU)
	out := []*graph.Value{b.Linear("down", h, b.Weight("w_down", graph.RoleOther, tensor.Static(gateDim, c.wide)), nil)}
	if c.readTwice {
		out = append(out, b.Scale("again", h, 2))
	}
	g, err := b.Freeze(out...)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{Invariant: c.invariant})
	if err != nil {
		t.Fatal(err)
	}
	n := gateDim * c.wide
	return prog, typed{types, sized{"gain": gateDim, "w_gate": n, "w_up": n, "w_down": n}}
}

// A wide gate of a single row hands its results as codes to the product behind it, if
// nobody else reads them and both multiply codes.
func TestGateHandsOnCodes(t *testing.T) {
	const q40, q80, q4k, q6k = tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K
	h200, a100 := [2]int{9, 0}, [2]int{8, 0}
	handed, plain := []uint32{writeCodes, readCodes}, []uint32{0, 0} // of both kernels, One.codes
	for _, c := range []struct {
		name    string
		g       gateAndBack
		opts    Options
		compute [2]int
		want    []uint32 // nil: no kernel of a single row
	}{
		{"wide", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1}, Options{}, h200, handed},
		{"two blocks per unit", gateAndBack{gate: q80, down: q80, wide: 8192, rows: 1}, Options{}, h200, handed},
		{"64 pairs per block", gateAndBack{gate: q4k, down: q4k, wide: 14336, rows: 1}, Options{}, h200, handed},
		{"two types", gateAndBack{gate: q4k, down: q6k, wide: 3584, rows: 1}, Options{}, h200, handed},
		{"narrow", gateAndBack{gate: q40, down: q40, wide: 1536, rows: 1}, Options{}, h200, plain},
		{"rows that do not fit", gateAndBack{gate: q40, down: q40, wide: 1 << 15, rows: 1}, Options{}, h200, plain},
		{"another reader", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1, readTwice: true}, Options{}, h200, plain},
		{"old kernels", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1}, Options{OldCodes: true}, h200, plain},
		{"f32", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1}, Options{F32: true}, h200, plain},
		{"invariant", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1, invariant: true}, Options{}, h200, nil},
		{"two rows", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 2}, Options{}, h200, nil},
		{"capability 8.0", gateAndBack{gate: q40, down: q40, wide: 3584, rows: 1}, Options{}, a100, handed},
		{"capability 8.0, rows that do not fit", gateAndBack{gate: q80, down: q80, wide: 8192, rows: 1}, Options{}, a100, plain},
	} {
		f := newFake()
		f.units, f.compute = 132, c.compute
		be, err := newBackend(c.opts, f)
		if err != nil {
			t.Fatal(err)
		}
		prog, ws := c.g.compile(t, be)
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, ws), plan.BindOptions{})
		if err != nil {
			t.Fatal(c.name, err)
		}
		var got []uint32
		for _, l := range f.lists[1] {
			if strings.HasPrefix(l.kernel, "k_codes_") {
				got = append(got, binary.LittleEndian.Uint32(l.args[len(l.args)-4:])) // the last field of One
			} else if strings.HasPrefix(l.kernel, "k_one_") {
				got = append(got, 0)
			} else if c.want != nil && strings.Contains(l.kernel, "norm") {
				t.Errorf("%s: %s beside products that could take it in", c.name, l.kernel)
			}
		}
		if len(f.lists[1]) == 0 || !slices.Equal(got, c.want) {
			t.Errorf("%s: codes of kernels %v of %d, expected %v", c.name, got, len(f.lists[1]), c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A plan with a row of codes for which there is no kernel is an error, not a kernel that
// reads it as f32.
func TestCodesWithoutKernel(t *testing.T) {
	f := newFake()
	f.units = 132
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	prog, ws := gateAndBack{gate: tensor.Q4_0, down: tensor.Q4_0, wide: 3584, rows: 1}.compile(t, be)
	be.opts.OldCodes = true // behind the plan's back
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, ws), plan.BindOptions{})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "a row of codes beside matrices in q4_0") {
		t.Errorf("%v, expected that no kernel takes the row of codes", err)
	}
}

// The kernels of codes.cu take the products that TestCUDACodes of package optest runs on a
// card, and share them as its comment says.
func TestShapesOfCodes(t *testing.T) {
	f := newFake()
	f.units, f.compute = 132, [2]int{9, 0}
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	for d := range codeSizes {
		rest := max(d.Info().BlockLen, 64)
		for _, c := range []struct{ n, k, rounds int }{{5401, 2048 + rest, 6}, {9001, 256 + rest, 1}, {75, 8192 + rest, 5}, {301, 5*2048 + rest, 6}} {
			pairs, parts := (c.n+1)/2, (c.k+codeValues-1)/codeValues
			b := &binder{be: be}
			s, ok := b.coded(d, c.k, pairs, 0)
			tiles := (s.quota + min(s.rest, 1) + codePairs - 1) / codePairs
			rounds := (tiles + s.groups - 1) / s.groups * ((parts + s.split - 1) / s.split)
			if !ok || rounds != c.rounds || s.stages > rounds || s.shared > be.streamShared() {
				t.Errorf("%s, %d rows of %d: taken %v, %d rounds, %d stages, %d bytes; expected %d rounds", d, c.n, c.k, ok, rounds, s.stages, s.shared, c.rounds)
			}
		}
	}
}
