package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// backends opens each backend that can train.
var backends = map[string]func(t testing.TB) plan.Backend{
	"ref":  func(testing.TB) plan.Backend { return ref.New() },
	"null": func(testing.TB) plan.Backend { return null.New(100 * time.Microsecond) },
	"cpu1": func(t testing.TB) plan.Backend { return cpuBackend(t, 1) },
	"cpu2": func(t testing.TB) plan.Backend { return cpuBackend(t, 2) },
	// Logits three rows at a time.
	"chunks": func(t testing.TB) plan.Backend { return chunkBackend(t, 2, cpu.F32, 3) },
}

func cpuBackend(t testing.TB, workers int) plan.Backend {
	t.Helper()
	return backendOf(t, workers, cpu.F32)
}

func backendOf(t testing.TB, workers int, p cpu.Precision) plan.Backend {
	t.Helper()
	be, err := cpu.New(cpu.Options{Workers: workers, Precision: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, be.Close()) })
	return be
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// golden is a runner of a fixture, for the batches of its PyTorch run.
func golden(t testing.TB, name string, be plan.Backend, want testmodels.Training) *runner {
	t.Helper()
	st, err := weights.Open(testmodels.Dir(t, name))
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	var most tensor.Bind
	for _, seqs := range want.Tokens {
		n := 0
		for _, ids := range seqs {
			n += len(ids) - 1
		}
		most = tensor.Bind{T: max(most.T, n), S: max(most.S, len(seqs)), R: max(most.R, n)}
	}
	r, err := newRunner(t.Context(), m, Options{Backend: be}, most)
	must(t, err)
	t.Cleanup(func() { must(t, r.close()) })
	return r
}

// newRunner is a runner of next tokens without accumulation.
func newRunner(ctx context.Context, m *model.Model, o Options, most tensor.Bind) (*runner, error) {
	return openRunner(ctx, m, o, task{obj: &lm{}}, most)
}

func (r *runner) put(seqs [][]int) {
	r.in.Reset()
	for _, seq := range seqs {
		ids := make([]int32, len(seq))
		for i, id := range seq {
			ids[i] = int32(id)
		}
		if !r.in.add(ids) {
			panic("no room for a batch")
		}
	}
}

// add puts one text into a batch of next tokens; false where there is no room.
func (in *inputs) add(ids []int32) bool {
	e := &Example{Seqs: []Sequence{{IDs: ids}}}
	size, _ := (&lm{}).size(e)
	if !plus(in.Bind, size).Fits(in.Max) {
		return false
	}
	(&lm{}).put(in, e, nil)
	return true
}

func TestLossesMatchPyTorch(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		h := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.WeightDecay, Clip: want.Clip}
		for kind, open := range backends {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r := golden(t, name, open(t), want)
				var worst, worstNorm float64
				for i, seqs := range want.Tokens {
					r.put(seqs)
					loss, norm, err := r.runStep(context.Background(), h, i+1)
					must(t, err)
					worst = max(worst, math.Abs(float64(loss)/want.Losses[i]-1))
					worstNorm = max(worstNorm, math.Abs(float64(norm)/want.GradNorms[i]-1))
				}
				t.Logf("worst deviation: loss %.2g, norm %.2g, of themselves", worst, worstNorm)
				if !(worst <= 1e-5) || !(worstNorm <= 1e-4) {
					t.Errorf("deviates from PyTorch: loss by %g, norm by %g of themselves", worst, worstNorm)
				}
				near(t, exported(t, r, func(p model.Param) *graph.Value { return p.Value }),
					testmodels.Dir(t, "train/"+name+"-after.safetensors"), 1e-4)
			})
		}
	}
}

// TestLossesOfManySteps: losses follow PyTorch's over 100 steps, in f32 and in bf16.
func TestLossesOfManySteps(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		h := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.WeightDecay, Clip: want.Clip}
		tokens, losses := append(want.Tokens, want.MoreTokens...), append(want.Losses, want.MoreLosses...)
		for precision, tol := range map[cpu.Precision]float64{cpu.F32: 1e-3, cpu.BF16: 1e-2} {
			be, err := cpu.New(cpu.Options{Workers: 2, Precision: precision})
			must(t, err)
			r, worst := golden(t, name, be, want), 0.0
			for i, seqs := range tokens {
				r.put(seqs)
				loss, _, err := r.runStep(t.Context(), h, i+1)
				must(t, err)
				d := math.Abs(float64(loss)/losses[i] - 1)
				worst = max(worst, d)
				if !(d <= tol) {
					t.Errorf("%s in %s: loss of step %d is %g, PyTorch's is %g", name, precision, i+1, loss, losses[i])
				}
			}
			t.Logf("%s in %s: %d steps, losses differ by up to %.2g of themselves", name, precision, len(tokens), worst)
			must(t, be.Close())
		}
	}
}

// Without a first moment's memory, the first moment is the gradient.
func TestGradientsMatchPyTorch(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		for kind, open := range backends {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r := golden(t, name, open(t), want)
				r.put(want.Tokens[0])
				_, _, err := r.runStep(context.Background(), grad.Hyper{Eps: 1}, 1)
				must(t, err)
				near(t, exported(t, r, func(p model.Param) *graph.Value { return p.M }),
					testmodels.Dir(t, "train/"+name+"-grads.safetensors"), 1e-4)
			})
		}
	}
}

