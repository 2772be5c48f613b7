package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// recomputing is a runner of a fixture for a batch of its PyTorch run.
func recomputing(t *testing.T, name string, workers int, p cpu.Precision, batch [][]int) *runner {
	t.Helper()
	st, err := weights.Open(testmodels.Dir(t, name))
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	n := 0
	for _, ids := range batch {
		n += len(ids) - 1
	}
	r, err := openRunner(t.Context(), m, Options{Backend: backendOf(t, workers, p)}, task{obj: &lm{}, recompute: true}, tensor.Bind{T: n, S: len(batch), R: n})
	must(t, err)
	t.Cleanup(func() { must(t, r.close()) })
	r.put(batch)
	return r
}

// TestRecompute: gradients are PyTorch's although layers keep nothing for them, in
// f32, and losses in bf16; the number of workers changes no bit.
func TestRecompute(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		for p, tol := range map[cpu.Precision]float64{cpu.F32: 1e-5, cpu.BF16: 1e-2} {
			var first []float32
			for _, workers := range []int{1, 2, 4} {
				r := recomputing(t, name, workers, p, want.Tokens[0])
				loss, norm, err := r.runStep(context.Background(), grad.Hyper{Eps: 1}, 1)
				must(t, err)
				if d := math.Abs(float64(loss)/want.Losses[0] - 1); !(d <= tol) {
					t.Errorf("%s in %s: loss %g, PyTorch's is %g", name, p, loss, want.Losses[0])
				}
				if p == cpu.F32 {
					near(t, exported(t, r, func(p model.Param) *graph.Value { return p.M }), testmodels.Dir(t, "train/"+name+"-grads.safetensors"), 1e-4)
				}
				got := []float32{loss, norm}
				for _, p := range r.parts.Params {
					got = append(got, read(t, r, p.M)...)
				}
				if first == nil {
					first = got
				}
				if !slices.Equal(first, got) {
					t.Errorf("%s in %s: %d workers give other bits than one", name, p, workers)
				}
			}
		}
	}
}

// TestRecomputeTakesLessMemory: a layer's activations are not kept until its
// gradients, and MFU does not count what is computed twice. Dropout drops the same
// elements both times: the losses stay those of a run without recomputation.
func TestRecomputeTakesLessMemory(t *testing.T) {
	var bytes, work [2]int64
	var steps [2]losses
	for i, recompute := range []bool{false, true} {
		c := fixture(t, "llama")
		c.Model, c.Shape = "", &Shape{Architecture: "llama", DModel: 64, NLayers: 8, NHeads: 4, Context: 64, Tied: true, RopeTheta: 1e4, Tokenizer: "char"}
		c.Init, c.Recompute, c.Dropout, c.Steps, c.BatchTokens = "random", recompute, 0.2, 3, 768
		tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
		must(t, err)
		for range c.Steps {
			s, err := tr.Step(t.Context())
			must(t, err)
			must(t, steps[i].add(s))
		}
		pl := tr.runner.sess.Program().Plans[0]
		bytes[i], work[i] = pl.ArenaBytes[plan.Activations], flops(pl, tr.runner.ports, c.SeqLen)
		must(t, tr.Close())
	}
	if bytes[1] > bytes[0]/2 || work[0] != work[1] {
		t.Errorf("activations have %d bytes, %d with recomputation; FLOPs %d and %d", bytes[0], bytes[1], work[0], work[1])
	}
	for i, s := range steps[0] {
		if d := math.Abs(float64(steps[1][i].Loss/s.Loss) - 1); !(d <= 1e-5) {
			t.Errorf("loss of step %d is %g, %g with recomputation", s.Step, s.Loss, steps[1][i].Loss)
		}
	}
}
