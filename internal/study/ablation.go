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
	"hotpath/internal/engine"
	"hotpath/internal/experiment"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
	"hotpath/internal/tokenizer"
)

// variant is one optimisation switched off.
type variant struct {
	name  string // of the optimisation
	off   string // what is done without it
	setup setup
	work  work // nil run: that of the group
	// quality is measured where answers may change.
	quality bool
}

// family is variants that are measured in one experiment, against one
// baseline.
type family struct {
	title    string
	work     work
	baseline setup
	variants []variant
}

// finding is what was found out about a variant.
type finding struct {
	variant
	family      *family
	trial       *Trial
	arm         int
	weights     float64 // bytes
	activations float64
	quality     string
}

func (f *finding) ratio() Estimate { return f.trial.Ratio(f.arm) }

func ablation(ctx context.Context, s *session) (*Report, error) {
	families := s.families()
	d := s.plan(len(families), 150*time.Second)
	var found []finding
	r := &Report{
		Title:    "Ablation: what each optimisation is worth",
		Question: "Each optimisation is switched off alone. How much slower is the same work, how much memory does it take, and do the answers change?",
	}
	reference, err := s.answers(ctx, setup{Options: cpu.Options{Precision: cpu.F32}})
	if err != nil {
		return nil, err
	}
	for i := range families {
		f := &families[i]
		s.say(i, len(families), "%s", f.title)
		got, base, trial, err := s.ablate(ctx, f, reference, d.next())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.title, err)
		}
		found = append(found, got...)
		r.Trials = append(r.Trials, NamedTrial{f.title, trial})
		r.Sections = append(r.Sections, f.section(got, base, trial))
	}
	r.Advice = ablationAdvice(found)
	r.Sections = append([]Section{ablationSummary(found)}, r.Sections...)
	r.Sections = append(r.Sections, Section{Title: "Not measured", Text: s.unmeasured()})
	return r, nil
}

// families are the experiments that fit the model.
func (s *session) families() []family {
	usual := s.usual()
	switches := family{title: "Plan and memory", work: usual, variants: []variant{
		{name: "fusion", off: "every op is a step of its own", setup: setup{Options: cpu.Options{NoFusion: true}}},
		{name: "arena reuse", off: "every activation has memory of its own", setup: setup{Options: cpu.Options{NoReuse: true}}},
		{name: "packing", off: "matrices stay as the file has them", setup: setup{Options: cpu.Options{NoPack: true}}, quality: true},
	}}
	out := []family{switches}
	if s.encodes() {
		lengths := []int{5, 15, 40, 5, 15, 40, 5, 15, 40, 5, 15, 40}
		mixed := s.texts(3, lengths)
		out = append(out, family{title: "Batches", work: s.embed(mixed), variants: []variant{
			{name: "batching", off: "one call a text", work: s.oneByOne(mixed)},
			{name: "ragged batches", off: "all texts padded to the longest", work: s.embed(s.texts(3, even(len(lengths), slices.Max(lengths))))},
		}})
	} else {
		out = append(out, s.generatorFamilies()...)
	}
	small := usual
	if s.encodes() {
		small = s.embed(s.texts(4, even(2, 16)))
	} else {
		small = s.generate(s.texts(4, even(1, 8)), 2)
	}
	tiers := family{title: "Tiers", work: small, baseline: setup{tiered: true, tier: isa.Active()}}
	for _, t := range isa.Available() {
		if t < isa.Active() && !(s.Quick && t == isa.Generic) {
			tiers.variants = append(tiers.variants, variant{name: "tier " + isa.Active().String(), off: "tier " + t.String(), setup: setup{tiered: true, tier: t}, quality: true})
		}
	}
	if len(tiers.variants) > 0 {
		out = append(out, tiers)
	}
	classes := family{title: "Compute classes and quantization", work: usual}
	for _, p := range []cpu.Precision{cpu.F32, cpu.BF16} {
		if p != s.precision() && !(p == cpu.BF16 && isa.Active() < isa.AMX) {
			classes.variants = append(classes.variants, variant{name: "precision " + string(s.precision()), off: "precision " + string(p), setup: setup{Options: cpu.Options{Precision: p}}, quality: true})
		}
	}
	for _, t := range []tensor.DType{tensor.BF16, tensor.Q8_0, tensor.Q4_1} {
		classes.variants = append(classes.variants, variant{name: "the file's weights", off: "weights as " + t.String(), setup: setup{quant: &t}, quality: true})
	}
	q8 := tensor.Q8_0
	classes.variants = append(classes.variants, variant{name: "the file's weights", off: "weights as Q8_0, products in i8g32", setup: setup{quant: &q8, Options: cpu.Options{Precision: cpu.I8G32}}, quality: true})
	return append(out, classes)
}

