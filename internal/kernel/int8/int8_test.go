package int8

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 9))
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

func stored(t testing.TB, d tensor.DType, w []float32, n, k int) *gemm.Stored {
	t.Helper()
	raw := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(raw, d, w); err != nil {
		t.Fatal(err)
	}
	s, err := gemm.NewStored(raw, d, n, k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// types are the storage types that there are forms for.
var types = []tensor.DType{tensor.Q8_0, tensor.Q4_1}

// pack puts weights between guards.
func pack(t testing.TB, w *gemm.Stored) *Packed {
	t.Helper()
	size, err := PackedLen(w)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte{0xa5}, size+128)
	p, err := Pack(data[64:64+size], w)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		if data[i] != 0xa5 || data[64+size+i] != 0xa5 {
			t.Fatalf("%v [%d,%d]: packing wrote outside", w.DType, w.N, w.K)
		}
	}
	return p
}

func tiers(t *testing.T, f func(t *testing.T, tier isa.Tier)) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			f(t, tier)
		})
	}
}

// activations have a row of zeros, a tiny one and outliers.
func activations(m, lda int) []float32 {
	a := random(m*lda, 1)
	for i := range m {
		row := a[i*lda : (i+1)*lda]
		switch {
		case i == 1:
			clear(row)
		case i == 2:
			for j := range row {
				row[j] *= 1e-38
			}
		case i%5 == 3:
			row[i%len(row)] = 1e4
		case i%5 == 4:
			row[i%len(row)] = -3e6
		}
	}
	return a
}

// rounded is x as the class sees it: codes times scales, in float64.
func rounded(x []float32) []float64 {
	y := make([]float64, len(x))
	codes := make([]int8, group)
	for k := 0; k < len(x); k += group {
		d, _ := quantizeGroup(codes, x[k:k+group])
		for i, c := range codes {
			y[k+i] = float64(d) * float64(c)
		}
	}
	return y
}

// TestProduct holds every tier and type to float64 sums of the same codes and
// scales, with tails in every dimension, strides beyond the row and guards.
func TestProduct(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		for _, d := range types {
			for _, s := range [][3]int{{1, 1, 32}, {3, 33, 64}, {7, 16, 96}, {10, 40, 160}, {16, 32, 128}, {17, 64, 320}, {33, 70, 384}, {300, 40, 64}, {40, 64, 576}} {
				for _, mode := range []string{"plain", "bias", "add"} {
					product(t, d, s[0], s[1], s[2], mode)
				}
			}
		}
	})
}

func product(t *testing.T, d tensor.DType, m, n, k int, mode string) {
	t.Helper()
	lda, ldc := k+3, n+5
	a, bias, old := activations(m, lda), random(n, 3), random(m*ldc, 4)
	p := pack(t, stored(t, d, random(n*k, 2), n, k))
	const guard, margin = 12345, 64
	all := make([]float32, m*ldc+2*margin)
	for i := range all {
		all[i] = guard
	}
	out := all[margin : margin+m*ldc : margin+m*ldc]
	for i := range m {
		copy(out[i*ldc:i*ldc+n], old[i*ldc:])
	}
	task := Task{M: m, N: n, K: k, A: a, LDA: lda, B: p, C: out, LDC: ldc, Accumulate: mode == "add"}
	if mode == "bias" {
		task.Bias = bias
	}
	s := NewScratch(k)
	mid, pm := m/3, NumPanels(n)/2
	for _, r := range [][4]int{{0, mid, 0, pm}, {0, mid, pm, NumPanels(n)}, {mid, m, 0, NumPanels(n)}} {
		Run(&task, r[0], r[1], r[2], r[3], s)
	}
	name := fmt.Sprintf("%v %dx%dx%d %s", d, m, n, k, mode)
	for i, v := range all {
		if o := i - margin; (o < 0 || o >= m*ldc || o%ldc >= n) && v != guard {
			t.Fatalf("%s: wrote outside at %d", name, o)
		}
	}
	// Magnitudes count a minimum apart, as it is summed.
	w, parts, row := make([]float64, n*k), make([]float64, n*k), make([]float32, k)
	for j := range n {
		p.UnpackRow(row, j)
		for l, v := range row {
			_, low := forms[p.form].scales(p.panel(j/NR), l/group, j%NR)
			w[j*k+l], parts[j*k+l] = float64(v), math.Abs(float64(v-low))+math.Abs(float64(low))
		}
	}
	for i := range m {
		x := rounded(a[i*lda:][:k])
		for j := range n {
			var want, size float64
			for l, v := range x {
				want += v * w[j*k+l]
				size += math.Abs(v) * parts[j*k+l]
			}
			switch mode {
			case "bias":
				want += float64(bias[j])
			case "add":
				want += float64(old[i*ldc+j])
			}
			if got := float64(out[i*ldc+j]); !(math.Abs(got-want) <= 1e-5*size+1e-6*math.Abs(want)) {
				t.Fatalf("%s: C[%d,%d] is %g, expected %g (magnitudes %g)", name, i, j, got, want, size)
			}
		}
	}
}

