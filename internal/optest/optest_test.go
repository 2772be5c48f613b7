package optest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// binds are the sizes every case runs at: a single row, tails, and enough
// rows that every worker has a share.
var binds = []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 7, S: 3, R: 4}, {T: 131, S: 5, R: 40}}

// backend is one way of running a case.
type backend struct {
	name string
	open func() (plan.Backend, error)
	tier isa.Tier
	bind Options
	tol  float64 // 0: the case's own
}

func backends() []backend {
	bs := []backend{{name: "null", open: func() (plan.Backend, error) { return null.New(50 * time.Microsecond), nil }, tier: isa.Active()}}
	for _, tier := range isa.Available() {
		for _, workers := range []int{1, 2, 4} {
			test := workers != 2 // poisoned buffers, and as users run it
			bs = append(bs, backend{
				name: fmt.Sprintf("cpu-%s-%d-test=%v", tier, workers, test),
				open: func() (plan.Backend, error) {
					return cpu.New(cpu.Options{Workers: workers, Test: test, Precision: cpu.F32})
				},
				tier: tier,
			})
		}
	}
	for _, tier := range isa.Available() {
		bs = append(bs, backend{
			name: fmt.Sprintf("cpu-%s-bf16", tier),
			open: func() (plan.Backend, error) { return cpu.New(cpu.Options{Workers: 2, Precision: cpu.BF16}) },
			tier: tier,
			tol:  1e-2, // operands have eight bits
		})
	}
	for _, tier := range isa.Available() {
		bs = append(bs, backend{
			name: fmt.Sprintf("cpu-%s-i8g32", tier),
			open: func() (plan.Backend, error) { return cpu.New(cpu.Options{Workers: 2, Precision: cpu.I8G32}) },
			tier: tier,
			tol:  2e-2, // operands have eight bits, or seven
		})
	}
	return append(bs,
		backend{name: "cpu-nofusion", open: func() (plan.Backend, error) {
			return cpu.New(cpu.Options{Workers: 2, NoFusion: true, Precision: cpu.F32})
		}, tier: isa.Active()},
		backend{name: "cpu-invariant", open: func() (plan.Backend, error) { return cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32}) }, tier: isa.Active(), bind: Options{CompileOptions: plan.CompileOptions{Invariant: true}}})
}

// answers are the reference's, by case, graph and sizes: it is slow, and all
// backends are held to the same.
type answers map[string][][]float32

// graphOf is a way to build a case: forward, or with its gradients.
type graphOf func(c Case, bind tensor.Bind) (*Bench, []*graph.Value, error)

func init() { KeepOperands() }

// TestParity holds every backend to the reference, forward and backward.
func TestParity(t *testing.T) {
	known := answers{}
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			defer isa.Use(be.tier)()
			b, err := be.open()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			for _, c := range Cases() {
				parity(t, c, be, b, known, "forward")
				if Differentiable(c, binds[1]) {
					parity(t, c, be, b, known, "backward")
				}
			}
		})
	}
}

var builds = map[string]graphOf{"forward": Forward, "backward": Backward}

func parity(t *testing.T, c Case, how backend, be plan.Backend, known answers, what string) {
	t.Helper()
	tol := c.Tol
	if tol == 0 {
		tol = 1e-5
	}
	tol = max(tol, how.tol)
	// A dot product of operands of size 1 that were rounded to bf16 is off by up to
	// three times 0.0016 (a standard deviation), however small it is itself.
	least := 0.1
	if how.tol > 0 {
		least = 0.5
	}
	for _, bind := range binds {
		run := func(be plan.Backend, o Options) [][]float32 {
			b, outs, err := builds[what](c, bind)
			if err == nil {
				var res [][]float32
				if res, err = b.outputs(be, o, outs); err == nil {
					return res
				}
			}
			t.Errorf("%s %s %+v: %v", c.Name, what, bind, err)
			return nil
		}
		key := fmt.Sprint(c.Name, what, bind)
		if known[key] == nil {
			known[key] = run(ref.New(), Options{})
		}
		want, got := known[key], run(be, how.bind)
		for i := range min(len(want), len(got)) {
			if err := compareAbove(got[i], want[i], tol, least); err != nil {
				t.Errorf("%s %s %+v: output %d: %v", c.Name, what, bind, i, err)
			}
		}
	}
}