// generatorFamilies are the optimisations that only generation has.
func (s *session) generatorFamilies() []family {
	most := s.model.Config().MaxSeq
	prompt, n := s.texts(5, even(1, min(32, most/4)))[0], 12
	long := s.texts(6, even(1, min(193, most/2)))
	several := s.texts(7, even(4, 8))
	if s.Quick {
		n = 3
	}
	return []family{
		{title: "KV cache", work: s.generate([][]int32{prompt}, n), variants: []variant{{name: "KV cache", off: "the whole text is run again for each token",
			setup: setup{engine: engine.Options{NoPrefix: true}}, work: work{run: func(ctx context.Context, e *engine.Engine) error {
				text := slices.Clone(prompt)
				for range n {
					if err := generate(ctx, e, [][]int32{text}, 1); err != nil {
						return err
					}
					text = append(text, prompt[len(text)%len(prompt)])
				}
				return nil
			}}}}},
		{title: "Prefix reuse", work: s.generate(long, 2), variants: []variant{{name: "prefix reuse", off: "a prompt that was seen before is run again",
			setup: setup{engine: engine.Options{NoPrefix: true}}}}},
		{title: "Batched decoding", work: s.generate(several, n), variants: []variant{{name: "batching", off: "one sequence after the other", work: work{
			run: func(ctx context.Context, e *engine.Engine) error {
				for _, p := range several {
					if err := generate(ctx, e, [][]int32{p}, n); err != nil {
						return err
					}
				}
				return nil
			}}}}},
	}
}

// oneByOne embeds texts in a call each.
func (s *session) oneByOne(texts [][]int32) work {
	dst, how := make([]float32, s.model.Config().Dim), s.pooling()
	return work{"", total(texts), func(ctx context.Context, e *engine.Engine) error {
		for i := range texts {
			if err := e.EmbedIDs(ctx, texts[i:i+1], dst, how); err != nil {
				return err
			}
		}
		return nil
	}}
}

// unmeasured says what was left out, so that nobody takes silence for zero.
func (s *session) unmeasured() []string {
	var out []string
	if s.encodes() {
		out = append(out, "The model does not generate: KV cache, prefix reuse and batched decoding do not apply to it.")
	}
	if isa.Active() == isa.Generic {
		out = append(out, "The generic tier is in use: there is no lesser one.")
	}
	if isa.Active() < isa.AMX {
		out = append(out, "The tier in use has no tiles: the class bf16 was not measured.")
	}
	return append(out, "What the operating system does (huge pages, page cache, frequency) was left as it is.")
}

// ablate measures one family and looks at the memory and the answers of each
// variant.
func (s *session) ablate(ctx context.Context, f *family, reference answers, d Design) (found []finding, base *finding, _ *Trial, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	arms := []Arm{}
	add := func(v variant, x setup) (*finding, error) {
		if v.work.run == nil {
			v.work = f.work
		}
		g := &finding{variant: v, family: f, arm: len(arms)}
		if err := s.memory(ctx, g, x); err != nil {
			return nil, err
		}
		g.quality = "the same answers: only the way to them differs"
		if v.quality {
			got, err := s.answers(ctx, x)
			if err != nil {
				return nil, err
			}
			g.quality = reference.against(got)
		}
		r, err := s.start(&o, x)
		if err != nil {
			return nil, err
		}
		arms = append(arms, r.arm(v.off, v.work))
		return g, nil
	}
	if base, err = add(variant{off: "as it is", quality: true}, f.baseline); err != nil {
		return nil, nil, nil, err
	}
	for _, v := range f.variants {
		g, err := add(v, v.setup)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", v.off, err)
		}
		found = append(found, *g)
	}
	again, err := s.start(&o, f.baseline)
	if err != nil {
		return nil, nil, nil, err
	}
	trial, err := d.Measure(ctx, arms, again.arm("as it is, again", f.work))
	for i := range found {
		found[i].trial = trial
	}
	base.trial = trial
	return found, base, trial, err
}

// memory runs a variant once under a recorder, which knows what it takes.
func (s *session) memory(ctx context.Context, g *finding, x setup) (err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	r, rec, err := s.recorded(&o, x)
	if err != nil {
		return err
	}
	defer r.enter()()
	if err := g.work.run(ctx, r.Engine); err != nil {
		return err
	}
	p := rec.Snapshot()
	g.weights = float64(r.Engine.WeightBytes())
	for i := range p.Plans {
		g.activations = max(g.activations, float64(p.Plans[i].MemoryBytes["activations"]))
	}
	return nil
}

// paragraph is what answers are compared on.
const paragraph = `The harbour was quiet when the last boat came in. Nobody had expected it before morning.
A proof is a story that convinces a careful reader. The price of wheat rose by four per cent in a week.
She wrote the letter twice, and burnt it twice. Water boils at a lower temperature on a mountain.
The old theorem has a short proof and a long history. Music fills the square on summer evenings.`

// answers are what a model says about the paragraph: a vector of each sentence,
// or how likely it finds each token.
type answers struct {
	vectors [][]float32
	nll     []float32
}

