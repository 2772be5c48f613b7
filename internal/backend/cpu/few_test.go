package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestFewRows: a few rows multiply with the file's codes as integers, one with
// the file's rows of codes of 8 bits in f32, several more, as many as are decoded
// at once, on tiles where there are some, and more as panels; so do several where
// the type has no kernel for them.
func TestFewRows(t *testing.T) {
	for _, tier := range []isa.Tier{isa.AVX2, isa.VNNI} {
		t.Run(tier.String(), func(t *testing.T) {
			if !slices.Contains(isa.Available(), tier) {
				t.Skip("this machine lacks the tier")
			}
			defer isa.Use(tier)()
			const codes, panels = "rows i16g32 from Q4_1 panels", "gemm i16g32 from Q4_1 panels"
			fewRows(t, tensor.Q4_1, Options{}, map[int]string{1: codes, 2: codes, gemm.CodeRows: codes, gemm.CodeRows + 1: panels})
			fewRows(t, tensor.Q8_0, Options{}, map[int]string{1: "rows i16g32 from Q8_0 panels", 2: "rows i16g32 from Q8_0 panels"})
			if tier == isa.VNNI {
				const codes, panels = "rows i16g32 from Q4_1", "gemm i16g32 from Q4_1"
				fewRows(t, tensor.Q4_1, Options{InPlace: true}, map[int]string{1: codes, 2: codes, gemm.CodeRows: codes, gemm.CodeRows + 1: panels})
				fewRows(t, tensor.Q8_0, Options{InPlace: true}, map[int]string{1: "rows f32 from Q8_0", 2: "rows i16g32 from Q8_0"})
			} else {
				fewRows(t, tensor.Q4_1, Options{NoPack: true}, map[int]string{1: "rows f32 from Q4_1", gemm.FewRows: "rows f32 from Q4_1"})
			}
		})
	}
	if isa.Active() < isa.AMX {
		t.Skip("this machine has no tiles")
	}
	const codes, tiles = "rows i16g32 from Q4_1 panels", "rows bf16 from Q4_1 panels"
	fewRows(t, tensor.Q4_1, Options{}, map[int]string{1: codes, 2: codes, tiledNibbles: codes, tiledNibbles + 1: tiles, bf16.FewRows: tiles, bf16.FewRows + 1: "gemm bf16 from Q4_1 panels"})
	const wide = "rows i16g32 from Q8_0 panels"
	fewRows(t, tensor.Q8_0, Options{}, map[int]string{1: wide, 2: wide, tiledCodes: wide, tiledCodes + 1: "rows bf16 from Q8_0 panels"})
	const rows, rowTiles = "rows i16g32 from Q4_1", "rows bf16 from Q4_1"
	fewRows(t, tensor.Q4_1, Options{InPlace: true}, map[int]string{1: rows, 2: rows, tiledCodes: rows, tiledCodes + 1: rowTiles, bf16.FewRows: rowTiles, bf16.FewRows + 1: "gemm bf16 from Q4_1"})
	fewRows(t, tensor.Q8_0, Options{InPlace: true}, map[int]string{1: "rows f32 from Q8_0", 2: "rows i16g32 from Q8_0"})
	fewRows(t, tensor.IQ4_NL, Options{}, map[int]string{1: "rows f32 from IQ4_NL", 2: "rows bf16 from IQ4_NL"})
	const long, longTiles = "rows i16g32 from Q4_K panels", "rows bf16 from Q4_K panels"
	fewRows(t, tensor.Q4_K, Options{}, map[int]string{1: long, tiledNibbles: long, tiledNibbles + 1: longTiles, bf16.FewRows: longTiles, bf16.FewRows + 1: "gemm bf16 from Q4_K panels"})
	const six, sixTiles = "rows i16g32 from Q6_K panels", "rows bf16 from Q6_K panels"
	fewRows(t, tensor.Q6_K, Options{}, map[int]string{1: six, tiledCodes: six, tiledCodes + 1: sixTiles, bf16.FewRows: sixTiles, bf16.FewRows + 1: "gemm bf16 from Q6_K panels"})
	fewRows(t, tensor.Q4_K, Options{InPlace: true}, map[int]string{1: "rows f32 from Q4_K", 2: "gemm bf16 from Q4_K", bf16.FewRows: "gemm bf16 from Q4_K"})
}

// fewRows holds products with weights of a type to their sums and, by the number
// of rows, to the names of their kernels.
func fewRows(t *testing.T, d tensor.DType, o Options, labels map[int]string) {
	const n, k = 80, 256
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(math.Sin(float64(i)))
	}
	data := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(data, d, w); err != nil {
		t.Fatal(err)
	}
	if err := tensor.Dequantize(w, d, data); err != nil {
		t.Fatal(err)
	}
	for rows, label := range labels {
		x, y, l := linearOf(t, d, o, data, n, k, rows)
		if l.name() != label {
			t.Errorf("%d rows: kernel %q, expected %q", rows, l.name(), label)
		}
		sumsOf(t, x, w, y, rows, n, k)
	}
}

