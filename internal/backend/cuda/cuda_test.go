package cuda

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/optest"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Every image is there, and PTX is of a version that the oldest driver takes.
func TestImages(t *testing.T) {
	text, err := unpack("compute_80.ptx")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`\.version (\d+)\.(\d+)`).FindSubmatch(text)
	if version == nil || string(version[1]) != "8" || len(version[2]) != 1 || version[2][0] > '4' {
		t.Errorf("PTX of version %s, expected 8.4 at most, which driver 550 takes", version[0])
	}
	if len(kernelNames) == 0 {
		t.Fatal("no kernels")
	}
	for _, name := range kernelNames {
		if !strings.Contains(string(text), ".entry "+name+"(") {
			t.Errorf("PTX has no %s", name)
		}
	}
	for capability, name := range machineCode {
		data, err := image(capability)
		if err != nil || !strings.HasPrefix(string(data), "\x7fELF") {
			t.Errorf("%s: %.4q, %v", name, data, err)
		}
		for _, kernel := range kernelNames {
			if !strings.Contains(string(data), kernel+"\x00") {
				t.Errorf("%s has no %s", name, kernel)
			}
		}
	}
	for name, want := range imageHashes {
		if data, err := unpack(name); err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != want {
			t.Errorf("%s is not what make gen wrote: %v", name, err)
		}
	}
	if data, err := image([2]int{12, 0}); err != nil || !strings.Contains(string(data), ".target sm_80") {
		t.Errorf("a card without an image of its own gets %.20q, %v", data, err)
	}
}

// A model that the CPU runs is never refused for an op.
func TestEveryOpIsBound(t *testing.T) {
	for _, op := range graph.Ops() {
		if ops[op.Name] == nil {
			t.Errorf("op %s has no kernel", op.Name)
		}
	}
}

// A card computes the activations that it has cases for, and refuses others: they
// would run as the last of them.
func TestUnknownActivationsAreRefused(t *testing.T) {
	for kind, want := range map[graph.ActKind]bool{graph.GELU: true, graph.Sigmoid: true, device.LastAct + 1: false} {
		for _, op := range []*graph.OpDef{graph.OpAct, graph.OpGLU} {
			if got := (*Backend)(nil).Supports(&graph.Node{Op: op, Attr: graph.ActAttr{Kind: kind}}); got != want {
				t.Errorf("%s of activation %d: supported %v, expected %v", op.Name, kind, got, want)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	var a args
	for _, v := range []any{1, address(2), tensor.Dim{Sym: tensor.S, Mul: 3, Add: 4}, float32(1), float64(1), true} {
		a.put(v)
	}
	if want := 4 + 4 + 8 + 12 + 4 + 8 + 4; len(a.b) != want {
		t.Errorf("%d bytes, expected %d: each argument at its own alignment", len(a.b), want)
	}
}

func TestPoolKeepsMemory(t *testing.T) {
	f := newFake()
	f.inside = true
	m := &memory{drv: f}
	p := device.NewPool(m)
	for range 100 {
		a, err := p.Take(1000, "a test")
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Take(5000, "a test")
		if err != nil {
			t.Fatal(err)
		}
		p.Give(a)
		p.Give(b)
	}
	if f.allocs != 2 || m.allocations.Load() != 2 {
		t.Errorf("%d allocations, expected 2", f.allocs)
	}
	f.room = f.used + 4096
	if _, err := p.Take(1<<20, "too much"); err == nil || !strings.Contains(err.Error(), "too much") || !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), strconv.Itoa(1<<20)) {
		t.Errorf("%v, expected an error that says how much was asked for what", err)
	}
	if f.used != 0 {
		t.Errorf("%d bytes are kept though somebody asked for more than there is", f.used)
	}
}

// session binds y = x w^T + bias, then an activation, on a fake card.
func session(t *testing.T, f *fake) (*Backend, *plan.Session, error) {
	t.Helper()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	b := graph.NewBuilder(tensor.Bind{T: 16, S: 2, R: 2})
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
	w := b.Weight("w", graph.RoleOther, tensor.Static(4, 8))
	g, err := b.Freeze(b.Act("act", b.Linear("linear", x, w, nil), graph.GELU))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source{}), plan.BindOptions{Slots: 2})
	return be, s, err
}

