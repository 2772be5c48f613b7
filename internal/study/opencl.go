package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hotpath/internal/backend/opencl"
	"hotpath/internal/experiment"
	"hotpath/internal/tensor"
)

// device opens the first OpenCL device, for as long as the study lasts.
func (s *session) device() (*opencl.Backend, error) {
	b, err := opencl.New(opencl.Options{})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b.Close)
	return b, nil
}

// productShapes are the products of the model at some numbers of rows, or those of
// MiniLM without a model.
func (s *session) productShapes(units int) (out []opencl.Shape) {
	dim, ffn := 384, 1536
	if s.model != nil {
		dim, ffn = s.model.Config().Dim, s.model.Config().FFN
	}
	rows := []int{16, 128, 1024}
	if units >= 16 { // it takes more to keep a card busy
		rows = append(rows, 16384)
	}
	if s.Quick {
		rows, dim, ffn = []int{16}, 64, 128
	}
	for _, r := range rows {
		for _, p := range [][2]int{{dim, dim}, {ffn, dim}, {dim, ffn}} {
			if p[0] > 0 && p[1] > 0 {
				out = append(out, opencl.Shape{Rows: r, Cols: p[0], Inner: p[1], Type: tensor.F32})
			}
		}
	}
	return out
}

// deviceArm is work of a device as an arm.
func deviceArm(o *opened, name string, w *opencl.Work, err error) (Arm, error) {
	if err != nil {
		return Arm{}, fmt.Errorf("%s: %w", name, err)
	}
	o.closers = append(o.closers, w.Close)
	return Arm{Name: name, Run: func(context.Context) error { return w.Run() }}, nil
}

// tilesOnly are the tiles that others compile in once and for all.
var tilesOnly = []string{"8x8", "16x16"}

// deviceTiles asks what choosing tiles by shape is worth.
func deviceTiles(ctx context.Context, s *session) (_ *Report, err error) {
	b, err := s.device()
	if err != nil {
		return nil, err
	}
	rates, err := b.Rates()
	if err != nil {
		return nil, err
	}
	names, shapes := b.Tiles(), s.productShapes(b.Units())
	var chosen []int // [shape] the tile, by its place in names
	var tuned time.Duration
	for _, shape := range shapes {
		name, took, err := b.Tune(shape)
		if err != nil {
			return nil, err
		}
		chosen, tuned = append(chosen, slices.Index(names, name)), tuned+took
	}
	r := &Report{Title: "Tiles of products on an OpenCL device", Question: "What is it worth to choose the tile of a product by its shape, against one tile for all?",
		Facts: []Fact{{"device", b.About()}, {"at most", fmt.Sprintf("%.0f GFLOP/s in f32 from registers, %.1f GB/s read from its memory", rates.FLOPs/1e9, rates.Bytes/1e9)},
			{"tuner", fmt.Sprintf("%d shapes in %s beside compiling", len(shapes), tuned.Round(time.Millisecond))}}}
	d := s.plan(len(shapes), 90*time.Second)
	table := &Table{Left: 1, Head: append(append([]string{"rows x columns x inner"}, names...), "fastest", "tuner's choice")}
	heat := Heat{Title: "Rate of a product by its tile", XLabel: "tile", YLabel: "rows x columns x inner", X: names, Unit: "GFLOP/s", Best: true}
	adaptive, fastest, single := 0.0, 0.0, map[string]float64{}
	wins := map[string]int{}
	worst := Estimate{}
	for i, shape := range shapes {
		s.say(i, len(shapes), "%s", shape)
		t, err := measureTiles(ctx, b, d.next(), shape, names)
		if err != nil {
			return nil, err
		}
		r.Trials = append(r.Trials, NamedTrial{shape.String(), t})
		flops := 2 * float64(shape.Rows) * float64(shape.Cols) * float64(shape.Inner)
		row, rates, best := []string{fmt.Sprintf("%d x %d x %d", shape.Rows, shape.Cols, shape.Inner)}, []float64(nil), 0
		for k := range names {
			seconds := t.Time(k).Mid
			row, rates = append(row, millis(seconds)), append(rates, flops/seconds/1e9)
			single[names[k]] += seconds
			if seconds < t.Time(best).Mid {
				best = k
			}
		}
		adaptive += t.Time(chosen[i]).Mid
		fastest += t.Time(best).Mid
		wins[names[best]]++
		table.addRow(append(row, names[best], names[chosen[i]])...)
		heat.Y, heat.Values = append(heat.Y, row[0]), append(heat.Values, rates)
		if n := t.Noise(); math.Abs(n.Mid) >= math.Abs(worst.Mid) {
			worst = n
		}
	}
	var won []string
	for _, n := range names {
		if wins[n] > 0 {
			won = append(won, fmt.Sprintf("%s %s", n, plural(wins[n], "time")))
		}
	}
	for _, n := range tilesOnly {
		r.Advice = append(r.Advice, fmt.Sprintf("The tuner's tiles take %s for all shapes together, %s only %s: %.2f times as long.", millis(adaptive), n, millis(single[n]), single[n]/adaptive))
	}
	r.Advice = append(r.Advice, fmt.Sprintf("Fastest were: %s. With the fastest tile of each shape it would be %s.", strings.Join(won, ", "), millis(fastest)))
	r.Sections = []Section{{Title: "Tiles by shape", Text: []string{
		"Each product of each shape was launched and waited for, in every tile in turn. Times hold the launch: small products show little else.",
		"The tuner chose its tiles before, as it does at the first run of a model: by the device's own times of a few launches.",
		"The control, the first tile against itself, differs by up to " + change(worst) + "."},
		Table: table, Figures: []Figure{{"tiles", "GFLOP/s by shape and tile; frames show the fastest tile of each shape.", heat.SVG()}}}}
	return r, nil
}