// sumsOf holds y to the sums of x [rows,k] with w [n,k]. A result that is not finite
// fails.
func sumsOf(t *testing.T, x, w, y []float32, rows, n, k int) {
	t.Helper()
	for i := range rows {
		for j := range n {
			var want, size float64
			for c, v := range x[i*k : (i+1)*k] {
				p := float64(v) * float64(w[j*k+c])
				want += p
				size += math.Abs(p)
			}
			if got := float64(y[i*n+j]); !(math.Abs(got-want) <= size/256) {
				t.Fatalf("%d rows: y[%d,%d] is %g, expected %g", rows, i, j, got, want)
			}
		}
	}
}

// linearOf runs a product with weights of a type.
func linearOf(t *testing.T, d tensor.DType, o Options, data []byte, n, k, rows int) (x, y []float32, l *linear) {
	x = make([]float32, rows*k)
	for i := range x {
		x[i] = float32(math.Cos(float64(i)))
	}
	l, run := boundLinear(t, d, o, data, n, k, []tensor.Bind{{T: rows, S: 1, R: 1}})
	return x, run(x, rows), l
}

// TestFewRowsOfALargePlan: rows of a run that is smaller than the plan's smallest
// have the bits that they have in a large one.
func TestFewRowsOfALargePlan(t *testing.T) {
	const n, k, most = 80, 256, 100
	for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q8_0, tensor.IQ4_NL, tensor.Q4_K} {
		w := make([]float32, n*k)
		for i := range w {
			w[i] = float32(math.Sin(float64(i)))
		}
		data := make([]byte, n*d.RowBytes(k))
		if err := tensor.Quantize(data, d, w); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, most*k)
		for i := range x {
			x[i] = float32(math.Cos(float64(i)))
		}
		for _, tier := range isa.Available() {
			t.Run(d.String()+" "+tier.String(), func(t *testing.T) {
				defer isa.Use(tier)()
				_, run := boundLinear(t, d, Options{}, data, n, k, []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 64, S: 1, R: 1}, {T: most, S: 1, R: 1}})
				want := run(x, most)
				for _, rows := range []int{1, 2, 5, 7, 16, 17, 64} {
					if !slices.Equal(run(x, rows), want[:rows*n]) {
						t.Errorf("%d rows have other bits than among %d", rows, most)
					}
				}
			})
		}
	}
}

// boundLinear binds the last bucket of a product with weights of a type.
func boundLinear(t *testing.T, d tensor.DType, o Options, data []byte, n, k int, buckets []tensor.Bind) (*linear, func(x []float32, rows int) []float32) {
	last := len(buckets) - 1
	o.Workers = 2
	b := graph.NewBuilder(buckets[last])
	b.WeightType = func(string) (tensor.DType, error) { return d, nil }
	in := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), k))
	wv := b.Weight("w", graph.RoleUp, tensor.Rows(tensor.Fixed(n), k))
	out := b.Linear("y", in, wv, nil)
	g, err := b.Freeze(out)
	if err != nil {
		t.Fatal(err)
	}
	be, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	prog, err := plan.Compile("embed", g, be, buckets, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, m := prog.Plans[last], &plan.Memory{Weights: make([]plan.Packed, len(g.Values))}
	if m.Weights[wv.ID], err = be.Pack(plan.Weight{Value: wv, DType: d, Data: data, Drop: func() {}}, prog.Packing(wv)); err != nil {
		t.Fatal(err)
	}
	for c := range m.Arenas {
		if m.Arenas[c], err = be.Arena(plan.Class(c), max(plan.Align, p.ArenaBytes[c])); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Arenas[c].Free() })
	}
	e, err := be.Bind(p, m, plan.BindOptions{Program: "embed"})
	if err != nil {
		t.Fatal(err)
	}
	view := func(v *graph.Value) []float32 {
		pl := p.Place(v)
		return floats(m.Arenas[pl.Class].Host()[pl.Offset : pl.Offset+pl.Bytes])
	}
	return e.(*exec).bound[0].(*linear), func(x []float32, rows int) []float32 {
		copy(view(in), x[:rows*k])
		if err := e.Enqueue(t.Context(), tensor.Bind{T: rows, S: 1, R: 1}, nil); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(view(out)[:rows*n])
	}
}

