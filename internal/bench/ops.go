package bench

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/optest"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// backend is the CPU in one precision.
type backend = cpu.Backend

// backend opens the CPU in a precision, "" for that of the options, once.
func (e *Env) backend(precision string) (*backend, error) {
	if precision == "" {
		precision = e.Precision
	}
	if be, ok := e.backends[precision]; ok {
		return be, nil
	}
	p, err := cpu.ParsePrecision(precision)
	if err != nil {
		return nil, err
	}
	be, err := cpu.New(cpu.Options{Workers: e.Threads, Precision: p})
	if err != nil {
		return nil, err
	}
	e.backends[precision] = be
	return be, nil
}

// Close frees what cases share.
func (e *Env) Close() error {
	var errs []error
	if e.model != nil {
		errs = append(errs, e.model.close())
	}
	for _, be := range e.backends {
		errs = append(errs, be.Close())
	}
	return errors.Join(errs...)
}

var (
	dimT     = tensor.Of(tensor.T, 1)
	dimR     = tensor.Of(tensor.R, 1)
	dimS     = tensor.Of(tensor.S, 1)
	dimStart = tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}
)

// op is a case of a graph that runs in a session, as in a model: with the
// backend's choice of kernel and of workers.
func (e *Env) op(name string, threads int, bind tensor.Bind, build func(b *optest.Bench) []*graph.Value) *Case {
	return &Case{Name: name, Threads: threads, Open: func(ctx context.Context) (*Work, error) {
		be, err := e.backend("")
		if err != nil {
			return nil, err
		}
		b := optest.NewBench(bind, false)
		r, err := b.Open(be, optest.Options{BindOptions: plan.BindOptions{Serial: threads == 1, Workers: threads}}, build(b)...)
		if err != nil {
			return nil, err
		}
		return &Work{
			Run:   repeated(func() error { return r.Session.Run(ctx, bind) }),
			Cost:  func() ([]Cost, error) { return sessionCost(r) },
			Close: r.Session.Close,
		}, nil
	}}
}

// sessionCost runs a case once under a recorder, which knows what steps cost.
func sessionCost(r *optest.Runner) ([]Cost, error) {
	rec := profile.NewRecorder(profile.Options{Events: -1})
	if err := r.Session.Attach(rec, plan.ProfileLabels{}); err != nil {
		return nil, err
	}
	err := r.Run()
	return costs(rec.Snapshot()), errors.Join(err, r.Session.Attach(nil, plan.ProfileLabels{}))
}

// costs are the steps of a profile of one run.
func costs(p *profile.Profile) []Cost {
	out := []Cost{}
	for i := range p.Plans {
		for j, s := range p.Plans[i].Stats {
			if s.FLOPs > 0 || s.Bytes > 0 {
				out = append(out, Cost{p.Plans[i].Steps[j].Class, float64(s.FLOPs), float64(s.Bytes)})
			}
		}
	}
	return out
}

// ops makes a case for each number of workers.
func (e *Env) ops(out *[]*Case, bind tensor.Bind, build func(b *optest.Bench) []*graph.Value, format string, args ...any) {
	for _, threads := range e.threads() {
		*out = append(*out, e.op(fmt.Sprintf(format, args...), threads, bind, build))
	}
}

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

// evenly cuts the tokens into sequences of equal length.
func evenly(b *optest.Bench) *graph.Value {
	return b.I32(dimStart, 0, func(i int) int32 { return int32(i * b.Bind.T / b.Bind.S) })
}

func linearCases(e *Env) []*Case {
	var out []*Case
	for _, d := range storageTypes {
		for _, z := range dims {
			for _, m := range rowCounts {
				e.ops(&out, tensor.Bind{T: m, S: 1, R: 1}, func(b *optest.Bench) []*graph.Value {
					return one(b.Linear("y", b.F32(dimT, z[1]), b.Stored(d, z[0], z[1]), nil))
				}, "Linear/type=%s/precision=%s/m=%d/n=%d/k=%d", d, e.precision(), m, z[0], z[1])
			}
		}
	}
	return out
}

// precision is the name in effect.
func (e *Env) precision() string {
	if e.Precision == "" {
		return string(cpu.Auto)
	}
	return e.Precision
}

