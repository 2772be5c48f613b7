package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// f64class is all that another class and another format take: it multiplies f32
// panels with rows of float64, which nothing else writes.
type f64class struct{}

const inF64 Precision = "f64"

var (
	f64Panels = &plan.Format{Name: "f64 panels", Bytes: f32Panels.Bytes}
	f64Rows   = &plan.Format{
		Name:  "f64 rows",
		Bytes: func(rows, cols int) int64 { return 8 * int64(rows) * int64(cols) },
		Encode: func(dst []byte, src []float32, rows, cols int) {
			for i, v := range src[:rows*cols] {
				doubles(dst)[i] = float64(v)
			}
		},
	}
)

func doubles(b []byte) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func (f64class) rules(q request) (few, many []plan.Rule) {
	if q.precision != inF64 {
		return nil, nil
	}
	return nil, q.each(plan.Rule{Class: "f64", Packing: f64Panels, Reads: []*plan.Format{f64Rows}},
		func(_ Precision, m plan.Matrix) bool { return m.DType == tensor.F32 })
}

func (f64class) pack(b *Backend, w plan.Weight, n, k int) (weight, error) {
	return f32class{}.pack(b, w, n, k)
}

func (f64class) bind(b *binder, m *matrix, _ *plan.Rule) (way, error) {
	return &f64Way{"gemm f64 panels", m.w.(*f32Weight), m.n, m.k,
		scratchFor(b, "f64", [2]int{m.k}, func(size [2]int) []float32 { return make([]float32, size[0]) })}, nil
}

type f64Way struct {
	named
	w    *f32Weight
	n, k int
	row  *perWorker[[]float32]
}

func (p *f64Way) split() split { return split{mr: 1, nr: gemm.NR(), cheap: true} }

func (p *f64Way) multiply(w *worker, t task, c0, c1 int) {
	row := p.row.of[w.lane][:p.k]
	for c := c0; c < c1; c++ {
		p.w.unpackRow(row, c)
		for r := range t.rows {
			t.y[r*p.n+c] = float32(dot64(doubles(t.x.raw)[r*p.k:], row))
		}
	}
}

func dot64(x []float64, w []float32) (sum float64) {
	for i, v := range w {
		sum += x[i] * float64(v)
	}
	return sum
}

// someWeight is one matrix under any name.
type someWeight []float32

func (w someWeight) Weight(key string) (weights.Tensor, error) {
	return weights.Tensor{Name: key, DType: tensor.F32, Data: unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))}, nil
}
func (someWeight) Drop(weights.Tensor) {}

// TestClassesAndFormatsAreRows: a class is one row of classes, a format one that
// its rules read. Values that nobody writes in it are converted, as many rows as a
// run has.
func TestClassesAndFormatsAreRows(t *testing.T) {
	before := classes
	defer func() { classes = before }()
	classes = append(slices.Clip(classes), classes[0])
	copy(classes[1:], before)
	classes[0].name, classes[0].packs, classes[0].class = inF64, f64Panels, f64class{}

	const n, k = 40, 48
	b := graph.NewBuilder(tensor.Bind{T: 100, S: 1, R: 1})
	in := b.Input("in", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), k))
	y := b.Linear("y", b.Scale("x", in, 2), b.Weight("w", graph.RoleUp, tensor.Static(n, k)), nil)
	g, err := b.Freeze(y)
	if err != nil {
		t.Fatal(err)
	}
	be, err := New(Options{Workers: 2, Precision: inF64, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	p, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, s := range p.Plans[0].Steps {
		kinds = append(kinds, s.Kind+" "+string(classOf(&s)))
	}
	if want := []string{"scale f32", "convert f32", "linear f64"}; !slices.Equal(kinds, want) {
		t.Errorf("steps are %v, expected %v", kinds, want)
	}
	w := make(someWeight, n*k)
	for i := range w {
		w[i] = rand.Float32() - 0.5
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(be, w), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, rows := range []int{100, 1, 3, 64} {
		x := make([]float64, rows*k)
		for i := range x {
			s.F32(in)[i] = rand.Float32()
			x[i] = 2 * float64(s.F32(in)[i])
		}
		if err := s.Run(t.Context(), tensor.Bind{T: rows, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
		for i, got := range s.F32(y)[:rows*n] {
			if want := dot64(x[i/n*k:], w[i%n*k:][:k]); math.Abs(want-float64(got)) > 1e-6 {
				t.Fatalf("%d rows: element %d is %g, expected %g", rows, i, got, want)
			}
		}
	}
}
