package hotpath

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"path/filepath"
	"slices"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// ClassUse is how products with weights of one role are computed.
type ClassUse struct {
	Role   string // q, k, v, o, gate, up, down, embedding, head, router, other; attention has no weights
	DType  string // as the file has them; "" for attention
	Class  string // f32, bf16, i16g32 or i8g32
	Params int64
}

// PrecisionClass is what was measured of one compute class with a model.
type PrecisionClass struct {
	Class       string
	Mean, Worst float64 // cosine of its vectors and those of f32
	Speed       float64 // against the class of the default precision, whose own is against f32
	Refused     string  // why auto does not take it; "" where it does
}

// PrecisionReport is what the default precision means for a model on this
// machine.
type PrecisionReport struct {
	Texts   int              // that were embedded
	Classes []PrecisionClass // that of the default first
	Chosen  string           // the class that auto takes
	File    string           // that keeps the report; "" where it could not be written
	Note    string           // why not
}

// classes lists the compute classes of a model's products, in the order in which
// a token meets them: those of a plan for many rows. No weight is touched.
func (m *Model) classes() ([]ClassUse, error) {
	if m.precision == "" {
		return nil, nil // not the CPU
	}
	g, err := m.graphOf(tensor.Bind{T: classRows, S: classRows, R: classRows})
	if err != nil {
		return nil, err
	}
	prog, err := plan.Compile("info", g, m.backend, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		return nil, err
	}
	var out []ClassUse
	for _, s := range prog.Plans[0].Steps {
		for k, n := range s.Nodes {
			u := ClassUse{Class: s.Class(k)}
			switch n.Op {
			case graph.OpAttention, graph.OpAttentionKV, graph.OpAttentionRel:
				u.Role = "attention"
			case graph.OpLinear, graph.OpGroupedLinear:
				w := n.In[1]
				if w.Node.Leaf == nil || w.Node.Leaf.Kind != graph.WeightLeaf {
					continue
				}
				u.Role, u.DType, u.Params = w.Node.Leaf.Role.String(), w.DType.String(), int64(w.Shape.Len(tensor.Bind{}))
			default:
				continue
			}
			if i := slices.IndexFunc(out, func(o ClassUse) bool { return o.Role == u.Role && o.DType == u.DType && o.Class == u.Class }); i >= 0 {
				out[i].Params += u.Params
			} else {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// classRows is more rows than kernels for few rows take.
const classRows = 512

// fileKey tells this file from others and from its own later versions, by its
// names, types and shapes and by a few numbers of each tensor.
func (m *Model) fileKey() (calib.FileKey, error) {
	h := fnv.New64a()
	var bytes int64
	for _, name := range m.store.Names() {
		t, err := m.store.Get(name)
		if errors.Is(err, ErrUnsupported) {
			continue
		}
		if err != nil {
			return calib.FileKey{}, err
		}
		fmt.Fprintln(h, name, t.DType, t.Dims, len(t.Data))
		_, _ = h.Write(t.Data[len(t.Data)/2:][:min(64, len(t.Data)-len(t.Data)/2)])
		bytes += int64(len(t.Data))
	}
	return calib.NewFileKey(filepath.Base(m.store.Path()), bytes, hex.EncodeToString(h.Sum(nil))), nil
}

// candidates are the classes that auto could take instead of its own: for
// encoders only, because what is next to nothing in a vector is several per cent
// of a likelihood.
func (m *Model) candidates() ([]cpu.Precision, error) {
	if m.cfg.CanGenerate || !m.cfg.CanEmbed || m.cfg.Delicate {
		return nil, nil
	}
	for _, name := range m.store.Names() {
		t, err := m.store.Get(name)
		if err != nil && !errors.Is(err, ErrUnsupported) {
			return nil, err
		}
		if err == nil && int8.Takes(t.DType) {
			return []cpu.Precision{cpu.I8G32}, nil
		}
	}
	return nil, nil
}

// calibrated is the class that a measurement of this very file allows, "" for
// the default one.
func (m *Model) calibrated() string {
	if m.cfg.CanGenerate || m.cfg.Delicate || !calib.AnyPrecision() {
		return ""
	}
	k, err := m.fileKey()
	if err != nil {
		return ""
	}
	p, _ := calib.CachedPrecision(k)
	return p.Choose()
}

// CalibratePrecision measures what the compute classes do to the vectors of a
// model, on some texts of hotpath's own: the cosine against f32 of the class
// that the default precision takes on this machine and of those that it could
// take instead, and how fast they are. The report is kept in the user's cache:
// a model that is opened later with precision "auto" takes a faster class where
// every cosine was 0.9995 or more, and Info shows the figures. It runs the model
// some dozen times over about 500 tokens. Options.Precision is ignored.
func CalibratePrecision(ctx context.Context, path string, o Options) (r PrecisionReport, err error) {
	defer engine.Guard(&err)
	o.NoCalibration = true
	open := func(p string) (*Model, error) {
		o.Precision = p
		return openModel(ctx, path, o)
	}
	exact, err := open("f32")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, exact.Close()) }()
	if !exact.cfg.CanEmbed || exact.precision == "" {
		return r, fmt.Errorf("%w: %s: precision is measured with embeddings on a CPU", ErrUnsupported, path)
	}
	usual, err := open("auto")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, usual.Close()) }()
	p := calib.Precision{Texts: len(sampleTexts)}
	if p.Default, err = compareClasses(ctx, exact, exact, usual); err != nil {
		return r, err
	}
	others, err := usual.candidates()
	if err != nil {
		return r, err
	}
	for _, c := range others {
		class, err := measureOther(ctx, exact, usual, func() (*Model, error) { return open(string(c)) })
		if err != nil {
			return r, err
		}
		p.Others = append(p.Others, class)
	}
	key, err := exact.fileKey()
	if err != nil {
		return r, err
	}
	r = newReport(p)
	if r.File, err = calib.StorePrecision(key, p); err != nil {
		r.File, r.Note = "", "not kept: "+err.Error()
	}
	return r, nil
}