func ropeCases(e *Env) []*Case {
	var out []*Case
	for _, a := range []struct {
		name string
		attr graph.RopeAttr
	}{{"split", graph.RopeAttr{HeadDim: 64, Base: 10000}}, {"interleaved", graph.RopeAttr{HeadDim: 64, Base: 10000, Interleaved: true}}} {
		for _, heads := range []int{3, 9, 32} {
			for _, length := range []int{1, 16, 128, 512, 2048} {
				e.ops(&out, tensor.Bind{T: length, S: 1, R: 1}, func(b *optest.Bench) []*graph.Value {
					pos := b.I32(dimT, 0, func(i int) int32 { return int32(i) })
					return one(b.Rope("y", b.F32(dimT, heads*a.attr.HeadDim), pos, nil, a.attr))
				}, "Rope/pairs=%s/heads=%d/dim=%d/len=%d", a.name, heads, a.attr.HeadDim, length)
			}
		}
	}
	return out
}

// headShapes are those of MiniLM, SmolLM2 and EmbeddingGemma.
var headShapes = []graph.AttentionAttr{
	{Heads: 12, KVHeads: 12, HeadDim: 32},
	{Heads: 9, KVHeads: 3, HeadDim: 64},
	{Heads: 3, KVHeads: 1, HeadDim: 256},
}

const maskWindow = 128

func attentionCases(e *Env) []*Case {
	var out []*Case
	for _, a := range headShapes {
		for _, mask := range []struct {
			name           string
			causal, window bool
		}{{"full", false, false}, {"causal", true, false}, {"window", true, true}} {
			attr := a
			attr.Causal = mask.causal
			if mask.window {
				attr.Window = maskWindow
			}
			for _, z := range [][2]int{{1, 16}, {1, 64}, {1, 128}, {1, 256}, {1, 512}, {8, 64}, {32, 128}} {
				e.ops(&out, tensor.Bind{T: z[0] * z[1], S: z[0], R: 1}, func(b *optest.Bench) []*graph.Value {
					kv := attr.KVHeads * attr.HeadDim
					y, _ := b.Attention("y", b.F32(dimT, attr.Heads*attr.HeadDim), b.F32(dimT, kv), b.F32(dimT, kv), evenly(b), attr)
					return one(y)
				}, "Attention/mask=%s/heads=%d/kv=%d/dim=%d/batch=%d/len=%d", mask.name, attr.Heads, attr.KVHeads, attr.HeadDim, z[0], z[1])
			}
		}
		for _, length := range []int{64, 512, 2048} {
			for _, seqs := range []int{1, 8} {
				e.ops(&out, tensor.Bind{T: seqs, S: seqs, R: 1}, cached(a, length),
					"Attention/mask=cache/heads=%d/kv=%d/dim=%d/batch=%d/len=%d", a.Heads, a.KVHeads, a.HeadDim, seqs, length)
			}
		}
	}
	return out
}

// cached is one query a sequence over a cache of length tokens: decoding. The
// step that writes the query's own key is part of it.
func cached(a graph.AttentionAttr, length int) func(b *optest.Bench) []*graph.Value {
	a.Causal = true
	return func(b *optest.Bench) []*graph.Value {
		const block = graph.KVBlock
		each := (length + block - 1) / block
		shape := tensor.Static(each*block*b.Max().S, a.KVHeads*a.HeadDim)
		ks := b.State("k", graph.RoleKV, tensor.F32, shape)
		vs := b.State("v", graph.RoleKV, tensor.F32, shape)
		slots := b.I32(dimT, 0, func(i int) int32 { return int32(i*each*block + length - 1) })
		lens := b.I32(dimS, 0, func(int) int32 { return int32(length) })
		table := b.I32(dimS, each, func(i int) int32 { return int32(i) })
		w := a.KVHeads * a.HeadDim
		k, v := b.KVWrite("write", ks, vs, b.F32(dimT, w), b.F32(dimT, w), slots)
		return one(b.AttentionKV("y", b.F32(dimT, a.Heads*a.HeadDim), k, v, evenly(b), lens, table, graph.AttentionKVAttr{AttentionAttr: a}))
	}
}