// fileRow writes row n of p as it lay in the file.
func fileRow(p *Packed, row []byte, n int) {
	f := &forms[p.form]
	flip := uint32(p.offset) * 0x01010101
	panel := p.panel(n / NR)
	n %= NR
	for range p.K / group {
		copy(row[:2], panel[2*n:])
		if f.min {
			copy(row[2:4], panel[2*NR+2*n:])
		}
		row = row[f.header/NR:]
		for q := range f.codes / (4 * NR) {
			binary.LittleEndian.PutUint32(row[4*q:], binary.LittleEndian.Uint32(panel[f.header+q*4*NR+4*n:])^flip)
		}
		row, panel = row[f.codes/NR:], panel[f.at(1):]
	}
}

// TestPackLosesNothing reads the file's rows back, any byte.
func TestPackLosesNothing(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, d := range types {
			const n, k = 53, 96
			raw := make([]byte, n*d.RowBytes(k))
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			w, err := gemm.NewStored(raw, d, n, k)
			if err != nil {
				t.Fatal(err)
			}
			p := pack(t, w)
			if len(p.Data) != 64*d.RowBytes(k) {
				t.Errorf("%v: %d bytes packed, expected the file's for 64 rows, %d", d, len(p.Data), 64*d.RowBytes(k))
			}
			row := make([]byte, w.RowBytes)
			for i := range n {
				fileRow(p, row, i)
				if want := raw[i*w.RowBytes:][:w.RowBytes]; !bytes.Equal(row, want) {
					t.Fatalf("%v: row %d came back as % x, expected % x", d, i, row, want)
				}
			}
		}
	})
}

// TestSameBits says that neither the split nor the assembly tier changes a
// result, also with the code -128 that no quantizer of ours makes.
func TestSameBits(t *testing.T) {
	const m, n, k = 61, 150, 448
	a, bias := activations(m, k), random(n, 3)
	for _, d := range types {
		w := stored(t, d, random(n*k, 2), n, k)
		if d == tensor.Q8_0 {
			for i := 2; i < len(w.Data); i += 17 * 34 {
				w.Data[i], w.Data[i+31] = 0x80, 0x80
			}
		}
		var first []float32
		tiers(t, func(t *testing.T, tier isa.Tier) {
			p := pack(t, w)
			run := func(cutM, cutP []int) []float32 {
				out := make([]float32, m*n)
				task := &Task{M: m, N: n, K: k, A: a, LDA: k, B: p, C: out, LDC: n, Bias: bias}
				s := NewScratch(k)
				for i := range len(cutM) - 1 {
					for j := range len(cutP) - 1 {
						Run(task, cutM[i], cutM[i+1], cutP[j], cutP[j+1], s)
					}
				}
				return out
			}
			np := NumPanels(n)
			whole := run([]int{0, m}, []int{0, np})
			same(t, "rows split", run([]int{0, 1, 2, 5, 19, 33, m}, []int{0, np}), whole)
			same(t, "panels split", run([]int{0, 40, m}, []int{0, 1, np / 2, np}), whole)
			if familyOf(tier) == plain {
				return
			}
			if first == nil {
				first = whole
			}
			same(t, fmt.Sprintf("%v against another tier", d), whole, first)
		})
	}
}

// TestEpoch: rows that were quantized in the same epoch are not looked at again,
// whichever panels they meet; for weights of another form, in another epoch or
// after another product they are.
func TestEpoch(t *testing.T) {
	const m, n, k = 5, 3 * NR, 96
	tiers(t, func(t *testing.T, tier isa.Tier) {
		s, a, w := NewScratch(k), activations(m, k), random(n*k, 4)
		var packed []*Packed
		for _, d := range types {
			packed = append(packed, pack(t, stored(t, d, w, n, k)))
		}
		run := func(epoch uint64, b *Packed) []float32 {
			task := Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: make([]float32, m*n), LDC: n, Epoch: epoch}
			for p := range NumPanels(n) {
				Run(&task, 0, m, p, p+1, s)
			}
			return task.C
		}
		wants := [][]float32{run(0, packed[0]), run(0, packed[1])}
		for i, b := range packed {
			same(t, "rows that are kept", run(1, b), wants[i])
			old := a[7]
			a[7] += 3
			same(t, "rows of the same epoch", run(1, b), wants[i])
			changed := run(2, b)
			if slices.Equal(changed, wants[i]) {
				t.Error("another epoch finds the rows of the one before")
			}
			a[7] = old
			same(t, "without an epoch", run(0, b), wants[i])
			same(t, "after a run without an epoch", run(2, b), wants[i])
		}
	})
}