func (s *session) answers(ctx context.Context, x setup) (a answers, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	tok, err := s.model.Tokenizer()
	if err != nil {
		return a, err
	}
	r, err := s.start(&o, x)
	if err != nil {
		return a, err
	}
	defer r.enter()()
	c := s.model.Config()
	var texts [][]int32
	for _, line := range strings.SplitAfter(paragraph, ". ") {
		if ids := tok.Encode(nil, line, tokenizer.Options{Special: s.encodes()}, nil); len(ids) > 1 {
			texts = append(texts, ids[:min(len(ids), c.MaxSeq/2)])
		}
	}
	if !s.encodes() {
		all, err := r.Engine.ScoreIDs(ctx, texts)
		return answers{nll: slices.Concat(all...)}, err
	}
	flat := make([]float32, len(texts)*c.Dim)
	if err := r.Engine.EmbedIDs(ctx, texts, flat, s.pooling()); err != nil {
		return a, err
	}
	for i := range texts {
		a.vectors = append(a.vectors, flat[i*c.Dim:(i+1)*c.Dim])
	}
	return a, nil
}

// against says how far b is from a, the reference in f32.
func (a answers) against(b answers) string {
	if a.vectors != nil {
		mean, worst := 0.0, 1.0
		for i := range a.vectors {
			c := cosine(a.vectors[i], b.vectors[i])
			mean += c / float64(len(a.vectors))
			worst = min(worst, c)
		}
		return fmt.Sprintf("cosine to f32: mean %.5f, worst %.5f", mean, worst)
	}
	var x, y float64
	for i := range a.nll {
		x += float64(a.nll[i]) / float64(len(a.nll))
		y += float64(b.nll[i]) / float64(len(a.nll))
	}
	return fmt.Sprintf("perplexity %.4g, %+.2f %% of f32's", math.Exp(y), 100*math.Expm1(y-x))
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func (f *family) section(found []finding, base *finding, t *Trial) Section {
	tab := &Table{Left: 1, Head: []string{"instead", "time", "against as it is", "weights", "activations", "answers", "verdict"}}
	row := func(g *finding, ratio, verdict string) {
		tab.addRow(g.off, millis(t.Time(g.arm).Mid), ratio, bytes(g.weights), bytes(g.activations), g.quality, verdict)
	}
	row(base, "the baseline", "the baseline")
	for i := range found {
		row(&found[i], change(found[i].ratio()), string(t.Judge(found[i].arm)))
	}
	return Section{Title: f.title, Table: tab, Text: []string{
		"The work: " + f.work.name + ". The control, the baseline against a second instance of itself, differs by " + change(t.Noise()) + fmt.Sprintf(", over %s.", plural(t.Blocks, "block"))}}
}

func ablationSummary(found []finding) Section {
	var bars []Bar
	for i := range found {
		g := &found[i]
		e := g.ratio().Percent()
		if e.Mid > 900 { // a bar of its own kind would hide the others
			bars = append(bars, Bar{Label: g.off, Value: 900, Color: 4, Note: fmt.Sprintf("and more: %.0f %%", e.Mid)})
			continue
		}
		color := 7
		switch g.trial.Judge(g.arm) {
		case experiment.Slower:
			color = 0
		case experiment.Faster:
			color = 1
		}
		bars = append(bars, Bar{Label: g.off, Value: e.Mid, Low: finite(e.Low, e.Mid), High: finite(e.High, e.Mid), Color: color})
	}
	return Section{Title: "At a glance", Figures: []Figure{{"worth", "Change of time with one optimisation switched off. Blue: shown to be slower without it; orange: faster without it; grey: no difference shown, or void.",
		Bars{Title: "Time without it, against as it is", Unit: "% time", Bars: bars}.SVG()}}}
}

func ablationAdvice(found []finding) []string {
	var worth, harm, nothing, void []string
	for i := range found {
		g := &found[i]
		label := fmt.Sprintf("%s (without: %s, %s)", g.name, g.off, change(g.ratio()))
		switch g.trial.Judge(g.arm) {
		case experiment.Slower:
			worth = append(worth, label)
		case experiment.Faster:
			harm = append(harm, label)
		case experiment.Void:
			void = append(void, g.name+" (without: "+g.off+")")
		default:
			nothing = append(nothing, g.name+" (without: "+g.off+")")
		}
	}
	var out []string
	if len(harm) > 0 {
		out = append(out, "Faster without, here and now; look at memory and answers before switching: "+strings.Join(harm, "; ")+".")
	}
	if len(worth) > 0 {
		out = append(out, "Worth having: "+strings.Join(worth, "; ")+".")
	}
	if len(nothing) > 0 {
		out = append(out, "No difference in time shown; what they are worth is memory or nothing: "+strings.Join(nothing, "; ")+".")
	}
	if len(void) > 0 {
		out = append(out, "Void, because the control of their experiment, the same against itself, differs: "+strings.Join(void, "; ")+". Leave the machine alone meanwhile, or give it more --time.")
	}
	return out
}