// TestEveryOpHasACase fails when an op was added without one.
func TestEveryOpHasACase(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		builds := []graphOf{Forward}
		if Differentiable(c, binds[1]) {
			builds = append(builds, Backward)
		}
		for _, build := range builds {
			b, _, err := build(c, binds[1])
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			for _, n := range b.Nodes() {
				seen[n.Op.Name] = true
			}
		}
	}
	for _, op := range graph.Ops() {
		if !seen[op.Name] {
			t.Errorf("op %s has no case", op.Name)
		}
	}
}

// TestGradients compares each gradient rule with finite differences of the
// reference: four points, so that a step wide enough for float32 is exact.
func TestGradients(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range Cases() {
		if !Differentiable(c, binds[1]) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			b, grads, err := Backward(c, binds[1])
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.outputs(ref.New(), Options{}, grads)
			if err != nil {
				t.Fatal(err)
			}
			fb := NewBench(binds[1], true)
			y := c.Build(fb)[0]
			covered[y.Node.Op.Name] = true
			dy := fb.random(y.Shape.Len(fb.Max())) // as backward drew it: the next numbers after the operands
			r, err := fb.Open(ref.New(), Options{}, y)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Session.Close()
			k := 0
			for _, x := range y.Node.In {
				if x == nil || x.Node.Leaf == nil || fb.floats[x] == nil || !x.NeedsGrad {
					continue
				}
				differences(t, r, x, dy, got[k], fmt.Sprintf("gradient %d", k))
				k++
			}
			if k != len(got) {
				t.Errorf("%d gradients for %d operands", len(got), k)
			}
		})
	}
	for _, op := range graph.Ops() {
		if op.Grad != nil && !covered[op.Name] {
			t.Errorf("op %s has a gradient rule that no case checks", op.Name)
		}
	}
}

// differences checks d(sum(y*dy))/dx against what the rule gave.
func differences(t *testing.T, r *Runner, x *graph.Value, dy, got []float32, what string) {
	t.Helper()
	data := slices.Clone(r.b.floats[x])
	objective := func(i int, at float32) float64 {
		old := data[i]
		data[i] = at
		if err := r.Session.WriteState(x, data); err != nil {
			t.Fatal(err)
		}
		data[i] = old
		if err := r.Run(); err != nil {
			t.Fatal(err)
		}
		y, err := r.Output(0)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for j, v := range y {
			sum += float64(v) * float64(dy[j])
		}
		return sum
	}
	const h = 0.02
	n := x.Shape.Len(r.Bind)
	want, scale := make([]float64, n), 1e-3 // operands are of size 1: a gradient that is 0 keeps their rounding
	for i := range n {
		at := data[i]
		f := func(d float32) float64 { return objective(i, at+d) }
		want[i] = (8*(f(h)-f(-h)) - (f(2*h) - f(-2*h))) / (12 * h)
		scale = max(scale, math.Abs(want[i]))
	}
	if err := r.Session.WriteState(x, data); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= 2e-3*scale) {
			t.Errorf("%s: element %d is %g, differences give %g", what, i, got[i], want[i])
			return
		}
	}
}

// TestNothingAllocates runs each case on the CPU after one warm-up.
func TestNothingAllocates(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for _, c := range Cases() {
		b, outs, err := Forward(c, binds[2])
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Open(be, Options{}, outs...)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(5, func() {
			if err := r.Run(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a run", c.Name, n)
		}
		r.Session.Close()
	}
}

// TestPlainGo: only what is small runs the reference of its op.
func TestPlainGo(t *testing.T) {
	allowed := []string{"buckets", "buckets_grad", "columns", "columns_grad", "fill", "global_norm", "mean", "mean_grad", "positions",
		"preference", "preference_grad", "row_dot", "row_dot_grad", "sequence_sum", "sequence_sum_grad", "shift",
		"sample", "resume", "keep"} // package sample draws on the CPU, and the host knows the ids
	be, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	seen := 0
	for _, c := range Cases() {
		builds := []graphOf{Forward}
		if Differentiable(c, binds[1]) {
			builds = append(builds, Backward)
		}
		for _, build := range builds {
			b, outs, err := build(c, binds[1])
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(b.Nodes(), func(n *graph.Node) bool { // a frozen operand: not all of its gradients are there
				return n.Op == graph.OpAttentionGrad && slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v == nil || !slices.Contains(outs, v) })
			}) {
				continue
			}
			r, err := b.Open(be, Options{}, outs...)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Session.Program().Plans[0].Steps) == 0 { // an operand passed on
				continue
			}
			rec := profile.NewRecorder(profile.Options{Events: -1})
			if err := r.Session.Attach(rec, plan.ProfileLabels{}); err != nil {
				t.Fatal(err)
			}
			for _, p := range rec.Snapshot().Plans {
				for _, s := range p.Steps {
					if seen++; s.Kernel == "reference" && !slices.Contains(allowed, s.Op) {
						t.Errorf("%s: %s runs its reference", c.Name, s.Op)
					}
				}
			}
			r.Session.Close()
		}
	}
	if seen < 100 {
		t.Errorf("%d steps", seen)
	}
}

