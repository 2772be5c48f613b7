package train

import (
	"context"
	"math"
	"slices"
	"strings"
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

// chunkBackend computes so many rows of logits at a time.
func chunkBackend(t testing.TB, workers int, p cpu.Precision, rows int) plan.Backend {
	t.Helper()
	be, err := cpu.New(cpu.Options{Workers: workers, Precision: p, ChunkRows: rows})
	must(t, err)
	t.Cleanup(func() { must(t, be.Close()) })
	return be
}

// chunks is the number of chunks of a plan; 0 where logits are whole.
func chunks(p *plan.Plan) (n int) {
	for i := range p.Steps {
		n = max(n, p.Steps[i].Chunk.Of)
	}
	return n
}

// TestChunksOfLogits: losses, norms and weights are those of whole logits, at any
// number of workers and with the same bits, and no more than the rows of one chunk
// have memory.
func TestChunksOfLogits(t *testing.T) {
	const rows = 32
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		h := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.WeightDecay, Clip: want.Clip}
		for _, precision := range []cpu.Precision{cpu.F32, cpu.BF16} {
			train := func(be plan.Backend) (*plan.Plan, []float32, []float32) {
				r := golden(t, name, be, want)
				var losses, values []float32
				for i, seqs := range want.Tokens[:5] {
					if i == 2 {
						seqs = seqs[:1] // fewer rows than there are chunks for
					}
					r.put(seqs)
					loss, norm, err := r.runStep(context.Background(), h, i+1)
					must(t, err)
					losses = append(losses, loss, norm)
				}
				for _, p := range r.parts.Params {
					values = append(values, read(t, r, p.Value)...)
				}
				return r.sess.Program().Plans[0], losses, values
			}
			_, whole, _ := train(chunkBackend(t, 2, precision, math.MaxInt32))
			var first []float32
			for _, workers := range []int{1, 2, 4} {
				p, losses, values := train(chunkBackend(t, workers, precision, rows))
				if n := (p.Max.R + rows - 1) / rows; n < 2 || chunks(p) != n {
					t.Fatalf("%s: %d chunks of %d rows, want %d", name, chunks(p), p.Max.R, n)
				}
				for i, loss := range losses {
					if d := math.Abs(float64(loss)/float64(whole[i]) - 1); !(d <= 1e-5) {
						t.Errorf("%s %s: loss or norm %d is %g, of whole logits %g", name, precision, i, loss, whole[i])
					}
				}
				values = append(losses, values...)
				if first == nil {
					first = values
				}
				if !slices.Equal(values, first) {
					t.Errorf("%s %s: %d workers give other bits than one", name, precision, workers)
				}
				checkLogits(t, p, rows)
			}
		}
	}
}

// checkLogits holds the memory of logits and of their gradients to some rows.
func checkLogits(t *testing.T, p *plan.Plan, rows int) {
	t.Helper()
	seen := 0
	for i := range p.Steps {
		for _, v := range p.Steps[i].Out {
			if v.Node.Op != graph.OpCrossEntropyGrad && v.Node.Op != graph.OpLinear || v.Shape.Outer.Sym != tensor.R {
				continue
			}
			seen++
			if most := int64(rows * v.Shape.RowLen() * 4); p.Place(v).Bytes > most {
				t.Errorf("%s has %d bytes, want at most %d", v, p.Place(v).Bytes, most)
			}
		}
	}
	if seen == 0 {
		t.Error("the plan has no logits")
	}
}

// TestChunksAreLeftOutOfEvaluations: a run that ends with the loss has the loss of
// all chunks and makes none of the gradients that lie between them.
func TestChunksAreLeftOutOfEvaluations(t *testing.T) {
	want := testmodels.LoadTraining(t, "llama")
	st, err := weights.Open(testmodels.Dir(t, "llama"))
	must(t, err)
	defer func() { must(t, st.Close()) }()
	m, err := model.Open(st)
	must(t, err)
	seqs := want.Tokens[0]
	n := 0
	for _, ids := range seqs {
		n += len(ids) - 1
	}
	for _, precision := range []cpu.Precision{cpu.F32, cpu.BF16} {
		r, err := openRunner(t.Context(), m, Options{Backend: chunkBackend(t, 2, precision, 32)}, task{obj: &lm{}, validate: true}, tensor.Bind{T: n, S: len(seqs), R: n})
		must(t, err)
		plans := r.sess.Program().Plans
		if whole, forward := plans[0], plans[1]; chunks(whole) < 2 || chunks(forward) != chunks(whole) {
			t.Errorf("%d chunks, and %d without gradients", chunks(whole), chunks(forward))
		}
		for _, s := range plans[1].Steps {
			if strings.Contains(s.Kind, "linear_d") || strings.Contains(s.Kind, "grad") {
				t.Errorf("an evaluation has the step %s (%s)", s.Name, s.Kind)
			}
		}
		r.put(seqs)
		forward, err := r.forward(t.Context())
		must(t, err)
		loss, _, err := r.runStep(t.Context(), grad.Hyper{Eps: 1}, 1)
		must(t, err)
		if forward != loss {
			t.Errorf("loss %g without gradients, %g with them", forward, loss)
		}
		must(t, r.close())
	}
}
