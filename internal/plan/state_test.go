package plan_test

import (
	"fmt"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestStateOfManyRows: state whose rows are counted at run time has all of them in
// each of its formats, also where the first bucket is of one row.
func TestStateOfManyRows(t *testing.T) {
	const cols, stride = 3, 4
	lines := &plan.Format{ // a byte per value, in rows filled up to 4
		Name:  "lines",
		Bytes: func(rows, _ int) int64 { return int64(rows) * stride },
		Encode: func(dst []byte, src []float32, rows, cols int) {
			for i, v := range src[:rows*cols] {
				dst[i/cols*stride+i%cols] = byte(v)
			}
		},
	}
	b := graph.NewBuilder(max9)
	x := b.State("x", graph.RoleOther, tensor.F32, tensor.Rows(dimT, cols))
	g, err := b.Freeze(b.Linear("y", x, b.Input("w", tensor.F32, tensor.Static(8, cols)), nil))
	reads := plan.Rule{Class: "bytes", Op: graph.OpLinear, Weights: anyMatrix, Reads: []*plan.Format{lines, nil}}
	p := lowered(t, g, err, []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 4, S: 4, R: 4}, max9}, reads)
	if got := formats(p.Plans[0], x); got != "plain+lines" {
		t.Fatalf("the state lies as %s", got)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(p.Backend, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	src, want := make([]float32, cols*max9.T), make([]byte, stride*max9.T)
	for i := range src {
		src[i] = float32(i + 1)
		want[i/cols*stride+i%cols] = byte(i + 1)
	}
	if err := s.WriteState(x, src); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := s.ReadForm(x, lines, got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows are %v, expected %v", got, want)
	}
}
