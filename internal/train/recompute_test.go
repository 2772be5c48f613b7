package train

import (
	"cmp"
	"context"
	"math"
	"os"
	"path/filepath"
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
// gradients, and MFU does not count what is computed twice.
func TestRecomputeTakesLessMemory(t *testing.T) {
	var bytes, work [2]int64
	for i, recompute := range []bool{false, true} {
		c := fixture(t, "llama")
		c.Model, c.Shape = "", &Shape{Architecture: "llama", DModel: 64, NLayers: 8, NHeads: 4, Context: 64, Tied: true, RopeTheta: 1e4, Tokenizer: "char"}
		c.Init, c.Recompute, c.Dropout, c.Steps, c.BatchTokens = "random", recompute, 0.2, 3, 768
		tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
		must(t, err)
		pl := tr.runner.sess.Program().Plans[0]
		bytes[i], work[i] = pl.ArenaBytes[plan.Activations], flops(pl, tr.runner.ports, c.SeqLen)
		must(t, tr.Close())
	}
	if bytes[1] > bytes[0]/2 || work[0] != work[1] {
		t.Errorf("activations have %d bytes, %d with recomputation; FLOPs %d and %d", bytes[0], bytes[1], work[0], work[1])
	}
}

// TestRecomputeKeepsBits: losses and weights are those of a run without recomputation,
// bit for bit, in f32 and in bf16, with heads of every size that has kernels of its
// own. Dropout drops the same elements both times.
func TestRecomputeKeepsBits(t *testing.T) {
	for _, p := range []cpu.Precision{cpu.F32, cpu.BF16} {
		for _, shape := range []Shape{
			{Architecture: "llama", DModel: 64, NLayers: 2, NHeads: 4, NKVHeads: 2},
			{Architecture: "llama", DModel: 64, NLayers: 2, NHeads: 2},
			{Architecture: "llama", DModel: 128, NLayers: 2, NHeads: 2},
			{Architecture: "llama", DModel: 192, NLayers: 1, NHeads: 2},
			{Architecture: "gpt2", DModel: 64, NLayers: 2, NHeads: 1},
			{Architecture: "bert", DModel: 64, NLayers: 2, NHeads: 2, Tokenizer: "wordpiece", Vocab: 300},
		} {
			shape.Context, shape.Tied, shape.RopeTheta, shape.Tokenizer = 64, true, 1e4, cmp.Or(shape.Tokenizer, "char")
			var steps [2]losses
			var files [2][]byte
			for i, recompute := range []bool{false, true} {
				c := fixture(t, "llama")
				c.Model, c.Shape, c.Init = "", &shape, "random"
				c.Recompute, c.Dropout, c.Steps, c.Warmup, c.BatchTokens, c.MicroTokens = recompute, 0.2, 3, 0, 192, 64
				if shape.Architecture == "bert" {
					c.Objective.Type = "mlm"
				}
				res, err := Run(t.Context(), c, Options{Backend: backendOf(t, 2, p), OnStep: steps[i].add})
				must(t, err)
				files[i], err = os.ReadFile(filepath.Join(res.Checkpoint, "model.safetensors"))
				must(t, err)
			}
			if !slices.Equal(steps[0], steps[1]) || !slices.Equal(files[0], files[1]) {
				t.Errorf("%s of width %d, %d heads in %s:\n%v, with recomputation\n%v", shape.Architecture, shape.DModel, shape.NHeads, p, steps[0], steps[1])
			}
		}
	}
}