// TestOneRow: the form of a row is made once for each type and epoch, and again
// after several rows have used its room.
func TestOneRow(t *testing.T) {
	const k = 256
	x := make([]float32, k)
	for i := range x {
		x[i] = float32(math.Cos(float64(i)))
	}
	want := func(d tensor.DType) float32 {
		sums := make([]float32, gemm.XSumsLen(k))
		gemm.XSums(sums, x, d)
		return sums[0]
	}
	o := oneRow{buf: make([]float32, gemm.XSumsLen(k))}
	is := func(what string, d tensor.DType, epoch uint64, made bool) {
		t.Helper()
		o.buf[0] = -77
		if got := o.prepared(x, d, epoch)[0]; (got != -77) != made || made && got != want(d) {
			t.Errorf("%s: the form begins with %g, that of x is %g, expected to be made: %v", what, got, want(d), made)
		}
	}
	if want(tensor.Q4_1) == 0 {
		t.Skip("no kernel of this machine wants another form")
	}
	is("first", tensor.Q4_1, 1, true)
	is("again", tensor.Q4_1, 1, false)
	is("another epoch", tensor.Q4_1, 2, true)
	is("another type", tensor.Q6_K, 2, true)
	o.room(k)
	is("after several rows", tensor.Q6_K, 2, true)
	x = x[:128]
	is("a shorter one", tensor.Q4_1, 2, true)
}

// TestFewRowsAreNotCut: few rows wait for weights, so each share has all rows and
// columns of its own, however many shares there are.
func TestFewRowsAreNotCut(t *testing.T) {
	const n, k = 2048, 32
	for _, rows := range []int{1, 2, tiledNibbles, tiledCodes, gemm.CodeRows} {
		_, _, l := linearOf(t, tensor.Q4_1, Options{}, make([]byte, n*tensor.Q4_1.RowBytes(k)), n, k, rows)
		cut := l.at(rows).split()
		for _, shares := range []int{1, 8, 16, 64} {
			for i := range shares {
				if m0, m1, c0, c1 := cut.part(rows, n, i, shares); m0 != 0 || m1 != rows || c0 >= c1 {
					t.Errorf("%d rows: share %d of %d has rows %d..%d and columns %d..%d", rows, i, shares, m0, m1, c0, c1)
				}
			}
		}
	}
}

// TestHalvesOfPackedWeights: a weight is multiplied on tiles of f16 only if all of
// its blocks fit into f16, whichever thread packed them.
func TestHalvesOfPackedWeights(t *testing.T) {
	const rows = bf16.FewRows
	for d, scale := range map[tensor.DType]float32{tensor.Q4_0: 9000, tensor.Q4_1: 5000, tensor.Q8_0: 600} {
		for shares, size := range map[int][2]int{1: {80, 256}, 2: {2048, 512}} {
			n, k := size[0], size[1]
			w := make([]float32, n*k)
			for i := range w {
				w[i] = float32(math.Sin(float64(i)))
			}
			data := make([]byte, n*d.RowBytes(k))
			if err := tensor.Quantize(data, d, w); err != nil {
				t.Fatal(err)
			}
			if bytes := codes.Bytes(d, n, k); bytes < shares*packShare && shares > 1 || bytes >= 2*packShare && shares == 1 {
				t.Fatalf("%d bytes are not packed in %d shares", bytes, shares)
			}
			block := d.RowBytes(d.Info().BlockLen)
			last := len(data) - block
			for name, at := range map[string]int{"no block": -1, "the first block": 0, "one in the middle": last / block / 3 * block, "the last block": last} {
				t.Run(fmt.Sprintf("%v in %d shares, %s beyond f16", d, shares, name), func(t *testing.T) {
					data := slices.Clone(data)
					if at >= 0 {
						binary.LittleEndian.PutUint16(data[at:], tensor.F32ToF16(scale))
					}
					halvesOf(t, d, data, n, k, at < 0)
					if !slices.Contains(isa.Available(), isa.AMXFP16) {
						t.Skip("this machine has no tiles of f16 to multiply on")
					}
					defer isa.Use(isa.AMXFP16)()
					w := make([]float32, n*k)
					if err := tensor.Dequantize(w, d, data); err != nil {
						t.Fatal(err)
					}
					x, y, _ := linearOf(t, d, Options{}, data, n, k, rows)
					sumsOf(t, x, w, y, 2, n, k)
					for i, v := range y {
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
							t.Fatalf("y[%d,%d] is %g", i/n, i%n, v)
						}
					}
				})
			}
		}
	}
}

// halvesOf packs a weight on two threads and holds Halves to what is expected.
func halvesOf(t *testing.T, d tensor.DType, data []byte, n, k int, want bool) {
	t.Helper()
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	packed, err := packCodes(be, plan.Weight{DType: d, Data: data}, n, k)
	if err != nil {
		t.Fatal(err)
	}
	if got := packed.(*codeWeight).w.Halves; got != want {
		t.Errorf("Halves is %v, expected %v", got, want)
	}
}

// A weight whose data are too short panics where the caller can recover from it.
func TestPanicOfPacking(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer func() {
		if recover() == nil {
			t.Error("packing a weight without its data did not panic")
		}
	}()
	_, _ = packCodes(be, plan.Weight{DType: tensor.Q8_0, Data: make([]byte, 34)}, 1024, 1024)
}
