package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/model"
	"hotpath/internal/optest"
	"hotpath/internal/perf"
	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// deepCase is one kernel at one shape.
type deepCase struct {
	group, label string
	bind         tensor.Bind
	build        func(b *optest.Bench) *graph.Value
	direct       func() // a kernel that is no step of its own; build is nil
	flops, bytes float64
	class        string
	threads      int
}

var (
	deepT     = tensor.Of(tensor.T, 1)
	deepStart = tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}
)

// squares are the sizes at which kernels of all models are compared.
var squares = []int{128, 256, 512, 1024}

// Deep measures each kernel at the model's own shapes, where there is a model,
// and at square sizes, against the ceilings of the same run.
func Deep(ctx context.Context, o Options) (_ *Report, err error) {
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	be, err := cpu.New(cpu.Options{Workers: s.Threads, Precision: s.precision()})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, be.Close)
	cases := s.squareCases()
	if s.model != nil {
		own, err := s.ownCases()
		if err != nil {
			return nil, err
		}
		cases = append(own, cases...)
	}
	counters := perf.Open()
	defer counters.Close()
	roof := ceiling.NewRoof(ctx)
	r := &Report{Name: "deep", Title: "Kernels, one by one", Created: time.Now().UTC().Round(0),
		Question: "How near does each kernel come to what this machine allows at its shape?", Facts: s.facts(ctx)}
	at := map[string]int{}
	type result struct {
		label string
		roof  float64
		lost  float64
	}
	var worst []result
	for i := range cases {
		c := &cases[i]
		s.say(i, len(cases), "%s: %s", c.group, c.label)
		m, err := s.deep(ctx, be, c, counters)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.group, c.label, err)
		}
		k, ok := at[c.group]
		if !ok {
			k = len(r.Sections)
			at[c.group] = k
			head := []string{"shape", "kernel", "class", "threads", "time", "GFLOP/s", "GB/s", "of the ceiling"}
			if counters.Hardware() {
				head = append(head, "instructions a cycle", "L1d misses", "LLC misses")
			}
			r.Sections = append(r.Sections, Section{Title: c.group, Table: &Table{Left: 3, Head: head}})
		}
		floor := roof.Floor(c.class, c.threads, c.flops, c.bytes, c.bytes)
		row := []string{c.label, m.kernel, c.class, fmt.Sprint(c.threads), millis(m.seconds), rateOr(c.flops/m.seconds/1e9, c.flops), rateOr(c.bytes/m.seconds/1e9, c.bytes), fmt.Sprintf("%.1f %%", 100*floor/m.seconds)}
		if counters.Hardware() {
			row = append(row, shareOr(m.counted, perf.Instructions, perf.Cycles, 1, ""), shareOr(m.counted, perf.L1DMisses, perf.L1DLoads, 100, " %"), shareOr(m.counted, perf.LLCMisses, perf.LLCLoads, 100, " %"))
		}
		r.Sections[k].Table.addRow(row...)
		worst = append(worst, result{c.group + ", " + c.label, floor / m.seconds, m.seconds - floor})
	}
	slices.SortFunc(worst, func(a, b result) int { return int(math.Copysign(1, b.lost-a.lost)) })
	for _, w := range worst[:min(3, len(worst))] {
		r.Advice = append(r.Advice, fmt.Sprintf("%s is at %.0f %% of its ceiling and leaves %s a call.", w.label, 100*w.roof, millis(max(0, w.lost))))
	}
	if o.Quick {
		r.Advice = append([]string{"Made with --quick: one sample of each kernel shows that it works, and nothing about this machine. Rely on none of what follows."}, r.Advice...)
	}
	text := "The ceiling of a kernel is the longer of its arithmetic at the rate of its class and its bytes at the rate at which memory of that size is read, both measured in this run; what fits a cache is held against the cache."
	if why := counters.Explain(); why != "" {
		text += " Counters: " + why + "."
	}
	r.Sections = append(r.Sections, Section{Title: "Reading it", Text: []string{text}})
	return r, r.Check()
}

func rateOr(v, amount float64) string {
	if amount == 0 {
		return "none"
	}
	return number(v)
}

func shareOr(r perf.Reading, a, b string, scale float64, unit string) string {
	if v, ok := r.Ratio(a, b); ok {
		return fmt.Sprintf("%.2f%s", scale*v, unit)
	}
	return "not counted here"
}

