//go:build !nogpu

package opencl

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Single rows of codes are multiplied on integers where rounding is allowed and the
// device multiplies packed bytes.
func TestWhenCodesAreIntegers(t *testing.T) {
	khr := []string{"cl_khr_integer_dot_product"}
	for _, c := range []struct {
		half       bool
		extensions []string
		platform   string
		of         tensor.DType
		k          int
		want       string
	}{
		{true, khr, "", tensor.Q4_1, 576, " -DDOT_KHR"},
		{true, nil, "NVIDIA CUDA", tensor.Q8_0, 576, " -DDOT_PTX"},
		{true, nil, "", tensor.Q4_0, 576, ""},
		{false, khr, "", tensor.Q4_0, 576, ""},
		{true, khr, "", tensor.Q4_K, 768, ""},
		{true, khr, "", tensor.F32, 576, ""},
		{true, khr, "", tensor.Q8_0, 1 << 16, ""}, // no room for the row
	} {
		f := newFake()
		f.about.Extensions, f.about.Platform, f.about.Version = c.extensions, c.platform, "OpenCL 3.0"
		be, err := newBackend(Options{Half: c.half}, f)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if room := be.codesRoom(c.of, c.k); room > 0 {
			got = codesCode(c.of, room, be.about.dots()).options
		}
		if (got == "") != (c.want == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%+v: options %q", c, got)
		}
	}
}

// Products on integers are those of f32 up to rounding of the row to 15 bits, with a norm
// before them and without. A runtime without an instruction for packed bytes compiles
// the same kernel with products of single bytes.
func TestCodesOnADevice(t *testing.T) {
	b := machine(t)
	b.opts.Half = true
	const cols = 37
	r := rand.New(rand.NewPCG(5, 6))
	emulated := b.about.dots() == ""
	if emulated {
		b.about.Extensions = append(b.about.Extensions, "cl_khr_integer_dot_product")
	}
	for _, of := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1} {
		for _, k := range []int{32, 576, 992} {
			if emulated {
				c := codesCode(of, b.codesRoom(of, k), b.about.dots())
				p, err := b.drv.build(c.source(), plainOptions+strings.ReplaceAll(c.defines(), " -DDOT_KHR", ""))
				if err != nil {
					t.Fatal(err)
				}
				b.programs[c.key()] = made(p)
			}
			w := make([]float32, cols*k)
			for i := range w {
				w[i] = float32(r.NormFloat64())
			}
			data := make([]byte, cols*of.RowBytes(k))
			if err := tensor.Quantize(data, of, w); err != nil {
				t.Fatal(err)
			}
			if err := tensor.Dequantize(w, of, data); err != nil {
				t.Fatal(err)
			}
			for _, normed := range []bool{false, true} {
				x := make([]float32, k)
				for i := range x {
					x[i] = float32(r.NormFloat64())
					if i%100 == 3 {
						x[i] *= 30
					}
					if i < 32 && k > 32 {
						x[i] = 0 // a block without a scale
					}
				}
				got := oneRow(t, b, of, data, x, normed)
				scale := 1.0
				if normed {
					sq := 0.0
					for _, v := range x {
						sq += float64(v) * float64(v)
					}
					scale = 1 / math.Sqrt(sq/float64(k)+1e-5)
				}
				for j, y := range got {
					want, size := 0.0, 0.0
					for i, v := range x {
						p := float64(v) * scale * float64(w[j*k+i])
						want, size = want+p, size+p*p
					}
					if d := math.Abs(want - float64(y)); !(d < 1e-3*math.Sqrt(size)) {
						t.Fatalf("%s, %d values, norm %v: result %d is %g, expected %g", of, k, normed, j, y, want)
					}
				}
			}
		}
	}
}

// oneRow multiplies a row, normed or not, with weights of a type by a session, and holds
// the session to products on integers.
func oneRow(t *testing.T, be *Backend, of tensor.DType, data []byte, x []float32, normed bool) []float32 {
	t.Helper()
	b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
	in := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), len(x)))
	b.WeightType = func(key string) (tensor.DType, error) {
		if key == "norm" {
			return tensor.F32, nil
		}
		return of, nil
	}
	row := in
	if normed {
		row = b.RMSNorm("norm", in, b.Weight("norm", graph.RoleOther, tensor.Static(len(x))), 1e-5, 0)
	}
	out := b.Linear("linear", row, b.Weight("w", graph.RoleOther, tensor.Static(len(data)/of.RowBytes(len(x)), len(x))), nil)
	g, err := b.Freeze(out)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, coded{of, data, len(x)}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	copy(s.F32(in), x)
	if err := s.Run(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}); err != nil {
		t.Fatal(err)
	}
	if be.programs[codesCode(of, be.codesRoom(of, len(x)), be.about.dots()).key()] == nil {
		t.Errorf("%s was not multiplied on integers", of)
	}
	return slices.Clone(s.F32(out)[:len(data)/of.RowBytes(len(x))])
}

// coded is a source of weights in blocks and of a norm of ones.
type coded struct {
	of   tensor.DType
	data []byte
	k    int
}

func (c coded) Weight(key string) (weights.Tensor, error) {
	if key != "norm" {
		return weights.Tensor{DType: c.of, Data: c.data}, nil
	}
	ones := make([]byte, 4*c.k)
	for i := range c.k {
		ones[4*i+2], ones[4*i+3] = 0x80, 0x3f
	}
	return weights.Tensor{DType: tensor.F32, Data: ones}, nil
}
func (coded) Drop(weights.Tensor) {}
