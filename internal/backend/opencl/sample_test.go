//go:build !nogpu

package opencl

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// A device draws the tokens of the reference, for any parameters, with doubles and
// without. Rounding may move one draw in a thousand to a neighbour.
func TestSampleOnADevice(t *testing.T) {
	b := machine(t)
	extensions := b.about.Extensions
	t.Cleanup(func() { b.about.Extensions = extensions })
	for name, without := range map[string]string{"doubles": "", "floats": "cl_khr_fp64"} {
		t.Run(name, func(t *testing.T) {
			if name == "doubles" && !b.about.has("cl_khr_fp64") {
				t.Skip("the device has no doubles")
			}
			b.about.Extensions = slices.DeleteFunc(slices.Clone(extensions), func(e string) bool { return e == without })
			b.programs = map[string]*built{}
			sampleOn(t, b)
		})
	}
}

func sampleOn(t *testing.T, b *Backend) {
	const rows, runs = 64, 8
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(v ...float32) float32 { return v[rng.IntN(len(v))] }
	draws, wrong := 0, 0
	for _, vocab := range []int{1, 53, 300, 5000} {
		s, logits, how, random, ids := sampler(t, b, rows, vocab)
		for run := range runs {
			x, h, r := s.F32(logits), s.F32(how), s.I32(random)
			for i := range rows {
				scale := pick(0, 0.1, 1, 5, 40)
				for j := range vocab {
					v := float32(rng.NormFloat64()) * scale
					if i%3 == 0 { // many that are equal
						v = float32(math.Round(float64(v)))
					}
					if i%5 == 0 && rng.IntN(4) == 0 {
						v = float32(math.Inf(-1))
					}
					x[i*vocab+j] = v
				}
				if i%25 == 7 {
					x[i*vocab+rng.IntN(vocab)] = pick(float32(math.NaN()), float32(math.Inf(1)))
				}
				copy(h[i*graph.SampleLen:], []float32{pick(0, 0.01, 0.7, 1, 3), pick(0, 0, 1, 2, 7, 40, 10000), pick(0, 0.1, 0.5, 0.9, 0.999, 1, 1e-30), pick(0, 0, 0.05, 0.5, 1)})
				graph.PutRandom(r[2*i:], rng.Uint64()>>11)
			}
			want := make([]int32, rows)
			graph.OpSample.Ref(&graph.Call{In: []graph.Tensor{
				{Rows: rows, Cols: vocab, F32: x[:rows*vocab]}, {Rows: rows, Cols: graph.SampleLen, F32: h[:rows*graph.SampleLen]}, {Rows: rows, Cols: 2, I32: r[:2*rows]},
			}, Out: []graph.Tensor{{Rows: rows, Cols: 1, I32: want}}, Scratch: make([]float32, vocab)})
			if err := s.Run(context.Background(), tensor.Bind{T: rows, S: 1, R: rows}); err != nil {
				t.Fatal(err)
			}
			for i, id := range s.I32(ids)[:rows] {
				if draws++; id != want[i] {
					wrong++
					t.Logf("%d tokens, run %d, parameters %v: token %d, expected %d", vocab, run, h[i*graph.SampleLen:][:graph.SampleLen], id, want[i])
				}
			}
		}
	}
	if wrong > draws/1000 {
		t.Errorf("%d of %d tokens are others than the reference's", wrong, draws)
	}
}

// sampler is a session of the op alone.
func sampler(t *testing.T, be *Backend, rows, vocab int) (s *plan.Session, logits, how, random, ids *graph.Value) {
	t.Helper()
	b := graph.NewBuilder(tensor.Bind{T: rows, S: 1, R: rows})
	r := tensor.Of(tensor.R, 1)
	logits = b.Input("logits", tensor.F32, tensor.Rows(r, vocab))
	how = b.Input("how", tensor.F32, tensor.Rows(r, graph.SampleLen))
	random = b.Input("random", tensor.I32, tensor.Rows(r, 2))
	ids = b.Sample("sample", logits, how, random)
	g, err := b.Freeze(ids)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source1{}), plan.BindOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, logits, how, random, ids
}

// Stages of a draw that no row asks for are not launched.
func TestStagesOfDraws(t *testing.T) {
	for _, c := range []struct {
		how  [2][graph.SampleLen]float32
		want []string
	}{
		{[2][graph.SampleLen]float32{{0, 0, 0, 0}, {0.7, 1, 0, 0}}, []string{"k_sample_best", "k_sample_top_k"}},
		{[2][graph.SampleLen]float32{{0, 0, 0, 0}, {0.7, 0, 0, 0}}, []string{"k_sample_best", "k_sample_top_k", "k_sample_by_id"}},
		{[2][graph.SampleLen]float32{{0.7, 40, 0, 0}, {0, 0, 0.9, 0}}, []string{"k_sample_best", "k_sample_top_k", "k_sample_sorted"}},
		{[2][graph.SampleLen]float32{{0.7, 0, 0.9, 0}, {0.7, 0, 1, 0}}, []string{"k_sample_best", "k_sample_top_k", "k_sample_top_p", "k_sample_sorted", "k_sample_by_id"}},
	} {
		f := newFake()
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		s, _, how, _, _ := sampler(t, be, 2, 53)
		for i, row := range c.how {
			copy(s.F32(how)[i*graph.SampleLen:], row[:])
		}
		f.runs = nil
		if err := s.Run(context.Background(), tensor.Bind{T: 2, S: 1, R: 2}); err != nil {
			t.Fatal(err)
		}
		// The last launch ends the run, and is always made.
		want := c.want
		if want[len(want)-1] != "k_sample_by_id" {
			want = append(want, "k_sample_by_id")
		}
		if !slices.Equal(f.runs, want) {
			t.Errorf("%v: kernels %v, expected %v", c.how, f.runs, want)
		}
	}
}
