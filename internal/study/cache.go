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
	"hotpath/internal/experiment"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/optest"
	"hotpath/internal/perf"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// widths are those of small encoders: the feed-forward part is four times as
// wide.
var widths = []int{512, 384, 256}

// sized is an arm with what it does and what it touches.
type sized struct {
	Arm
	label   string
	flops   float64
	touched float64 // bytes that it reads and writes, each once
}

// rate is GFLOP/s with its interval.
func (z sized) rate(t *Trial, arm int) Estimate {
	return t.Time(arm).Map(func(s float64) float64 { return z.flops / s / 1e9 })
}

func caching(ctx context.Context, s *session) (_ *Report, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	be, err := cpu.New(cpu.Options{Workers: s.Threads, Precision: s.precision()})
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, be.Close)
	d := s.plan(3, 90*time.Second)
	h := isa.Host()
	r := &Report{
		Title:    "Caches: tiles, batches and widths",
		Question: fmt.Sprintf("How do the sizes of tiles, batches and layers meet the caches of this machine (%s)?", cacheNames(h)),
	}
	counters := perf.Open()
	defer counters.Close()
	misses := &Table{Left: 1, Head: []string{"case", "instructions a cycle", "L1d misses", "LLC misses"}}

	s.say(0, 3, "tiles of a product")
	tiles, rows, cols, err := s.tileArms()
	if err != nil {
		return nil, err
	}
	t, err := measureSized(ctx, d.next(), tiles)
	if err != nil {
		return nil, err
	}
	r.Trials = append(r.Trials, NamedTrial{"tiles", t})
	sec, advice := tileSection(tiles, rows, cols, t, h)
	r.Sections, r.Advice = append(r.Sections, sec), append(r.Advice, advice)
	if err := count(ctx, counters, misses, []sized{tiles[0], tiles[len(tiles)-1]}); err != nil {
		return nil, err
	}

	for i, part := range []struct {
		title string
		arms  func(*opened, plan.Backend) ([]sized, error)
		show  func([]sized, *Trial, isa.Machine) (Section, string)
	}{{"Batch", s.batchArms, batchSection}, {"Width", s.widthArms, widthSection}} {
		s.say(1+i, 3, "%s", strings.ToLower(part.title))
		arms, err := part.arms(&o, be)
		if err != nil {
			return nil, err
		}
		t, err := measureSized(ctx, d.next(), arms)
		if err != nil {
			return nil, err
		}
		r.Trials = append(r.Trials, NamedTrial{part.title, t})
		sec, advice := part.show(arms, t, h)
		r.Sections, r.Advice = append(r.Sections, sec), append(r.Advice, advice)
		if err := count(ctx, counters, misses, arms); err != nil {
			return nil, err
		}
	}
	counted := Section{Title: "Counters", Text: []string{"Counted by the processor while each case ran for a while more."}, Table: misses}
	if why := counters.Explain(); why != "" {
		counted.Text = append(counted.Text, strings.ToUpper(why[:1])+why[1:]+".")
	}
	if !counters.Hardware() {
		counted.Text, counted.Table = counted.Text[1:], nil
		r.Advice = append(r.Advice, "Miss rates could not be counted on this machine; what is said about caches rests on times alone.")
	}
	r.Sections = append(r.Sections, counted)
	return r, nil
}

func measureSized(ctx context.Context, d Design, arms []sized) (*Trial, error) {
	plain := make([]Arm, len(arms))
	for i := range arms {
		plain[i] = arms[i].Arm
	}
	return d.Measure(ctx, plain, Arm{})
}