// deepMeasure is what was found out about a case.
type deepMeasure struct {
	seconds float64
	kernel  string
	counted perf.Reading
}

// deep runs a case in short samples and takes the median.
func (s *session) deep(ctx context.Context, be *cpu.Backend, c *deepCase, counters *perf.Counters) (m deepMeasure, err error) {
	run := func() error { c.direct(); return nil }
	m.kernel = "vec"
	if c.build != nil {
		b := optest.NewBench(c.bind, false)
		r, err := b.Open(be, optest.Options{}, c.build(b))
		if err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, r.Session.Close()) }()
		rec := profile.NewRecorder(profile.Options{Events: -1})
		if err := r.Session.Attach(rec, plan.ProfileLabels{}); err != nil {
			return m, err
		}
		if err := r.Run(); err != nil {
			return m, err
		}
		var kernels []string
		for _, st := range rec.Snapshot().Top(-1, profile.ByTime) {
			c.flops += float64(st.FLOPs)
			c.bytes += float64(st.Bytes)
			c.class = st.Step.Class
			kernels = append(kernels, st.Step.Kernel)
		}
		m.kernel = strings.Join(kernels, " + ")
		if err := r.Session.Attach(nil, plan.ProfileLabels{}); err != nil {
			return m, err
		}
		run = func() error { return r.Session.Run(ctx, c.bind) }
		c.threads = s.Threads
	}
	samples, slice := 7, 3*time.Millisecond
	if s.Quick {
		samples, slice = 1, 0
	}
	var times []float64
	m.counted, err = counters.Count(func() error {
		for range samples {
			n := 0
			start := time.Now()
			for n == 0 || time.Since(start) < slice {
				if err := run(); err != nil {
					return err
				}
				n++
			}
			times = append(times, max(1e-9, time.Since(start).Seconds())/float64(n))
		}
		return ctx.Err()
	})
	m.seconds = stats.Median(times)
	return m, err
}

// squareCases are all kernels at square sizes.
func (s *session) squareCases() []deepCase {
	var out []deepCase
	sizes := squares
	if s.Quick {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		bind := tensor.Bind{T: n, S: 1, R: 1}
		label := fmt.Sprintf("%d × %d", n, n)
		add := func(group string, build func(b *optest.Bench) *graph.Value) {
			out = append(out, deepCase{group: group, label: label, bind: bind, build: build})
		}
		add("Products, square", func(b *optest.Bench) *graph.Value {
			return b.Linear("y", b.F32(deepT, n), b.Stored(tensor.F32, n, n), nil)
		})
		add("GELU", func(b *optest.Bench) *graph.Value { return b.Act("y", b.F32(deepT, n), graph.GELU) })
		add("LayerNorm", func(b *optest.Bench) *graph.Value {
			return b.LayerNorm("y", b.F32(deepT, n), b.F32(tensor.Fixed(n)), b.F32(tensor.Fixed(n)), 1e-5)
		})
		add("RMSNorm", func(b *optest.Bench) *graph.Value {
			return b.RMSNorm("y", b.F32(deepT, n), b.F32(tensor.Fixed(n)), 1e-5, 0)
		})
		add("RoPE", func(b *optest.Bench) *graph.Value {
			return b.Rope("y", b.F32(deepT, n), b.I32(deepT, 0, func(i int) int32 { return int32(i) }), nil, graph.RopeAttr{HeadDim: 64, Base: 10000})
		})
		add("Attention, heads of 64", attention(graph.AttentionAttr{Heads: n / 64, KVHeads: n / 64, HeadDim: 64}))
		x, y := s.noise(n*n, 3), make([]float32, n*n)
		out = append(out, deepCase{group: "Softmax", label: label, class: "f32", threads: 1, flops: 4 * float64(n*n), bytes: 8 * float64(n*n), direct: func() {
			for r := range n {
				copy(y[r*n:(r+1)*n], x[r*n:(r+1)*n]) // in place, and a distribution would be no fair input
				vec.Softmax(y[r*n : (r+1)*n])
			}
		}})
	}
	slices.SortStableFunc(out, func(a, b deepCase) int { return strings.Compare(a.group, b.group) })
	return out
}

