package cpu

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/limit"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestOneActiveWorkerKeepsBits: a model that has four workers gives the same bits if only
// one of them is active. That one runs steps in other shares. The bits are those of
// vectors, of logits, and of the losses of training steps.
func TestOneActiveWorkerKeepsBits(t *testing.T) {
	embed := func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildEmbed(most, model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true})
	}
	generate := func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildGenerate(most, model.KVLayout{Blocks: 4, MaxBlocksPerSeq: 4})
	}
	train := func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		g, p, _, err := m.BuildTrain(most, model.TrainOptions{})
		return g, p, err
	}
	for _, c := range []struct {
		file   string
		bind   tensor.Bind
		build  func(*model.Model, tensor.Bind) (*graph.Graph, *model.Ports, error)
		result func(*model.Ports) *graph.Value
	}{
		{"embedder", tensor.Bind{T: 16, S: 1, R: 1}, embed, func(p *model.Ports) *graph.Value { return p.Embedding }},
		{"embedder", tensor.Bind{T: 60, S: 1, R: 1}, embed, func(p *model.Ports) *graph.Value { return p.Embedding }},
		{"generator", tensor.Bind{T: 1, S: 1, R: 1}, generate, func(p *model.Ports) *graph.Value { return p.Logits }},
		{"generator", tensor.Bind{T: 9, S: 1, R: 1}, generate, func(p *model.Ports) *graph.Value { return p.Logits }},
		{"generator", tensor.Bind{T: 50, S: 1, R: 1}, generate, func(p *model.Ports) *graph.Value { return p.Logits }},
		{"generator", tensor.Bind{T: 64, S: 1, R: 64}, train, func(p *model.Ports) *graph.Value { return p.Loss }},
	} {
		for _, precision := range []Precision{F32, BF16, Auto} {
			t.Run(fmt.Sprintf("%s/%d/%d/%s", c.file, c.bind.T, c.bind.R, precision), func(t *testing.T) {
				m := OpenModel(t, filepath.Join("..", "..", "builtin", "hotpath-"+c.file+".gguf"))
				g, ports, err := c.build(m, c.bind)
				if err != nil {
					t.Fatal(err)
				}
				results := func(active int) (out []float32) {
					be, err := New(Options{Workers: 4, Precision: precision})
					if err != nil {
						t.Fatal(err)
					}
					defer be.Close()
					w := &watched{Backend: be}
					p, err := plan.Compile("p", g, w, []tensor.Bind{c.bind}, plan.CompileOptions{})
					if err != nil {
						t.Fatal(err)
					}
					s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(w, m), plan.BindOptions{})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					for _, e := range w.execs {
						e.limits = limit.NewClasses(active)
					}
					for i := range 3 {
						fillRun(t, s, ports, m, c.bind, i)
						if err := s.Run(context.Background(), c.bind); err != nil {
							t.Fatal(err)
						}
						e, others := w.execs[0], 0
						for i, cut := range e.flights[0].cuts {
							if int(cut.shares) != e.kernels[i].width(c.bind, 1) {
								others++
							}
						}
						if e.active != active || (active > 1) != (others > 0) {
							t.Fatalf("%d workers were active, expected %d; %d steps of %d were cut otherwise than for one", e.active, active, others, len(e.kernels))
						}
						out = append(out, s.F32(c.result(ports))...)
					}
					return out
				}
				want, got := results(4), results(1)
				if slices.ContainsFunc(want, func(v float32) bool { return v != v || math.IsInf(float64(v), 0) }) || slices.Max(want) == slices.Min(want) {
					t.Fatalf("%v tell nothing", want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("one of four workers gives %v, all give %v", got, want)
				}
			})
		}
	}
}

// fillRun puts other tokens into each run, of one sequence.
func fillRun(t *testing.T, s *plan.Session, p *model.Ports, m *model.Model, b tensor.Bind, run int) {
	t.Helper()
	put := func(v *graph.Value, of func(i int) int) {
		if v != nil {
			x := s.I32(v)
			for i := range x {
				x[i] = int32(of(i))
			}
		}
	}
	past := run * b.T
	put(p.Tokens, func(i int) int { return (7*i + 13*run + 3) % m.Config().Vocab })
	put(p.Pos, func(i int) int { return past + i })
	put(p.Slots, func(i int) int { return past + i })
	put(p.BlockTable, func(i int) int { return i })
	put(p.Targets, func(i int) int { return (11*i + run) % m.Config().Vocab })
	if p.Slots == nil {
		put(p.Pos, func(i int) int { return i })
	}
	s.I32(p.QStart)[0], s.I32(p.QStart)[1] = 0, int32(b.T)
	if p.KVLen != nil {
		s.I32(p.KVLen)[0] = int32(past + b.T)
	}
	put(p.Rows, func(i int) int { return min(b.T-1, b.T-b.R+i) })
	if p.Hyper != nil {
		h := grad.Hyper{LR: 1e-2, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
		if err := h.Put(s.F32(p.Hyper)[:graph.HyperLen], 1+run); err != nil {
			t.Fatal(err)
		}
	}
}