// count runs cases under the counters of the processor.
func count(ctx context.Context, c *perf.Counters, t *Table, arms []sized) error {
	if !c.Hardware() {
		return nil
	}
	for _, a := range arms {
		r, err := c.Count(func() error {
			for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
				if err := a.Run(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		share := func(x, y, format string, scale float64) string {
			if v, ok := r.Ratio(x, y); ok {
				return fmt.Sprintf(format, scale*v)
			}
			return "not counted here"
		}
		t.addRow(a.label, share(perf.Instructions, perf.Cycles, "%.2f", 1), share(perf.L1DMisses, perf.L1DLoads, "%.2f %%", 100), share(perf.LLCMisses, perf.LLCLoads, "%.2f %%", 100))
	}
	return nil
}

// tiled is a product that is computed tile by tile on one thread.
func (s *session) tiled(m, n, k, rows, cols int) (run func(), element int, err error) {
	rng := s.noise(n*k, 1)
	data := make([]byte, 4*n*k)
	if err := tensor.Quantize(data, tensor.F32, rng); err != nil {
		return nil, 0, err
	}
	w, err := gemm.NewStored(data, tensor.F32, n, k)
	if err != nil {
		return nil, 0, err
	}
	a, c := s.noise(m*k, 2), make([]float32, m*n)
	each := func(panels, nr int, part func(m0, m1, p0, p1 int)) func() {
		step := max(1, cols/nr)
		return func() {
			for m0 := 0; m0 < m; m0 += rows {
				for p := 0; p < panels; p += step {
					part(m0, min(m, m0+rows), p, min(panels, p+step))
				}
			}
		}
	}
	if isa.Active() >= isa.AMX && s.precision() != cpu.F32 {
		b := bf16.Pack(make([]uint16, bf16.PackedLen(n, k)), bf16.NewStored(w), n, k)
		scratch := bf16.NewScratch(k)
		t := &bf16.Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: c, LDC: n}
		return each(bf16.NumPanels(n), bf16.NR, func(m0, m1, p0, p1 int) { bf16.Run(t, m0, m1, p0, p1, scratch) }), 2, nil
	}
	b := gemm.NewPacked(make([]float32, gemm.PackedLen(n, k)), n, k)
	b.PackB(rng, k, 0, gemm.NumPanels(n))
	scratch := gemm.NewScratch(nil)
	t := &gemm.Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: c, LDC: n}
	return each(gemm.NumPanels(n), gemm.NR(), func(m0, m1, p0, p1 int) { gemm.Run(t, m0, m1, p0, p1, scratch) }), 4, t.Check()
}

func (s *session) noise(n int, seed int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32((i*7919+seed*104729)%2003)/1001.5 - 1
	}
	return f
}

// tileArms are one product in tiles of every size.
func (s *session) tileArms() (arms []sized, rows, cols []int, err error) {
	m, n, k := 512, 1536, 384
	rows, cols = []int{16, 32, 64, 128, 256, 512}, []int{32, 96, 192, 384, 768, 1536}
	if s.Quick {
		m, n, k, rows, cols = 32, 64, 32, []int{16, 32}, []int{32, 64}
	}
	for _, r := range rows {
		for _, c := range cols {
			run, element, err := s.tiled(m, n, k, r, c)
			if err != nil {
				return nil, nil, nil, err
			}
			label := fmt.Sprintf("tile of %d × %d", r, c)
			arms = append(arms, sized{label: label, flops: 2 * float64(m) * float64(n) * float64(k),
				touched: float64(4*r*k + element*c*k + 4*r*c),
				Arm:     Arm{Name: label, Run: func(context.Context) error { run(); return nil }}})
		}
	}
	return arms, rows, cols, nil
}

func tileSection(arms []sized, rows, cols []int, t *Trial, h isa.Machine) (Section, string) {
	heat := Heat{Title: "Rate of one product by its tile", XLabel: "columns of a tile", YLabel: "rows of a tile", Unit: "GFLOP/s"}
	sizes := Heat{Title: "What a tile touches", XLabel: "columns of a tile", YLabel: "rows of a tile", Unit: "KiB"}
	for _, c := range cols {
		heat.X, sizes.X = append(heat.X, fmt.Sprint(c)), append(sizes.X, fmt.Sprint(c))
	}
	best, worst := 0, 0
	for j, r := range rows {
		heat.Y, sizes.Y = append(heat.Y, fmt.Sprint(r)), append(sizes.Y, fmt.Sprint(r))
		var rates, kib []float64
		for i := range cols {
			a := j*len(cols) + i
			rates, kib = append(rates, arms[a].rate(t, a).Mid), append(kib, arms[a].touched/1024)
			if t.Ratio(a).Mid < t.Ratio(best).Mid {
				best = a
			}
			if t.Ratio(a).Mid > t.Ratio(worst).Mid {
				worst = a
			}
		}
		heat.Values, sizes.Values = append(heat.Values, rates), append(sizes.Values, kib)
	}
	e := t.Between(worst, best)
	advice := fmt.Sprintf("Tiles: the best is %s, which touches %s (%s); the worst, %s, changes the time by %s.", arms[best].label, bytes(arms[best].touched),
		level(arms[best].touched, h), arms[worst].label, change(e))
	if t.Void() {
		advice = fmt.Sprintf("Tiles: the experiment is %s.", voided(t))
	} else if experiment.Judge(e, t.Noise()) != experiment.Slower {
		advice = fmt.Sprintf("Tiles: no size is shown to be better than another (best against worst: %s).", change(e))
	}
	return Section{Title: "Tiles", Text: []string{
		"One product of 512 × 1536 × 384 on one thread, computed tile by tile. A small tile is called more often, a large one touches more than a cache holds.",
		"The control, the first tile against itself, differs by " + change(t.Noise()) + fmt.Sprintf(", over %s.", plural(t.Blocks, "block"))},
		Figures: []Figure{{"tiles", "GFLOP/s by the tile's rows and columns.", heat.SVG()}, {"tile-bytes", "Operands and result of one tile, in KiB: hold it against the caches above.", sizes.SVG()}}}, advice
}

