package train

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// gradDots is how many products with signs a gradient of grads.json has.
const gradDots = 8

// sign is element i of vector k, as scripts/goldens_grads.py says.
func sign(i, k int) float64 {
	x := uint32(i)*0x9E3779B1 + uint32(k)*0x85EBCA6B + 0xC2B2AE35
	x ^= x >> 15
	x *= 0x2C1B3C6D
	x ^= x >> 12
	return 1 - 2*float64(x>>31)
}

// states is a loss over the states of tokens, for models of any kind: the
// state of a token predicts its id modulo the width.
type states struct{ lm }

func (states) build(t *model.Trainee) *graph.Value {
	x := t.Hidden()
	t.Ports.Targets = t.Input("targets", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
	nll, _ := t.CrossEntropy("cross_entropy", x, t.Ports.Targets)
	return t.Mean("loss", nll, t.Ports.Targets)
}

// TestGradientsOfEveryFamily holds the gradients of every dense model of the
// tests against PyTorch's in double precision.
func TestGradientsOfEveryFamily(t *testing.T) {
	var golden struct {
		Models map[string]struct {
			Tokens [][]int32
			Loss   float64
			Grads  map[string][]float64 // norm, then products with signs
		}
	}
	data, err := os.ReadFile("testdata/grads.json")
	must(t, err)
	must(t, json.Unmarshal(data, &golden))
	if len(golden.Models) < 45 {
		t.Fatalf("%d models", len(golden.Models))
	}
	whole, chunked := cpuBackend(t, 2), chunkBackend(t, 2, cpu.F32, 3)
	for path, want := range golden.Models {
		check := func(t *testing.T, be plan.Backend) {
			r, width := familyRunner(t, filepath.Join("..", path), be)
			if n := chunks(r.sess.Program().Plans[0]); n < 2 && be == chunked && r.model.Config().CanGenerate {
				t.Errorf("%d chunks of logits", n)
			}
			r.in.Reset()
			causal, at := r.model.Config().CanGenerate, 0
			for _, ids := range want.Tokens {
				s := Sequence{IDs: ids}
				at = r.in.sequence(&s, len(ids))
				for i, id := range ids {
					switch {
					case !causal:
						r.in.Targets[at+i] = id % int32(width)
					case i+1 < len(ids):
						r.in.Target(at+i, ids[i+1])
					}
				}
			}
			r.in.Bind.R = max(r.in.Bind.R, 1)
			loss, _, err := r.runStep(t.Context(), grad.Hyper{Eps: 1}, 1)
			must(t, err)
			if d := math.Abs(float64(loss)/want.Loss - 1); !(d <= 1e-5) {
				t.Errorf("loss %g, PyTorch's is %g", loss, want.Loss)
			}
			var all float64
			for _, g := range want.Grads {
				all += g[0] * g[0]
			}
			grads := r.gradients(t)
			worst, where, n := 0.0, "", 0
			for name, w := range want.Grads {
				f, ok := grads[name]
				if !ok {
					t.Errorf("%s has no gradient", name)
					continue
				}
				n++
				if d := digestError(f, w, 1e-3*math.Sqrt(all)); !(d <= worst) {
					worst, where = d, name
				}
			}
			t.Logf("%d gradients, worst deviation %.2g in %s", n, worst, where)
			if !(worst <= 1e-4) || n < 5 {
				t.Errorf("%s deviates by %g of its norm, of %d gradients", where, worst, n)
			}
		}
		name := strings.ReplaceAll(path, "/", "-")
		t.Run(name, func(t *testing.T) { check(t, whole) })
		t.Run(name+"-chunks", func(t *testing.T) { check(t, chunked) })
	}
}

// digestError is the root mean square of the deviations of products with signs,
// relative to the norm or to least: an estimate of the length of the error.
func digestError(f []float32, want []float64, least float64) float64 {
	var sum float64
	for k := range gradDots {
		var dot float64
		for i, v := range f {
			dot += sign(i, k) * float64(v)
		}
		sum += math.Pow(dot-want[1+k], 2)
	}
	return math.Sqrt(sum/gradDots) / max(want[0], least)
}

// gradients are those of the last run by the names of the files: without a
// first moment's memory, the first moment is the gradient. Elements of a tensor
// that are not trained stay as the file has them, so the difference of two
// exports has zeros there.
func (r *runner) gradients(t *testing.T) map[string][]float32 {
	t.Helper()
	params := map[string]model.Param{}
	for _, p := range r.parts.Params {
		params[p.Key] = p
	}
	export := func(scale float32) map[string][]float32 {
		out := map[string][]float32{}
		must(t, r.model.Export(func(key string) ([]float32, error) {
			p, ok := params[key]
			if !ok {
				return nil, nil
			}
			f := read(t, r, p.M)
			for i := range f {
				f[i] *= scale
			}
			return f, nil
		}, func(w weights.Tensor) error {
			f, err := w.F32()
			out[w.Name] = f
			return err
		}))
		return out
	}
	twice := export(2)
	for name, f := range export(1) {
		for i, v := range f {
			twice[name][i] -= v
		}
	}
	return twice
}

// familyRunner is a runner for next tokens, or for states of tokens.
func familyRunner(t *testing.T, path string, be plan.Backend) (*runner, int) {
	t.Helper()
	st, err := weights.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	var obj objective = &lm{}
	if !m.Config().CanGenerate {
		obj = &states{}
	}
	r, err := openRunner(t.Context(), m, Options{Backend: be}, task{obj: obj}, tensor.Bind{T: 32, S: 4, R: 32})
	must(t, err)
	t.Cleanup(func() { must(t, r.close()) })
	return r, m.Config().Dim
}