// TestBitsAtAnyWorkers: the same batch, or single row, gives the same bits however many
// workers there are, gradients included. A run in which one of several workers takes part
// is cut as for one.
func TestBitsAtAnyWorkers(t *testing.T) {
	run := func(c Case, build graphOf, bind tensor.Bind, workers int) [][]float32 {
		be, err := cpu.New(cpu.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		b, outs, err := build(c, bind)
		if err != nil {
			t.Fatal(err)
		}
		res, err := b.outputs(be, Options{}, outs)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		return res
	}
	compare := func(c Case, build graphOf, bind tensor.Bind) {
		want := run(c, build, bind, 1)
		for _, workers := range []int{2, 4} {
			for i, got := range run(c, build, bind, workers) {
				if !slices.Equal(got, want[i]) {
					t.Errorf("%s: %d rows: output %d differs between 1 and %d workers", c.Name, bind.T, i, workers)
				}
			}
		}
	}
	for _, c := range Cases() {
		compare(c, Forward, binds[0])
		compare(c, Forward, binds[2])
		if Differentiable(c, binds[1]) {
			compare(c, Backward, binds[2])
		}
	}
}

// TestLastRowsAreLikeTheOthers: rows that are alike give alike bits, wherever
// shares and blocks of rows end, though a few rows alone have kernels of their
// own.
func TestLastRowsAreLikeTheOthers(t *testing.T) {
	const rows, k, n = 517, 96, 256
	for _, tier := range isa.Available() {
		for _, d := range []tensor.DType{tensor.Q8_0, tensor.Q4_1} {
			for _, workers := range []int{1, 2, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", tier, d, workers), func(t *testing.T) {
					defer isa.Use(tier)()
					be, err := cpu.New(cpu.Options{Workers: workers})
					if err != nil {
						t.Fatal(err)
					}
					defer be.Close()
					b := NewBench(tensor.Bind{T: rows, S: 1, R: 1}, false)
					x := b.F32(dimT, k)
					for i := k; i < len(b.floats[x]); i++ {
						b.floats[x][i] = b.floats[x][i-k]
					}
					glu := b.GLU("glu", b.Linear("gate", x, b.Stored(d, n, k), nil), b.Linear("up", x, b.Stored(d, n, k), nil), graph.SiLU)
					act := b.Act("act", b.Linear("x", x, b.Stored(d, n, k), nil), graph.GELU)
					res, err := b.outputs(be, Options{}, []*graph.Value{glu, act})
					if err != nil {
						t.Fatal(err)
					}
					for i, y := range res {
						for r := range rows {
							if !slices.Equal(y[r*n:(r+1)*n], y[:n]) {
								t.Fatalf("output %d: row %d differs from the first", i, r)
							}
						}
					}
				})
			}
		}
	}
}

// TestScalarActivationsShow: the kernel column of a profile tells an activation
// that runs its scalar definition from one that has a kernel.
func TestScalarActivationsShow(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for name, want := range map[string]string{
		"act gelu": "gelu", "act relu": "relu (scalar)", "glu silu": "glu silu", "glu tanh": "glu tanh (scalar)",
	} {
		cases := Cases()
		c := cases[slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })]
		b, outs, err := Forward(c, binds[1])
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Open(be, Options{}, outs...)
		if err != nil {
			t.Fatal(err)
		}
		rec := profile.NewRecorder(profile.Options{})
		if err := r.Session.Attach(rec, plan.ProfileLabels{}); err != nil {
			t.Fatal(err)
		}
		if got := rec.Snapshot().Plans[0].Steps[0].Kernel; got != want {
			t.Errorf("%s: kernel %q, expected %q", name, got, want)
		}
		r.Session.Close()
	}
}
