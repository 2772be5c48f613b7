//go:build !nogpu

package opencl

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// machine opens the machine's first device. A machine without one skips the test; a
// device that cannot be opened fails it.
func machine(t *testing.T) *Backend {
	t.Helper()
	if _, err := Devices(); err != nil {
		t.Skip(err)
	}
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// made is a program that a test compiled in its own way.
func made(p program) *built {
	w := &built{ready: make(chan struct{}), program: p}
	close(w.ready)
	return w
}

// put copies values to the device for as long as the test runs.
func put[T float32 | int32](t *testing.T, b *Backend, v []T) address {
	t.Helper()
	a, err := b.pool.Take(int64(4*len(v)), "a test")
	if err == nil {
		err = b.Write(a, device.Bytes(v))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.pool.Give(a) })
	return a
}

// Every tile gives the product, with sizes that fill none of them.
func TestTilesOnADevice(t *testing.T) {
	b := machine(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Shape{{20, 50, 16, tensor.F32}, {5, 24, 24, tensor.F32}, {130, 70, 40, tensor.F32}, {33, 260, 7, tensor.F32}, {70, 9, 100, tensor.BF16}} {
		random := func(n int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(r.NormFloat64())
			}
			return v
		}
		x, w, bias := random(s.Rows*s.Inner), random(s.Cols*s.Inner), random(s.Cols)
		at := put(t, b, w)
		if s.Type == tensor.BF16 {
			half := make([]int32, (len(w)+1)/2)
			for i := range w {
				bits := math.Float32bits(w[i]) &^ 0xffff
				w[i] = math.Float32frombits(bits)
				half[i/2] |= int32(bits >> 16 << (16 * (i % 2)))
			}
			at = put(t, b, half)
		}
		sizes, xs, bs := put(t, b, []int32{int32(s.Rows), 0, 0}), put(t, b, x), put(t, b, bias)
		for _, tile := range tiles {
			if !tile.fits(b.about) || s.Type != tensor.F32 && tile.M != 32 {
				continue
			}
			got := make([]float32, s.Rows*s.Cols+1)
			for i := range got {
				got[i] = 1e9
			}
			y := put(t, b, got)
			k := newBinder(b, b.newExec(), y)
			k.many(tile, s.Type, tensor.Dim{Sym: tensor.T, Mul: 1}, s.Cols, s.Inner, sizes, y, xs, at, bs, -1)
			k.exec.launches[0].groups = tile.tiled(tensor.Fixed(s.Rows), s.Cols)
			if _, err := b.timed(k); err != nil {
				t.Fatal(err)
			}
			if err := b.Read(device.Bytes(got), y); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i := range s.Rows {
				for j := range s.Cols {
					want := float64(bias[j])
					for e := range s.Inner {
						want += float64(x[i*s.Inner+e]) * float64(w[j*s.Inner+e])
					}
					if d := math.Abs(want - float64(got[i*s.Cols+j])); !(d < 1e-4) {
						wrong++
					}
				}
			}
			if wrong > 0 || got[s.Rows*s.Cols] != 1e9 {
				t.Errorf("tile %s, %s: %d of %d values are wrong; the value behind them is %g", tile, s, wrong, s.Rows*s.Cols, got[s.Rows*s.Cols])
			}
		}
	}
}

// The device's events account for the time of its lane: what is left over is under 2
// per cent, of the host's lane too.
func TestLedgerOnADevice(t *testing.T) {
	b := machine(t)
	s, err := sessionOn(t, b)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	made := b.Allocations()
	for range 20 {
		if err := s.Run(context.Background(), three); err != nil {
			t.Fatal(err)
		}
	}
	runs := int64(0)
	snapshot := rec.Snapshot()
	for _, p := range snapshot.Plans {
		for k, step := range p.Steps {
			way := step.Name == "inputs" || step.Name == "outputs"
			if st := p.Stats[k]; p.Ledger.Runs > 0 && step.Op == profile.TransferOp && (st.Calls != 20 || (st.Bytes > 0) != way || step.Host == way) {
				t.Errorf("step %s: %d calls, %d bytes, host %t", step.Name, st.Calls, st.Bytes, step.Host)
			}
		}
		for _, l := range p.ByLane {
			runs += l.Runs
			if share := math.Abs(l.ResidualPercent()); l.Runs > 0 && !(share < 2) {
				t.Errorf("lane %s: %.2f per cent of its time is left over: %+v", l.Lane, share, l.Ledger)
			}
		}
		if l := p.ByLane[1]; l.Runs > 0 && l.Compute <= 0 {
			t.Errorf("lane %s computed for %d ns", l.Lane, l.Compute)
		}
	}
	if d := snapshot.Devices; len(d) != 1 || d[0].Runs != 20 || d[0].Since != 19 || d[0].Allocations != int64(made) {
		t.Errorf("%+v, expected %d allocations before the first of 20 runs", d, made)
	}
	if runs != 2*20 {
		t.Errorf("%d runs of lanes are in the ledger, expected 40", runs)
	}
	if b.Allocations() != made || made > 10 {
		t.Errorf("%d buffers were made, %d of them in runs; expected at most 10 and none", b.Allocations(), b.Allocations()-made)
	}
}