func measureTiles(ctx context.Context, b *opencl.Backend, d Design, shape opencl.Shape, names []string) (_ *Trial, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	var arms []Arm
	for _, n := range names {
		w, err := b.Product(shape, n)
		a, err := deviceArm(&o, n, w, err)
		if err != nil {
			return nil, err
		}
		arms = append(arms, a)
	}
	return d.Measure(ctx, arms, Arm{})
}

// transfers asks what copies that do not block are worth, and lookups on the
// device.
func transfers(ctx context.Context, s *session) (_ *Report, err error) {
	b, err := s.device()
	if err != nil {
		return nil, err
	}
	dim, vocab := 384, 30522
	if s.model != nil {
		dim, vocab = s.model.Config().Dim, s.model.Config().Vocab
	}
	tokens := []int{16, 128, 1024, 8192}
	if s.Quick {
		tokens, dim, vocab = []int{16, 64}, 32, 128
	}
	r := &Report{Title: "What travels to an OpenCL device", Question: "What are copies that do not block worth, and looking up embeddings on the device?", Facts: []Fact{{"device", b.About()}}}
	d := s.plan(2*len(tokens), 60*time.Second)
	const parts = 4 // ids, positions, starts, rows that are wanted
	for _, q := range []struct {
		title, text, left, right string
		log                      bool // times grow with the tokens
		make                     func(tokens int, second bool) (*opencl.Work, error)
	}{
		{"Copies", fmt.Sprintf("%d inputs of a batch go to the device and one output comes back. Blocking waits for each, non-blocking for the last only.", parts), "blocking", "non-blocking", false,
			func(n int, second bool) (*opencl.Work, error) { return b.Copies(parts, int64(4*n), !second) }},
		{"Embedding lookup", "Rows of a table are looked up by the host and travel, or ids travel and the device looks them up.", "on the host", "on the device", true,
			func(n int, second bool) (*opencl.Work, error) { return b.Lookup(n, dim, vocab, !second) }},
	} {
		table := &Table{Left: 1, Head: []string{"tokens", "bytes " + q.left, "bytes " + q.right, "time " + q.left, "time " + q.right, "change", "control"}}
		chart := Lines{Title: q.title, XLabel: "tokens of a batch", YLabel: "milliseconds", LogX: true, LogY: q.log, FromZero: !q.log}
		series := []Series{{Name: q.left}, {Name: q.right}}
		better := 0
		for i, n := range tokens {
			s.say(i, 2*len(tokens), "%s, %d tokens", strings.ToLower(q.title), n)
			t, bytesOf, err := measurePair(ctx, d.next(), q.left, q.right, func(second bool) (*opencl.Work, error) { return q.make(n, second) })
			if err != nil {
				return nil, err
			}
			r.Trials = append(r.Trials, NamedTrial{fmt.Sprintf("%s, %d tokens", q.title, n), t})
			table.addRow(fmt.Sprint(n), fmt.Sprint(bytesOf[0]), fmt.Sprint(bytesOf[1]), millis(t.Time(0).Mid), millis(t.Time(1).Mid), change(t.Ratio(1)), change(t.Noise()))
			for k := range series {
				e := t.Time(k).Map(func(v float64) float64 { return 1e3 * v })
				z := &series[k]
				z.X, z.Y, z.Low, z.High = append(z.X, float64(n)), append(z.Y, e.Mid), append(z.Low, e.Low), append(z.High, e.High)
			}
			if experiment.Judge(t.Ratio(1), t.Noise()) == experiment.Faster {
				better++
			}
		}
		chart.Series = series
		r.Advice = append(r.Advice, fmt.Sprintf("%s: %s is faster than %s at %d of %d sizes.", q.title, q.right, q.left, better, len(tokens)))
		r.Sections = append(r.Sections, Section{Title: q.title, Text: []string{q.text}, Table: table, Figures: []Figure{{strings.ToLower(strings.ReplaceAll(q.title, " ", "-")), q.title + " by tokens of a batch.", chart.SVG()}}})
	}
	r.Facts = append(r.Facts, Fact{"clCreateBuffer calls of the pool", fmt.Sprint(b.Allocations())})
	return r, nil
}

func measurePair(ctx context.Context, d Design, left, right string, build func(second bool) (*opencl.Work, error)) (_ *Trial, bytes [2]int64, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	var arms []Arm
	for i, name := range []string{left, right} {
		w, err := build(i == 1)
		a, err := deviceArm(&o, name, w, err)
		if err != nil {
			return nil, bytes, err
		}
		arms, bytes[i] = append(arms, a), w.Bytes
	}
	t, err := d.Measure(ctx, arms, Arm{})
	return t, bytes, err
}
