package graph_test

import (
	"fmt"
	"math"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Three steps of torch.optim.SGD with momentum 0.9, decay 0.01 and a rate of
// 0.1, gradients clipped to 1.
func TestSGDMatchesTorch(t *testing.T) {
	for nesterov, want := range map[bool][]float32{false: {0.9814326, -2.0911398, 0.5232517}, true: {0.9736435, -2.1594577, 0.57974714}} {
		b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
		e := newEval(t, b.Max())
		input := func(name string, f ...float32) *graph.Value {
			v := b.Input(name, tensor.F32, tensor.Static(len(f)))
			e.setF32(v, f)
			return v
		}
		hyper := make([]float32, graph.HyperLen)
		hyper[graph.HyperLR], hyper[graph.HyperBeta1], hyper[graph.HyperDecay], hyper[graph.HyperClip] = 0.1, 0.9, 0.01, 1
		h := input("hyper", hyper...)
		w, m := b.State("w", graph.RoleQ, tensor.F32, tensor.Static(3)), b.State("m", graph.RoleMoment, tensor.F32, tensor.Static(3))
		e.setF32(w, []float32{1, -2, 0.5})
		e.setF32(m, make([]float32, 3))
		for i, g := range [][]float32{{0.3, -0.1, 0.2}, {-0.5, 0.4, 0}, {1, 2, -3}} {
			norm := float32(math.Sqrt(float64(g[0]*g[0] + g[1]*g[1] + g[2]*g[2])))
			w, m = b.SGD(fmt.Sprint("step", i), w, m, input(fmt.Sprint("g", i), g...), input(fmt.Sprint("norm", i), norm), h, graph.SGDAttr{Decay: true, Nesterov: nesterov})
		}
		if err := b.Err(); err != nil {
			t.Fatal(err)
		}
		e.run(b.Nodes(), w)
		near(t, "weights", e.f32(w), want, 1e-6)
	}
}