func same(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want the same bits as %v", name, i, got[i], want[i])
		}
	}
}

// TestQuantizersAgree compares every tier's codes, scales and sums with the
// plain ones.
func TestQuantizersAgree(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		for id, f := range forms {
			for _, groups := range []int{1, 2, 3, 4, 5, 10, 20, 23} {
				k := groups * group
				x := activations(6, k)
				x[0], x[1] = 0.5, -0.5 // ties
				got, want := NewScratch(k), NewScratch(k)
				got.quantize(familyOf(tier), formID(id), x, k, 6, k)
				want.quantize(plain, formID(id), x, k, 6, k)
				for r := range 6 {
					for i := range k {
						if g, w := got.a[r*got.lda+i], want.a[r*got.lda+i]; g != w {
							t.Fatalf("form %d, k %d: code %d of row %d is %d, expected %d", id, k, i, r, g, w)
						}
					}
					for g := range groups {
						o := g*got.rows + r
						if got.scale[o] != want.scale[o] {
							t.Fatalf("form %d, k %d: scale %d of row %d is %g, expected %g", id, k, g, r, got.scale[o], want.scale[o])
						}
						if (f.min || offsets[familyOf(tier)] != 0) && math.Float32bits(got.aux[o]) != math.Float32bits(want.aux[o]) {
							t.Fatalf("form %d, k %d: sum %d of row %d is %x, expected %x", id, k, g, r, math.Float32bits(got.aux[o]), math.Float32bits(want.aux[o]))
						}
					}
				}
			}
		}
	})
}

// TestNotFinite says that a NaN or an infinity stays visible.
func TestNotFinite(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		const n, k = 40, 256
		for _, d := range types {
			p := pack(t, stored(t, d, random(n*k, 2), n, k))
			a := random(3*k, 1)
			a[5], a[2*k+200] = float32(math.NaN()), float32(math.Inf(1))
			out := make([]float32, 3*n)
			task := &Task{M: 3, N: n, K: k, A: a, LDA: k, B: p, C: out, LDC: n}
			Run(task, 0, 3, 0, NumPanels(n), NewScratch(k))
			for i, v := range out {
				if finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); finite != (i/n == 1) {
					t.Fatalf("%v: row %d column %d is %g", d, i/n, i%n, v)
				}
			}
		}
	})
}

func TestRunAllocatesNothing(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		const m, n, k = 40, 70, 64
		for _, d := range types {
			task := Task{M: m, N: n, K: k, A: random(m*k, 1), LDA: k, B: pack(t, stored(t, d, random(n*k, 2), n, k)), C: make([]float32, m*n), LDC: n}
			s := NewScratch(k)
			if a := testing.AllocsPerRun(5, func() { Run(&task, 0, m, 0, NumPanels(n), s) }); a != 0 {
				t.Errorf("%v: %v allocations", d, a)
			}
		}
	})
}

// TestQuality bounds what the types lose against f32 on Gaussian data.
func TestQuality(t *testing.T) {
	const m, n, k = 64, 384, 384
	a, w := random(m*k, 1), random(n*k, 2)
	for typ, most := range map[tensor.DType]float64{tensor.Q8_0: 0.012, tensor.Q4_1: 0.12} {
		p := pack(t, stored(t, typ, w, n, k))
		out := make([]float32, m*n)
		task := &Task{M: m, N: n, K: k, A: a, LDA: k, B: p, C: out, LDC: n}
		Run(task, 0, m, 0, NumPanels(n), NewScratch(k))
		var diff, size float64
		for i := range m {
			for j := range n {
				var want float64
				for l := range k {
					want += float64(a[i*k+l]) * float64(w[j*k+l])
				}
				d := float64(out[i*n+j]) - want
				diff += d * d
				size += want * want
			}
		}
		e := math.Sqrt(diff / size)
		t.Logf("%v: relative error %.4f", typ, e)
		if !(e < most) {
			t.Errorf("%v: relative error %g, expected below %g", typ, e, most)
		}
	}
}

func TestPackErrors(t *testing.T) {
	f32 := stored(t, tensor.F32, random(64, 1), 2, 32)
	if _, err := PackedLen(f32); err == nil {
		t.Error("PackedLen of F32 weights gave no error")
	}
	if _, err := Pack(make([]byte, 1<<20), f32); err == nil {
		t.Error("Pack of F32 weights gave no error")
	}
	for _, d := range types {
		w := stored(t, d, random(64, 1), 2, 32)
		size, err := PackedLen(w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Pack(make([]byte, size-1), w); err == nil {
			t.Errorf("Pack of %v weights into a short buffer gave no error", d)
		}
	}
}
