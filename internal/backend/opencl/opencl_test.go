package opencl

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// session binds y = x w^T, then an activation, on a fake device.
func session(t *testing.T, f *fake) (*Backend, *plan.Session, error) {
	t.Helper()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sessionOn(t, be)
	return be, s, err
}

// sessionOn is the same on any device.
func sessionOn(t *testing.T, be *Backend) (*plan.Session, error) {
	t.Helper()
	return sessionWith(t, be, plan.BindOptions{})
}

func sessionWith(t *testing.T, be *Backend, o plan.BindOptions) (*plan.Session, error) {
	t.Helper()
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
	return plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source1{}), o)
}

type source1 struct{}

func (source1) Weight(string) (weights.Tensor, error) {
	return weights.Tensor{DType: tensor.F32, Data: make([]byte, 4*8*4)}, nil
}
func (source1) Drop(weights.Tensor) {}

var three = tensor.Bind{T: 3, S: 1, R: 1}

func TestSessionGivesEverythingBack(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	before := f.creates
	f.runs = nil // tiles were measured
	for range 10 {
		if err := s.Run(context.Background(), three); err != nil {
			t.Fatal(err)
		}
	}
	if f.creates != before || before > 10 || be.Allocations() != before {
		t.Errorf("%d buffers were made, %d of them in 10 runs, and %d are told of; expected at most 10 and none", f.creates, f.creates-before, be.Allocations())
	}
	if want := slices.Repeat([]string{"k_few"}, 10); !slices.Equal(f.runs, want) {
		t.Errorf("kernels %v, expected %v", f.runs, want)
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil {
		t.Fatal(err)
	}
	if len(f.buffers) != 0 || len(f.events) != 0 || len(f.kernels) != 0 || !f.closed {
		t.Errorf("%d buffers, %d events and %d kernels are left; closed %v", len(f.buffers), len(f.events), len(f.kernels), f.closed)
	}
}

// A device that fails in a run gives an error, and the next run works.
func TestRunThatFails(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, fail := range []func(error){func(err error) { f.failLaunch = err }, func(err error) { f.failWait = err }} {
		fail(failure("a call", -5))
		if err := s.Run(context.Background(), three); !errors.Is(err, ErrDevice) {
			t.Errorf("%v, expected an error of the device", err)
		}
		if err := s.Run(context.Background(), three); err != nil {
			t.Errorf("the next run: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx, three); !errors.Is(err, context.Canceled) {
		t.Errorf("a run of a cancelled context: %v", err)
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil || len(f.events) != 0 {
		t.Errorf("%d events are left: %v", len(f.events), err)
	}
}

// Too little memory at any moment of binding is an error that leaves nothing.
func TestTooLittleMemory(t *testing.T) {
	for room := int64(1); ; room *= 2 {
		f := newFake()
		f.room = room
		be, s, err := session(t, f)
		if err == nil {
			if err := errors.Join(s.Close(), be.Close()); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !errors.Is(err, ErrDevice) {
			t.Fatalf("%d bytes: %v, expected an error of the device", room, err)
		}
		if err := be.Close(); err != nil || len(f.buffers) != 0 {
			t.Fatalf("%d bytes: %d buffers are left: %v", room, len(f.buffers), err)
		}
		if room > 1<<30 {
			t.Fatal("no room is enough")
		}
	}
}

func TestKernelsThatDoNotCompile(t *testing.T) {
	f := newFake()
	f.failBuild = failure("clBuildProgram", -11)
	be, _, err := session(t, f)
	if !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "build failed") {
		t.Errorf("%v, expected what the compiler said", err)
	}
	if err := be.Close(); err != nil || len(f.buffers) != 0 {
		t.Errorf("%d buffers are left: %v", len(f.buffers), err)
	}
	joined := "#line 1 \"common.cl\"\na\nb\n#line 1 \"rows.cl\"\nc\nd\n"
	for log, want := range map[string]string{
		"warning: x\nrows.cl:3:7: error: use of undeclared identifier 'y'\nrows.cl:9: error: z\n": "rows.cl:3:7: error: use of undeclared identifier 'y'",
		"<kernel>:6:2: error: use of undeclared identifier 'y'":                                   "rows.cl:2:2: error: use of undeclared identifier 'y'",
		"<kernel>:2:9: error: z\n": "common.cl:1:9: error: z",
		"":                         "no log",
	} {
		if got := firstError(log, joined); got != want {
			t.Errorf("first error %q, expected %q", got, want)
		}
	}
}

func TestDevicesThatAreTooSmall(t *testing.T) {
	for _, change := range []func(*description){func(d *description) { d.Local = 4096 }, func(d *description) { d.Items = 64 }} {
		f := newFake()
		change(&f.about)
		if _, err := newBackend(Options{}, f); !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "expected") || !f.closed {
			t.Errorf("%v, closed %v", err, f.closed)
		}
	}
}

// Blocks come back, and slabs are few however many blocks there are.
func TestPool(t *testing.T) {
	f := newFake()
	src := &slabs{drv: f}
	p := device.NewPool(src)
	var all []address
	sizes := map[address]int64{}
	for i := range 4000 {
		a, err := p.Take(int64(1000+i*37), "a test")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		sizes[a] = src.Size(int64(1000 + i*37))
	}
	slices.Sort(all)
	for i, a := range all[1:] {
		if before := all[i]; slabOf(before) == slabOf(a) && offsetOf(before)+sizes[before] > offsetOf(a) {
			t.Fatalf("blocks %x and %x overlap", before, a)
		}
	}
	if f.creates > 10 {
		t.Errorf("%d buffers for %d MiB, expected about ten", f.creates, src.used>>20)
	}
	made := f.creates
	for _, a := range all {
		p.Give(a)
	}
	for i := range 4000 {
		if _, err := p.Take(int64(1000+i*37), "a test"); err != nil {
			t.Fatal(err)
		}
	}
	if f.creates != made {
		t.Errorf("%d buffers for what had come back", f.creates-made)
	}
	if _, err := p.Take(1<<29, "too much"); err == nil || !strings.Contains(err.Error(), "too much") || !errors.Is(err, ErrDevice) {
		t.Errorf("%v, expected an error that says for what", err)
	}
	for bytes := int64(1); bytes < 1<<40; bytes += bytes/3 + 1 {
		if c := src.Size(bytes); c < bytes || c > bytes+bytes/8+256 {
			t.Errorf("%d bytes take %d", bytes, c)
		}
	}
	if err := src.close(); err != nil || f.used != 0 {
		t.Errorf("%d bytes are left: %v", f.used, err)
	}
}

// Turns are exact: a position times a frequency loses nothing but whole turns.
func TestTurns(t *testing.T) {
	if got := turnsOf(0); got != 0 {
		t.Errorf("0 radians: %d", got)
	}
	for _, radians := range []float64{1, 0.5, 1e-4, 3.2e-7} {
		got := float64(turnsOf(radians)) / (1 << 32) / (1 << 32) * 2 * 3.141592653589793
		if d := got - radians; d > 1e-15 || d < -1e-15 {
			t.Errorf("%g radians became %g", radians, got)
		}
	}
}

// Every op has kernels: a model that the CPU runs or trains is never refused for
// one.
func TestEveryOpIsBound(t *testing.T) {
	for _, op := range graph.Ops() {
		if ops[op.Name] == nil {
			t.Errorf("op %s has no kernel", op.Name)
		}
	}
}

// A tile is measured once, and the winner found again by the next process; a file
// that is damaged costs a measurement, not an error.
func TestTunerRemembers(t *testing.T) {
	dir, d := t.TempDir(), newFake().about
	calls := 0
	measure := func(Shape) ([]Timing, time.Duration, error) {
		calls++
		return []Timing{{"8x8", 30}, {"32x32", 10}, {"64x64", 20}}, 2 * tuneTime, nil
	}
	s := Shape{100, 64, 32, tensor.Q4_0}
	for range 2 {
		for range 2 {
			got, err := newTuner(dir, d, false).choose(s, d, measure)
			if err != nil || got.String() != "32x32" {
				t.Fatalf("tile %s, expected 32x32: %v", got, err)
			}
		}
		if calls != 1 {
			t.Fatalf("%d measurements of one shape, expected 1", calls)
		}
	}
	other := d
	other.Driver = "2"
	if _, err := newTuner(dir, other, false).choose(s, other, measure); err != nil || calls != 2 {
		t.Errorf("%d measurements after another driver came, expected 2: %v", calls, err)
	}
	file := newTuner(dir, d, false).file
	if err := os.WriteFile(file, []byte(`{"100x64x32 Q4_0": "1000x1000"`), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := newTuner(dir, d, false).choose(s, d, measure); err != nil || got.String() != "32x32" || calls != 3 {
		t.Errorf("tile %s after %d measurements: %v", got, calls, err)
	}
	spent := newTuner("", d, false)
	if _, ok := spent.expected(s, d); ok {
		t.Error("a tile is expected before it was measured")
	}
	for range 2 { // the first measurement takes all the time there is
		if got, err := spent.choose(s, d, measure); err != nil || got.String() != "32x32" || calls != 4 {
			t.Errorf("tile %s after %d measurements: %v", got, calls, err)
		}
	}
	later := Shape{100, 96, 32, tensor.Q4_0}
	if got, err := spent.choose(later, d, measure); err != nil || got != usual(d, 100) || calls != 4 {
		t.Errorf("tile %s after %d measurements, expected the usual one: %v", got, calls, err)
	}
	if got, ok := spent.expected(later, d); !ok || got != usual(d, 100) {
		t.Errorf("tile %s is expected, instead of the usual one", got)
	}
}

// Tiles are whole, and every device has room for some.
func TestTiles(t *testing.T) {
	least := description{Local: leastLocal, Items: leastItems}
	if got := usual(least, 1000); got.M < 64 || !got.fits(least) {
		t.Errorf("the smallest device gets %s", got)
	}
	for _, c := range tiles {
		if c.M%c.EM != 0 || c.N%c.EN != 0 || c.K%8 != 0 || c.items() > leastItems || c.local() > 48<<10 {
			t.Errorf("tile %s: %d items, %d bytes of local memory", c, c.items(), c.local())
		}
	}
}

// No kernel drops weights of attention: such nodes are the host's.
func TestDropoutOfWeightsIsRefused(t *testing.T) {
	key := &graph.Value{}
	for op, inputs := range map[*graph.OpDef]int{graph.OpAttention: 5, graph.OpAttentionGrad: 8} {
		n := &graph.Node{Op: op, Attr: graph.AttentionAttr{Heads: 1, KVHeads: 1, HeadDim: 8}, In: make([]*graph.Value, inputs)}
		if !(*Backend)(nil).Supports(n) {
			t.Errorf("%s without dropout is refused", op.Name)
		}
		if n.In[inputs-1] = key; (*Backend)(nil).Supports(n) {
			t.Errorf("%s with dropout is accepted", op.Name)
		}
	}
}