// level names the smallest cache that holds so many bytes.
func level(v float64, h isa.Machine) string {
	for _, l := range []struct {
		name string
		size int
	}{{"fits L1", h.L1D}, {"fits L2", h.L2}, {"fits L3", h.L3}} {
		if l.size > 0 && v <= float64(l.size) {
			return l.name
		}
	}
	return "beyond the caches that are known"
}

// encoder is layers of an encoder with random weights over tokens.
func (s *session) encoder(o *opened, be plan.Backend, width, layers, tokens int) (sized, error) {
	seqs := max(1, tokens/32)
	bind := tensor.Bind{T: tokens, S: seqs, R: 1}
	b := optest.NewBench(bind, false)
	dimT := tensor.Of(tensor.T, 1)
	norm := func(name string, x *graph.Value) *graph.Value {
		return b.LayerNorm(name, x, b.F32(tensor.Fixed(width)), b.F32(tensor.Fixed(width)), 1e-5)
	}
	linear := func(name string, x *graph.Value, n, k int) *graph.Value {
		return b.Linear(name, x, b.Stored(tensor.F32, n, k), b.F32(tensor.Fixed(n)))
	}
	starts := b.I32(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}, 0, func(i int) int32 { return int32(i * tokens / seqs) })
	x := b.Scaled(b.F32(dimT, width), 0.1)
	attr := graph.AttentionAttr{Heads: width / 32, KVHeads: width / 32, HeadDim: 32}
	for i := range layers {
		end := b.LayerScope(i)
		a, _ := b.Attention("attn", linear("q", x, width, width), linear("k", x, width, width), linear("v", x, width, width), starts, attr)
		x = norm("n1", b.Add("r1", x, linear("o", a, width, width)))
		x = norm("n2", b.Add("r2", x, linear("down", b.Act("gelu", linear("up", x, 4*width, width), graph.GELU), width, 4*width)))
		end()
	}
	r, err := b.Open(be, optest.Options{}, x)
	if err != nil {
		return sized{}, err
	}
	o.closers = append(o.closers, r.Session.Close)
	z := sized{label: fmt.Sprintf("width %d, %d layers, %d tokens", width, layers, tokens)}
	z.Name, z.Run = z.label, func(ctx context.Context) error { return r.Session.Run(ctx, bind) }
	matrices := float64(12*width*width) * float64(layers)
	z.flops = 2*float64(tokens)*matrices + 4*float64(tokens)*float64(tokens/seqs)*float64(width*layers)
	element := 4.0
	if isa.Active() >= isa.AMX && s.precision() != cpu.F32 {
		element = 2
	}
	// Of one layer: its weights, and the widest activations around them.
	z.touched = element*float64(12*width*width) + 4*float64(tokens)*float64(5*width)
	return z, nil
}

func (s *session) batchArms(o *opened, be plan.Backend) ([]sized, error) {
	tokens := []int{16, 32, 64, 128, 256, 512, 1024, 2048}
	width, layers := 384, 2
	if s.Quick {
		tokens, width, layers = []int{8, 32}, 64, 1
	}
	return s.encoders(o, be, []int{width}, layers, tokens)
}

func (s *session) widthArms(o *opened, be plan.Backend) ([]sized, error) {
	tokens, layers, ws := 256, 4, widths
	if s.Quick {
		tokens, layers, ws = 16, 1, []int{64, 32}
	}
	return s.encoders(o, be, ws, layers, []int{tokens})
}

func (s *session) encoders(o *opened, be plan.Backend, widths []int, layers int, tokens []int) ([]sized, error) {
	var out []sized
	for _, w := range widths {
		for _, n := range tokens {
			z, err := s.encoder(o, be, w, layers, n)
			if err != nil {
				return nil, err
			}
			out = append(out, z)
		}
	}
	return out, nil
}