type source struct{}

func (source) Weight(name string) (weights.Tensor, error) {
	if name == "norm.weight" {
		return weights.Tensor{DType: tensor.F32, Data: make([]byte, 8*4)}, nil
	}
	return weights.Tensor{DType: tensor.F32, Data: make([]byte, 4*8*4)}, nil
}
func (source) Drop(weights.Tensor) {}

func TestSessionGivesEverythingBack(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	before := f.allocs
	for range 10 {
		if err := s.Run(context.Background(), tensor.Bind{T: 3, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if f.allocs != before || f.replays != 10 {
		t.Errorf("%d allocations and %d launches in 10 runs, expected 0 and 10", f.allocs-before, f.replays)
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil {
		t.Fatal(err)
	}
	if len(f.live) != 0 || len(f.host) != 0 || !f.closed || len(f.broken) != 0 {
		t.Errorf("%d blocks and %d host blocks are left, closed %v, calls without a context: %v", len(f.live), len(f.host), f.closed, f.broken)
	}
}

// Few rows are multiplied in another way than many, and an invariant program has
// one way for all.
func TestInvariantPrograms(t *testing.T) {
	f := newFake()
	be, err := newBackend(Options{Narrow: true}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for _, invariant := range []bool{false, true} {
		b := graph.NewBuilder(tensor.Bind{T: 200, S: 2, R: 2})
		x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
		g, err := b.Freeze(b.Linear("linear", x, b.Weight("w", graph.RoleOther, tensor.Static(4, 8)), nil))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{Invariant: invariant})
		if err != nil {
			t.Fatal(err)
		}
		if prog.Uniform() != invariant {
			t.Errorf("invariant %v: uniform %v", invariant, prog.Uniform())
		}
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source{}), plan.BindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kernels := map[string]bool{}
		for _, launches := range f.lists {
			for _, l := range launches {
				if slices.ContainsFunc([]string{"k_one", "k_few", "k_several", "k_tall", "k_wg", "k_tensor"}, func(p string) bool { return strings.HasPrefix(l.kernel, p) }) {
					kernels[l.kernel] = true
				}
			}
		}
		if (len(kernels) == 1) != invariant {
			t.Errorf("invariant %v: kernels %v", invariant, kernels)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A single row's norm is part of its product.
func TestSingleRowsAreMerged(t *testing.T) {
	f := newFake()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
	norm := b.RMSNorm("norm", x, b.Weight("norm.weight", graph.RoleOther, tensor.Static(8)), 1e-5, 0)
	g, err := b.Freeze(b.Linear("linear", norm, b.Weight("w", graph.RoleOther, tensor.Static(4, 8)), nil))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, launches := range f.lists {
		for _, l := range launches {
			if strings.HasPrefix(l.kernel, "k_norm") {
				t.Errorf("%s is a kernel of its own", l.kernel)
			}
		}
	}
}

// sized is a source of weights in f32, which a card packs as bf16, by their values.
type sized map[string]int

func (s sized) Weight(name string) (weights.Tensor, error) {
	return weights.Tensor{DType: tensor.F32, Data: make([]byte, 4*s[name])}, nil
}
func (sized) Drop(weights.Tensor) {}

// Few rows have kernels by the size of the matrix.
func TestFewRowsBySize(t *testing.T) {
	for _, c := range []struct {
		rows   int
		kernel string
	}{{512, "k_few16_bf16"}, {2048, "k_wide"}, {8192, "k_tall_16"}} {
		f := newFake()
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		b := graph.NewBuilder(tensor.Bind{T: fewRows, S: 1, R: 1})
		x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 1024))
		g, err := b.Freeze(b.Linear("linear", x, b.Weight("w", graph.RoleOther, tensor.Static(c.rows, 1024)), nil))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, sized{"w": c.rows * 1024}), plan.BindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, launches := range f.lists {
			found = found || slices.ContainsFunc(launches, func(l launch) bool { return strings.HasPrefix(l.kernel, c.kernel) })
		}
		if !found {
			t.Errorf("%d rows of weights: no %s", c.rows, c.kernel)
		}
		if err := errors.Join(s.Close(), be.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A run is waited for without the runs behind it, in any of a session's slots.
func TestRunsOverlap(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	if s.Slots() != 2 {
		t.Fatalf("%d slots, expected 2", s.Slots())
	}
	slots := []*plan.Slot{s.Slot(0), s.Slot(1)}
	before := f.syncs
	for i := range 6 {
		if err := slots[i%2].Enqueue(context.Background(), tensor.Bind{T: 3, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		if err := slots[(i-1)%2].Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if f.syncs != before {
		t.Errorf("%d waits for all runs while another was under way, expected 0", f.syncs-before)
	}
	for e, at := range f.events {
		if at > f.replays-1 {
			t.Errorf("event %d is behind run %d, expected one before the last, %d", e, at, f.replays)
		}
	}
	if err := slots[1].Wait(); err != nil || f.syncs != before+1 {
		t.Errorf("the last run: %d waits for all runs, expected 1: %v", f.syncs-before, err)
	}
}

// A card that fails in a run gives an error, and the next run works.
func TestRunThatFails(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	f.failSync = failure("cuStreamSynchronize", 719, "unspecified launch failure")
	if err := s.Run(context.Background(), tensor.Bind{T: 3, S: 1, R: 1}); !errors.Is(err, ErrDevice) {
		t.Errorf("%v, expected an error of the device", err)
	}
	if err := s.Run(context.Background(), tensor.Bind{T: 3, S: 1, R: 1}); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// Too little memory at any moment of binding is an error that leaves nothing.
func TestTooLittleMemory(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	whole := f.used
	if err := errors.Join(s.Close(), be.Close()); err != nil {
		t.Fatal(err)
	}
	for room := int64(256); room < whole; room += 256 {
		f := newFake()
		f.room = room
		be, _, err := session(t, f)
		if !errors.Is(err, ErrDevice) {
			t.Fatalf("%d of %d bytes: %v, expected an error of the device", room, whole, err)
		}
		if err := be.Close(); err != nil || len(f.live) != 0 || len(f.host) != 0 {
			t.Fatalf("%d of %d bytes: %d blocks and %d host blocks are left: %v", room, whole, len(f.live), len(f.host), err)
		}
	}
}

func TestOldCard(t *testing.T) {
	if _, err := New(Options{Card: 99}); !errors.Is(err, ErrDevice) {
		t.Errorf("card 99: %v", err)
	}
}

// bindOne binds a product of a single row of k values with a matrix of some type.
func bindOne(t *testing.T, f *fake, o Options, d tensor.DType, k int) {
	t.Helper()
	be, err := newBackend(o, f)
	if err != nil {
		t.Fatal(err)
	}
	b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), k))
	b.WeightType = func(string) (tensor.DType, error) { return d, nil }
	g, err := b.Freeze(b.Linear("linear", x, b.Weight("w", graph.RoleOther, tensor.Static(4, k)), nil))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, coded{d, d.RowBytes(4 * k)}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), be.Close()); err != nil {
			t.Error(err)
		}
	})
}

// coded is a source of one weight in a type with blocks.
type coded struct {
	d     tensor.DType
	bytes int
}

func (c coded) Weight(string) (weights.Tensor, error) {
	return weights.Tensor{DType: c.d, Data: make([]byte, c.bytes)}, nil
}
func (coded) Drop(weights.Tensor) {}

// Every case of the op bench can be bound, without a card: what reads
// operands by their number notices when an op gets another one.
func TestEveryCaseIsBound(t *testing.T) {
	optest.KeepOperands()
	be, err := newBackend(Options{}, newFake())
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for _, rows := range []int{1, 5, 40} {
		for _, c := range optest.Cases() {
			b := optest.NewBench(tensor.Bind{T: rows, S: 1, R: rows}, false)
			outs := c.Build(b)
			if b.Err() != nil {
				continue // not for so many rows
			}
			r, err := b.Open(be, optest.Options{}, outs...)
			if err != nil {
				t.Errorf("%s, %d rows: %v", c.Name, rows, err)
				continue
			}
			if err := r.Session.Close(); err != nil {
				t.Errorf("%s, %d rows: %v", c.Name, rows, err)
			}
		}
	}
}