// oneLane are subgroups of a lane each, for runtimes without subgroups: what is
// compiled with SUBGROUPS runs there too.
const oneLane = `
#define sub_group_reduce_add(x) (x)
#define sub_group_reduce_max(x) (x)
#define get_sub_group_local_id() 0
#define get_sub_group_id() get_local_id(0)
#define get_num_sub_groups() get_local_size(0)
`

// Sums and maxima by subgroups are those of the group.
func TestSubgroupsOnADevice(t *testing.T) {
	b := machine(t)
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(i%7 - 3)
	}
	values[500] = 20
	if b.about.subgroups() == "" {
		for _, c := range []code{plain("k_sum_parts"), oneCode(tensor.F32, 1024)} {
			p, err := b.drv.build(oneLane+c.source(), plainOptions+" -DSUBGROUPS"+c.defines())
			if err != nil {
				t.Fatal(err)
			}
			b.programs[c.key()] = made(p)
		}
	}
	x, y, z := put(t, b, values), put(t, b, make([]float32, 1)), put(t, b, make([]float32, 1))
	target, none := put(t, b, []int32{500}), address(0)
	run := func(name string, arguments ...any) {
		k := newBinder(b, b.newExec(), 1)
		k.launch(name, one, itemsOf, arguments...)
		if _, err := b.timed(k); err != nil {
			t.Fatal(err)
		}
	}
	run("k_sum_parts", y, x, len(values), false)
	run("k_cross_entropy", put(t, b, []int32{1, 1, 1}), tensor.Fixed(1), len(values), none, z, x, target, none)
	sum, lse, want, exps := make([]float32, 1), make([]float32, 1), float32(0), 0.0
	if err := errors.Join(b.Read(device.Bytes(sum), y), b.Read(device.Bytes(lse), z)); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		want += v
		exps += math.Exp(float64(v))
	}
	if sum[0] != want || math.Abs(float64(lse[0])-math.Log(exps)) > 1e-4 {
		t.Errorf("sum %g and log-sum-exp %g, expected %g and %g", sum[0], lse[0], want, math.Log(exps))
	}
}

// Products in 16 bits are those of f32 up to rounding. A runtime without cl_khr_fp16
// compiles them with floats in place of halves.
func TestHalvesOnADevice(t *testing.T) {
	b := machine(t)
	b.opts.Half = true
	tolerance := 2e-2
	c := tile{64, 64, 8, 4, 4}
	if !b.half() {
		b.about.Extensions = append(b.about.Extensions, "cl_khr_fp16")
		code := c.code(tensor.F32, false, true)
		if !strings.Contains(code.options, " -DHALF=half") {
			t.Fatalf("options %q of a device with halves", code.options)
		}
		p, err := b.drv.build(code.source(), b.about.options()+strings.ReplaceAll(code.defines(), "HALF=half", "HALF=float"))
		if err != nil {
			t.Fatal(err)
		}
		b.programs[code.key()], tolerance = made(p), 1e-4
	}
	const rows, cols, inner = 33, 70, 40
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	x, w, got := random(rows*inner), random(cols*inner), make([]float32, rows*cols)
	y := put(t, b, got)
	k := newBinder(b, b.newExec(), y)
	k.many(c, tensor.F32, tensor.Fixed(rows), cols, inner, put(t, b, []int32{0, 0, 0}), y, put(t, b, x), put(t, b, w), 0, -1)
	if _, err := b.timed(k); err != nil {
		t.Fatal(err)
	}
	if err := b.Read(device.Bytes(got), y); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		for j := range cols {
			want := 0.0
			for e := range inner {
				want += float64(x[i*inner+e]) * float64(w[j*inner+e])
			}
			if d := math.Abs(want - float64(got[i*cols+j])); !(d < tolerance) {
				t.Fatalf("value %d, %d is %g, expected %g", i, j, got[i*cols+j], want)
			}
		}
	}
}