func measureOther(ctx context.Context, exact, usual *Model, open func() (*Model, error)) (c calib.Class, err error) {
	m, err := open()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return compareClasses(ctx, exact, usual, m)
}

// newReport puts what was measured into words.
func newReport(p calib.Precision) PrecisionReport {
	r := PrecisionReport{Texts: p.Texts, Chosen: p.Choose()}
	if r.Chosen == "" {
		r.Chosen = p.Default.Name
	}
	for i, c := range append([]calib.Class{p.Default}, p.Others...) {
		pc := PrecisionClass{Class: c.Name, Mean: c.Mean, Worst: c.Worst, Speed: c.Speed}
		if i > 0 && c.Name != r.Chosen {
			_, pc.Refused = c.Fit()
		}
		r.Classes = append(r.Classes, pc)
	}
	return r
}

// speedTurns are the turns that two classes take.
const speedTurns = 5

// compareClasses holds m's vectors against those of exact, and its speed
// against that of base, in turns.
func compareClasses(ctx context.Context, exact, base, m *Model) (calib.Class, error) {
	c := calib.Class{Name: m.mainClass(), Worst: 1}
	want, err := exact.Embed(ctx, sampleTexts, EmbedOptions{})
	if err != nil {
		return c, err
	}
	got, err := m.Embed(ctx, sampleTexts, EmbedOptions{})
	if err != nil {
		return c, err
	}
	for i := range got {
		cos := cosineOf(got[i], want[i])
		c.Mean += cos / float64(len(got))
		c.Worst = min(c.Worst, cos)
	}
	var ratios []float64
	for range speedTurns {
		var took [2]float64
		for k, x := range []*Model{base, m} {
			start := time.Now()
			if _, err := x.Embed(ctx, sampleTexts, EmbedOptions{}); err != nil {
				return c, err
			}
			took[k] = time.Since(start).Seconds()
		}
		ratios = append(ratios, took[0]/took[1])
	}
	slices.Sort(ratios)
	c.Speed = ratios[len(ratios)/2]
	return c, nil
}

// mainClass is the class that most weights are multiplied in.
func (m *Model) mainClass() string {
	uses, _ := m.classes()
	share := map[string]int64{}
	best := string(cpu.F32)
	for _, u := range uses {
		if share[u.Class] += u.Params; share[u.Class] > share[best] {
			best = u.Class
		}
	}
	return best
}

func cosineOf(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// sampleTexts are what precision is measured with: short and long ones, several
// languages, code and numbers.
var sampleTexts = []string{
	"rain",
	"A stitch in time saves nine.",
	"The quick brown fox jumps over the lazy dog.",
	"How do I reset the password of my account?",
	"The boats had swung round to face the hills, and nobody on the pier had noticed it yet.",
	"Interest rates were left unchanged on Thursday, as most economists had expected.",
	"def add(a, b):\n    return a + b",
	"SELECT name, count(*) FROM orders WHERE total > 99.5 GROUP BY name;",
	"Der Zug nach München fährt heute von Gleis neun ab.",
	"Il pleut sur la ville depuis trois jours.",
	"El gato duerme al sol en la ventana de la cocina.",
	"今日は天気がいいですね。",
	"Water boils at 100 degrees Celsius at sea level, and at 93 degrees at 2,000 metres.",
	"An enzyme lowers the activation energy of a reaction without being consumed by it, which is why a small amount of it can turn over a large amount of substrate.",
	"Returns are free within 30 days. Keep the receipt, and pack the item as you got it.",
	"1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144",
	"error: connection refused (os error 111) while connecting to 10.0.0.7:5432",
	"The committee shall meet at least twice a year; its minutes shall be kept by the secretary and be open to every member.",
	"What is the capital of Australia?",
	"Canberra became the capital of Australia in 1913, as a compromise between Sydney and Melbourne.",
	"Preheat the oven to 180 degrees. Beat the eggs with the sugar until pale, fold in the flour, and bake for 35 minutes.",
	"Happy birthday! I hope that you have a wonderful day and that we can meet soon.",
	"Transformers process all tokens of a text at once, and attention lets each of them look at every other one; positions are told apart by rotating queries and keys.",
	"no",
}
