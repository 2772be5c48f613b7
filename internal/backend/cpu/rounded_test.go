package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestNormsInBF16: what a norm makes for products in bf16 is kept so, where
// others read it too in both forms, and in f32 alone where nobody wants it
// otherwise.
func TestNormsInBF16(t *testing.T) {
	if cpu.Active() < cpu.AMX {
		t.Skip("this machine has no tiles")
	}
	few := max(gemm.FewRows, bf16.FewRows)
	for _, c := range []struct {
		precision Precision
		width     int
		want      [4]rounding // of a norm, of one that a sum reads too, of one of a sum and of the last
	}{
		{Auto, 64, [4]rounding{{few, false}, {few, true}, {few, false}, {never, false}}},
		{F32, 64, [4]rounding{{never, false}, {never, false}, {never, false}, {never, false}}},
		{Auto, 48, [4]rounding{{never, false}, {never, false}, {never, false}, {never, false}}},
	} {
		b := graph.NewBuilder(tensor.Bind{T: 100, S: 1, R: 1})
		rows := func(n int) tensor.Shape { return tensor.Rows(tensor.Of(tensor.T, 1), n) }
		norm := func(name string, x *graph.Value) *graph.Value {
			return b.RMSNorm(name, x, b.Input(name+".w", tensor.F32, tensor.Static(c.width)), 1e-5, 0)
		}
		var matrices []*graph.Value
		linear := func(name string, x *graph.Value, n int) *graph.Value {
			w := b.Weight(name+".w", graph.RoleUp, tensor.Static(n, c.width))
			matrices = append(matrices, w)
			return b.Linear(name, x, w, nil)
		}
		x := b.Input("x", tensor.F32, rows(c.width))
		first := norm("first", x)
		second := norm("second", b.Add("sum", x, linear("q", first, c.width)))
		third := norm("third", b.Add("residual", second, linear("up", second, c.width)))
		last := norm("last", b.Add("end", x, linear("down", third, c.width)))
		g, err := b.Freeze(b.Scale("out", last, 2))
		if err != nil {
			t.Fatal(err)
		}
		be, err := New(Options{Workers: 1, Precision: c.precision})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		p, err := plan.Compile("test", g, be, []tensor.Bind{g.Max})
		if err != nil {
			t.Fatal(err)
		}
		bd := &binder{be: be, plan: p.Plans[0], mem: &plan.Memory{Weights: make([]plan.Packed, len(g.Values))}, roundings: map[*graph.Value]rounding{}}
		for _, w := range matrices {
			bd.mem.Weights[w.ID] = &weight{dtype: tensor.F32, rows: make([]byte, 4*c.width*c.width)}
		}
		for i, v := range []*graph.Value{first, second, third, last} {
			if got := bd.rounding(v); got != c.want[i] {
				t.Errorf("%s, %d values a row: %s is kept as %+v, expected %+v", c.precision, c.width, v, got, c.want[i])
			}
			var want int64
			if c.want[i].both {
				want = 100 * int64(c.width) * 2
			}
			if got := p.Plans[0].Place(v).Beside; got != want {
				t.Errorf("%s, %d values a row: %s has %d bytes for bf16, expected %d", c.precision, c.width, v, got, want)
			}
		}
	}
}