func sizedTable(arms []sized, t *Trial, h isa.Machine) *Table {
	tab := &Table{Left: 1, Head: []string{"case", "time", "GFLOP/s", "touched by a layer", "which", "time a FLOP against the first"}}
	for i, a := range arms {
		e, shift := a.rate(t, i), math.Log(a.flops/arms[0].flops)
		against := "the baseline"
		if i > 0 {
			against = change(t.Ratio(i).Map(func(v float64) float64 { return v - shift }))
		}
		tab.addRow(a.label, millis(t.Time(i).Mid), fmt.Sprintf("%s (%s to %s)", number(e.Mid), number(finite(e.Low, e.Mid)), number(finite(e.High, e.Mid))),
			bytes(a.touched), level(a.touched, h), against)
	}
	return tab
}

func batchSection(arms []sized, t *Trial, h isa.Machine) (Section, string) {
	line := Series{Name: "GFLOP/s"}
	best := 0
	for i, a := range arms {
		e := a.rate(t, i)
		x := a.touched / 1024
		line.X, line.Y = append(line.X, x), append(line.Y, e.Mid)
		line.Low, line.High = append(line.Low, finite(e.Low, e.Mid)), append(line.High, finite(e.High, e.Mid))
		if e.Mid > arms[best].rate(t, best).Mid {
			best = i
		}
	}
	var marks []Mark
	for _, l := range []struct {
		name string
		size int
	}{{"L1d", h.L1D}, {"L2", h.L2}, {"L3", h.L3}} {
		if l.size > 0 {
			marks = append(marks, Mark{float64(l.size) / 1024, l.name})
		}
	}
	last := len(arms) - 1
	fall := t.Between(last, best).Map(func(v float64) float64 { return v - math.Log(arms[last].flops/arms[best].flops) })
	advice := fmt.Sprintf("Batch: the rate is highest at %s, where a layer touches %s (%s); at the largest batch a FLOP takes %s.", arms[best].label, bytes(arms[best].touched), level(arms[best].touched, h), change(fall))
	if experiment.Judge(fall, t.Noise()) != experiment.Slower {
		advice = fmt.Sprintf("Batch: the rate is highest at %s, where a layer touches %s (%s); no larger batch is shown to be slower (the largest: %s).", arms[best].label, bytes(arms[best].touched), level(arms[best].touched, h), change(fall))
	}
	if best == last {
		advice = fmt.Sprintf("Batch: the rate grows up to the largest batch that was measured (%s, %s): the caches do not limit it here.", arms[best].label, level(arms[best].touched, h))
	}
	if t.Void() {
		advice = fmt.Sprintf("Batch: the experiment is %s.", voided(t))
	}
	return Section{Title: "Batch", Table: sizedTable(arms, t, h), Text: []string{"Two layers of an encoder with random weights and a growing batch. The control differs by " + change(t.Noise()) + "."},
		Figures: []Figure{{"batch", "Rate over what one layer touches, with the sizes of the caches.",
			Lines{Title: "Rate by what a layer touches", XLabel: "KiB touched by a layer", YLabel: "GFLOP/s", LogX: true, FromZero: true, Series: []Series{line}, Marks: marks}.SVG()}}}, advice
}

func widthSection(arms []sized, t *Trial, h isa.Machine) (Section, string) {
	var bars []Bar
	for i, a := range arms {
		e := a.rate(t, i)
		bars = append(bars, Bar{Label: a.label, Value: e.Mid, Low: finite(e.Low, e.Mid), High: finite(e.High, e.Mid), Color: i})
	}
	best := slices.Index(bars, slices.MaxFunc(bars, func(a, b Bar) int { return int(math.Copysign(1, a.Value-b.Value)) }))
	var parts []string
	for i := range arms {
		if i == best {
			continue
		}
		e := t.Between(i, best).Map(func(v float64) float64 { return v - math.Log(arms[i].flops/arms[best].flops) })
		word := "no difference shown"
		if experiment.Judge(e, t.Noise()) == experiment.Slower {
			word = change(e) + " a FLOP"
		}
		parts = append(parts, fmt.Sprintf("%s %s", arms[i].label, word))
	}
	advice := fmt.Sprintf("Width: a FLOP is cheapest at %s (%s); against it: %s.", arms[best].label, level(arms[best].touched, h), strings.Join(parts, "; "))
	if t.Void() {
		advice = fmt.Sprintf("Width: the experiment is %s.", voided(t))
	}
	return Section{Title: "Width", Table: sizedTable(arms, t, h), Text: []string{"Four layers of an encoder with random weights, as wide as small models are. The control differs by " + change(t.Noise()) + "."},
		Figures: []Figure{{"width", "Rate by the width of the model, with 95 per cent intervals.", Bars{Title: "Rate by width", Unit: "GFLOP/s", Bars: bars}.SVG()}}}, advice
}