func attention(a graph.AttentionAttr) func(b *optest.Bench) *graph.Value {
	return func(b *optest.Bench) *graph.Value {
		kv := a.KVHeads * a.HeadDim
		starts := b.I32(deepStart, 0, func(i int) int32 { return int32(i * b.Bind.T / b.Bind.S) })
		y, _ := b.Attention("y", b.F32(deepT, a.Heads*a.HeadDim), b.F32(deepT, kv), b.F32(deepT, kv), starts, a)
		return y
	}
}

// ownCases are the distinct shapes of the model's own graph.
func (s *session) ownCases() ([]deepCase, error) {
	one := tensor.Bind{T: 1, S: 1, R: 1}
	var g *graph.Graph
	var err error
	if s.encodes() {
		g, _, err = s.model.BuildEmbed(one, s.pooling())
	} else {
		g, _, err = s.model.BuildGenerate(one, model.KVLayout{Blocks: 1, MaxBlocksPerSeq: 1})
	}
	if err != nil {
		return nil, err
	}
	rows := []int{1, 128, 512}
	if s.Quick {
		rows = []int{4}
	}
	var out []deepCase
	seen := map[string]bool{}
	add := func(group, label string, seqs int, build func(b *optest.Bench) *graph.Value) {
		for _, m := range rows {
			full := fmt.Sprintf("%s, %d rows", label, m)
			if !seen[group+full] {
				seen[group+full] = true
				out = append(out, deepCase{group: group, label: full, bind: tensor.Bind{T: m, S: min(m, seqs), R: 1}, build: build})
			}
		}
	}
	for _, n := range g.Nodes {
		if n.Leaf != nil {
			continue
		}
		width := n.Out[0].Shape.RowLen()
		switch n.Op {
		case graph.OpLinear:
			w := n.In[1]
			rows, k, d := w.Shape.NumRows(one), w.Shape.RowLen(), w.DType
			add("Products of the model", fmt.Sprintf("%d × %d %s", rows, k, d), 1, func(b *optest.Bench) *graph.Value {
				return b.Linear("y", b.F32(deepT, k), b.Stored(d, rows, k), nil)
			})
		case graph.OpAct:
			kind := n.Attr.(graph.ActAttr).Kind
			add("Activations of the model", fmt.Sprintf("%s of %d", kind, width), 1, func(b *optest.Bench) *graph.Value { return b.Act("y", b.F32(deepT, width), kind) })
		case graph.OpGLU:
			kind := n.Attr.(graph.ActAttr).Kind
			add("Activations of the model", fmt.Sprintf("%s GLU of %d", kind, width), 1, func(b *optest.Bench) *graph.Value {
				return b.GLU("y", b.F32(deepT, width), b.F32(deepT, width), kind)
			})
		case graph.OpNorm:
			attr := n.Attr.(graph.NormAttr)
			w := n.In[1].Shape.Outer.Add
			add("Norms of the model", fmt.Sprintf("%d in groups of %d", width, w), 1, func(b *optest.Bench) *graph.Value {
				if attr.Kind == graph.LayerNorm {
					return b.LayerNorm("y", b.F32(deepT, width), b.F32(tensor.Fixed(w)), b.F32(tensor.Fixed(w)), attr.Eps)
				}
				return b.RMSNorm("y", b.F32(deepT, width), b.F32(tensor.Fixed(w)), attr.Eps, attr.Offset)
			})
		case graph.OpRope:
			attr := n.Attr.(graph.RopeAttr)
			if len(n.In) > 2 && n.In[2] != nil { // tables of its own: the plain rope costs the same
				attr = graph.RopeAttr{HeadDim: attr.HeadDim, RotDim: attr.RotDim, Base: 10000, Interleaved: attr.Interleaved}
			}
			add("RoPE of the model", fmt.Sprintf("%d heads of %d", width/attr.HeadDim, attr.HeadDim), 1, func(b *optest.Bench) *graph.Value {
				return b.Rope("y", b.F32(deepT, width), b.I32(deepT, 0, func(i int) int32 { return int32(i) }), nil, attr)
			})
		case graph.OpAttention, graph.OpAttentionKV:
			a, ok := n.Attr.(graph.AttentionAttr)
			if kv, isKV := n.Attr.(graph.AttentionKVAttr); isKV {
				a, ok = kv.AttentionAttr, true
			}
			if ok {
				add("Attention of the model", fmt.Sprintf("%d heads of %d over %d", a.Heads, a.HeadDim, a.KVHeads), 4, attention(a))
			}
		}
	}
	return out, nil
}
