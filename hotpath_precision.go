package hotpath

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/precision"
	"hotpath/internal/tensor"
)

// ClassUse is how products with weights of one role are computed: their Role (q, k,
// v, o, gate, up, down, embedding, head, router, other, or attention, which has no
// weights), their DType in the file, the Class (f32, bf16, i16g32 or i8g32) and the
// number of Params.
type ClassUse = precision.Use

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

// classes lists the compute classes of a model's products for many rows.
func (m *Model) classes() ([]ClassUse, error) {
	if m.precision == "" {
		return nil, nil // not the CPU
	}
	g, err := m.graphOf(tensor.Bind{T: precision.Rows, S: precision.Rows, R: precision.Rows})
	if err != nil {
		return nil, err
	}
	return precision.Uses(g, m.backend)
}

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
	if err := needContext(ctx); err != nil {
		return r, err
	}
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
		return r, fmt.Errorf("%w: %s: precision can be measured only for models with embeddings on a CPU", ErrUnsupported, path)
	}
	usual, err := open("auto")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, usual.Close()) }()
	p := calib.Precision{Texts: len(precision.Texts)}
	if p.Default, err = compareClasses(ctx, exact, exact, usual); err != nil {
		return r, err
	}
	others, err := precision.Candidates(usual.store, usual.cfg)
	if err != nil {
		return r, err
	}
	for _, c := range others {
		class, err := measureOther(ctx, exact, usual, func() (*Model, error) { return open(c) })
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

// compareClasses holds m's vectors against those of exact, and its speed
// against that of base, in turns.
func compareClasses(ctx context.Context, exact, base, m *Model) (calib.Class, error) {
	embed := func(m *Model) precision.Embed {
		return func(ctx context.Context, texts []string) ([][]float32, error) {
			return m.Embed(ctx, texts, EmbedOptions{})
		}
	}
	return precision.Compare(ctx, m.mainClass(), embed(exact), embed(base), embed(m))
}

// mainClass is the class that most weights are multiplied in.
func (m *Model) mainClass() string {
	uses, _ := m.classes() // without any it is f32
	return precision.Main(uses)
}