func read(t testing.TB, r *runner, v *graph.Value) []float32 {
	t.Helper()
	f := make([]float32, v.Shape.Len(tensor.Bind{}))
	must(t, r.sess.ReadState(v, f))
	return f
}

// exported are values of parameters by their names in Hugging Face's files.
func exported(t testing.TB, r *runner, of func(model.Param) *graph.Value) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	must(t, r.model.Export(func(key string) ([]float32, error) {
		for _, p := range r.parts.Params {
			if p.Key == key {
				return read(t, r, of(p)), nil
			}
		}
		return nil, fmt.Errorf("%s is not trained", key)
	}, func(w weights.Tensor) error {
		f, err := w.F32()
		out[w.Name] = f
		return err
	}))
	return out
}

// near holds tensors against a file: the difference is small against the
// tensor's norm, or against rounding where the true value is zero.
func near(t testing.TB, got map[string][]float32, file string, tolerance float64) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	f, err := safetensors.Parse(file, data)
	must(t, err)
	names := f.Names()
	if len(names) == 0 {
		t.Fatal("nothing to compare with")
	}
	worst, where := 0.0, ""
	for _, name := range names {
		_, data, err := f.Data(name)
		must(t, err)
		want := make([]float32, len(data)/4)
		must(t, tensor.Dequantize(want, tensor.F32, data))
		if len(got[name]) != len(want) {
			t.Fatalf("%s: %d elements, want %d", name, len(got[name]), len(want))
		}
		var diff, norm float64
		for i, w := range want {
			diff += math.Pow(float64(got[name][i])-float64(w), 2)
			norm += float64(w) * float64(w)
		}
		if d := math.Sqrt(diff) / max(math.Sqrt(norm), 1e-6); !(d <= worst) {
			worst, where = d, name
		}
	}
	t.Logf("worst difference %.2g of the norm, in %s", worst, where)
	if !(worst <= tolerance) {
		t.Errorf("%s: difference %g of the norm, want at most %g", where, worst, tolerance)
	}
}

func TestSameBitsAtAnyNumberOfWorkers(t *testing.T) {
	want := testmodels.LoadTraining(t, "llama")
	h := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.WeightDecay, Clip: want.Clip}
	var first []float32
	for _, workers := range []int{1, 2, 4} {
		r := golden(t, "llama", cpuBackend(t, workers), want)
		var got []float32
		for i, seqs := range want.Tokens[:5] {
			r.put(seqs)
			loss, norm, err := r.runStep(context.Background(), h, i+1)
			must(t, err)
			got = append(got, loss, norm)
		}
		for _, p := range r.parts.Params {
			got = append(got, read(t, r, p.Value)...)
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Errorf("%d workers give other bits than one", workers)
		}
	}
}

// TestLossesInBF16: products in bf16 read panels that the optimizer writes beside
// the f32 weights. Losses follow PyTorch's in f32 as closely as rounding allows,
// the packed forms are always those of the weights, and the number of workers
// changes no bit.
func TestLossesInBF16(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		want := testmodels.LoadTraining(t, name)
		h := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.WeightDecay, Clip: want.Clip}
		var first []float32
		for _, workers := range []int{1, 2, 3} {
			be, err := cpu.New(cpu.Options{Workers: workers, Precision: cpu.BF16})
			must(t, err)
			r := golden(t, name, be, want)
			var losses []float32
			for i, seqs := range want.Tokens {
				r.put(seqs)
				loss, _, err := r.runStep(context.Background(), h, i+1)
				must(t, err)
				losses = append(losses, loss)
				if d := math.Abs(float64(loss)/want.Losses[i] - 1); !(d <= 1e-2) {
					t.Errorf("%s: loss of step %d is %g, PyTorch's is %g", name, i+1, loss, want.Losses[i])
				}
			}
			if first == nil {
				first = losses
			}
			if !slices.Equal(first, losses) {
				t.Errorf("%s: %d workers give other losses than one", name, workers)
			}
			packed := 0
			for _, p := range r.parts.Params {
				forms := r.sess.Program().Plans[0].Forms[p.Value.ID]
				weights := make([]float32, p.Value.Shape.Len(tensor.Bind{}))
				must(t, r.sess.ReadState(p.Value, weights))
				for _, f := range forms[1:] {
					got, fresh := make([]byte, f.Place.Bytes), make([]byte, f.Place.Bytes)
					must(t, r.sess.ReadForm(p.Value, f.Format, got))
					f.Format.Encode(fresh, weights, p.Value.Shape.NumRows(tensor.Bind{}), p.Value.Shape.RowLen())
					if !slices.Equal(got, fresh) {
						t.Errorf("%s: %s as %s is not what the weights are", name, p.Value, f.Format)
					}
					packed++
				}
			}
			if packed == 0 {
				t.Errorf("%s: no weight has a packed form", name)
			}
			must(t, be.Close())
		}
	}
}
