package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestNormsInBF16: what a norm makes for products in bf16 lies in bf16, in both
// formats where others read it too, and in f32 alone where nobody wants it
// otherwise or where few rows multiply with the file's rows.
func TestNormsInBF16(t *testing.T) {
	if cpu.Active() < cpu.AMX {
		t.Skip("this machine has no tiles")
	}
	const f32, half, both = "plain", "bf16", "plain+bf16"
	const inner = "" // a product of few rows takes the norm in
	for _, c := range []struct {
		precision Precision
		dtype     tensor.DType
		width     int
		rows      int       // of the bucket that is looked at, at most
		want      [4]string // of a norm, of one that a sum reads too, of one of a sum and of the last
	}{
		{Auto, tensor.F32, 64, 100, [4]string{half, both, half, f32}},
		{Auto, tensor.F32, 64, bf16.FewRows, [4]string{inner, both, inner, f32}},
		{Auto, tensor.Q8_0, 64, 100, [4]string{half, both, half, f32}},
		{Auto, tensor.Q8_0, 64, bf16.FewRows, [4]string{inner, f32, inner, f32}},
		{F32, tensor.F32, 64, 100, [4]string{f32, f32, f32, f32}},
		{Auto, tensor.F32, 48, 100, [4]string{f32, f32, f32, f32}},
	} {
		b := graph.NewBuilder(tensor.Bind{T: 100, S: 1, R: 1})
		b.WeightType = func(string) (tensor.DType, error) { return c.dtype, nil }
		rows := func(n int) tensor.Shape { return tensor.Rows(tensor.Of(tensor.T, 1), n) }
		norm := func(name string, x *graph.Value) *graph.Value {
			return b.RMSNorm(name, x, b.Input(name+".w", tensor.F32, tensor.Static(c.width)), 1e-5, 0)
		}
		linear := func(name string, x *graph.Value, n int) *graph.Value {
			return b.Linear(name, x, b.Weight(name+".w", graph.RoleUp, tensor.Static(n, c.width)), nil)
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
		prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range prog.Plans {
			if p.Max.T != c.rows {
				continue
			}
			for i, v := range []*graph.Value{first, second, third, last} {
				got := ""
				for k, f := range p.Forms[v.ID] {
					if k > 0 {
						got += "+"
					}
					got += f.Format.String()
				}
				if got != c.want[i] {
					t.Errorf("%s, %v, %d values a row, up to %d rows: %s lies as %s, expected %s", c.precision, c.dtype, c.width, c.rows, v, got, c.want[i])
				}
			}
		}
	}
}
