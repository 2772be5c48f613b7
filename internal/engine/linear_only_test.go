package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// linearDevice is the smallest device that is of use: it computes linear and
// leaves the rest to the host. It shares no code with the null device, so it shows
// how much a new backend has to write. It is asynchronous and has memory of its
// own.
type linearDevice struct {
	stream chan func() // runs in the order in which they were enqueued

	mu       sync.Mutex
	weights  int    // packed and not freed
	inFlight [2]int // runs now, and at most
}

func newLinearDevice() *linearDevice {
	d := &linearDevice{stream: make(chan func(), 16)}
	go func() {
		for run := range d.stream {
			run()
		}
	}()
	return d
}

func (*linearDevice) Caps() plan.Caps {
	return plan.Caps{Name: "linear", Workers: 1, Async: true, Host: true, Buckets: []int{1, 16}}
}
func (*linearDevice) Supports(n *graph.Node) bool { return n.Op == graph.OpLinear }
func (*linearDevice) Patterns() []plan.Pattern    { return nil }
func (*linearDevice) Rules(bool) []plan.Rule      { return nil }
func (d *linearDevice) Close() error              { close(d.stream); return nil }

// linearWeight is a matrix or a bias, decoded to f32.
type linearWeight struct {
	device *linearDevice
	values []float32 // [rows x cols]
}

func (w *linearWeight) Bytes() int64 { return 4 * int64(len(w.values)) }
func (w *linearWeight) Free() error {
	w.device.mu.Lock()
	defer w.device.mu.Unlock()
	w.device.weights--
	return nil
}

func (d *linearDevice) Pack(w plan.Weight, _ *plan.Format) (plan.Packed, error) {
	p := &linearWeight{d, make([]float32, w.Value.Shape.Len(tensor.Bind{}))}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.weights++
	return p, tensor.Dequantize(p.values, w.DType, w.Data)
}

// linearMemory is out of the host's reach.
type linearMemory struct{ ref.HostArena }

func (linearMemory) Host() []byte { return nil }

func (*linearDevice) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	a := ref.NewHostArena(bytes)
	if c == plan.IO {
		return a, nil
	}
	return linearMemory{a}, nil
}

type linearExec struct {
	device *linearDevice
	calls  []*plan.BoundCall
	done   chan error
}

func (d *linearDevice) Bind(p *plan.Plan, m *plan.Memory, _ plan.BindOptions) (plan.Exec, error) {
	own := *m
	for c, a := range m.Arenas {
		if a, ok := a.(linearMemory); ok {
			own.Arenas[c] = a.HostArena
		}
	}
	weight := func(v *graph.Value) (tensor.DType, []byte) {
		return tensor.F32, tensor.Bytes(m.Weights[v.ID].(*linearWeight).values)
	}
	e := &linearExec{device: d, done: make(chan error, 1)}
	for i := range p.Steps {
		e.calls = append(e.calls, plan.BindNode(p, &own, &p.Steps[i], p.Steps[i].Root(), weight))
	}
	return e, nil
}

func (e *linearExec) Describe(p *profile.Plan) {
	p.Lanes = []string{"linear stream"}
	for i := range p.Steps {
		p.Steps[i].Kernel, p.Steps[i].Class = "product", "f32"
	}
}

// Enqueue starts a run. A recorded run gets the stamps of every step.
func (e *linearExec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.count(1)
	e.device.stream <- func() { e.done <- e.products(b, run) }
	return nil
}

func (e *linearExec) products(b tensor.Bind, run *profile.Run) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("linear device: %v", r)
		}
	}()
	if run == nil {
		for _, c := range e.calls {
			c.Set(b)
			product(&c.Call)
		}
		return nil
	}
	lane := &run.Lanes[0]
	lane.Wake = profile.Now()
	for i, c := range e.calls {
		lane.Steps[i].Arrive = profile.Now()
		lane.Steps[i].Begin = lane.Steps[i].Arrive
		c.Set(b)
		product(&c.Call)
		lane.Steps[i].End = profile.Now()
	}
	lane.Done = profile.Now()
	return nil
}

func (e *linearExec) Wait() error {
	defer e.count(-1)
	return <-e.done
}

func (e *linearExec) Close() error { return nil }

func (e *linearExec) count(runs int) {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	e.device.inFlight[0] += runs
	e.device.inFlight[1] = max(e.device.inFlight[1], e.device.inFlight[0])
}

// product is y[rows,N] = x[rows,K] w[N,K]^T + bias[N].
func product(c *graph.Call) {
	x, w, bias, y := &c.In[0], &c.In[1], &c.In[2], &c.Out[0]
	for i := range x.Rows {
		for j := range w.Rows {
			var sum float64
			if bias.Present() {
				sum = float64(bias.F32[j])
			}
			for k, v := range x.Row(i) {
				sum += float64(v) * float64(w.F32[j*w.Cols+k])
			}
			y.F32[i*y.Cols+j] = float32(sum)
		}
	}
}

// TestDeviceOfOneOp: a device that computes only linear embeds, scores and
// generates what the reference does, recorded. The runs of a session do not overlap,
// tokens are drawn on the host, and all weights are freed.
func TestDeviceOfOneOp(t *testing.T) {
	be := newLinearDevice()
	t.Cleanup(func() { // after the engine was closed
		if be.weights != 0 {
			t.Errorf("%d weights were not freed", be.weights)
		}
		be.Close()
	})
	opts := Options{MaxBatchTokens: 16, MaxSeqs: 4}
	want := open(t, "llama", ref.New(), opts)
	rec := profile.NewRecorder(profile.Options{})
	opts.Recorder = rec
	e := open(t, "llama", be, opts)
	near := func(what string, got, want []float32) {
		t.Helper()
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); d > 1e-5*(1+math.Abs(float64(want[i]))) {
				t.Fatalf("%s: element %d is %v, expected %v", what, i, got[i], want[i])
			}
		}
	}
	type answers struct {
		vectors []float32
		nll     [][]float32
		ids     [2][]int32
	}
	answer := func(e *Engine) (a answers) {
		t.Helper()
		a.vectors = make([]float32, len(manyTexts)*e.cfg.EmbedDim)
		if err := e.EmbedIDs(t.Context(), manyTexts, a.vectors, e.pooling()); err != nil {
			t.Fatal(err)
		}
		var err error
		if a.nll, err = e.ScoreIDs(t.Context(), manyTexts); err != nil {
			t.Fatal(err)
		}
		for i, how := range []sample.Params{{}, {Temperature: 0.9, TopK: 7, Seed: 6}} {
			s, err := e.Generate(t.Context(), Request{Prompt: []int32{1, 2, 3}, MaxTokens: 6, Sample: how})
			if err != nil {
				t.Fatal(err)
			}
			for id, ok := s.Next(); ok; id, ok = s.Next() {
				a.ids[i] = append(a.ids[i], id)
			}
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
		}
		return a
	}
	got, expected := answer(e), answer(want)
	near("vectors", got.vectors, expected.vectors)
	for i := range expected.nll {
		near("log-likelihoods", got.nll[i], expected.nll[i])
	}
	for i := range expected.ids {
		if !slices.Equal(got.ids[i], expected.ids[i]) {
			t.Errorf("generated %v, expected %v", got.ids[i], expected.ids[i])
		}
	}
	if be.inFlight[1] != 1 { // the host steps of a run lie between its device parts, in the same activations
		t.Errorf("at most %d runs of a program with host steps were in flight, expected 1", be.inFlight[1])
	}
	hold(e.generator)
	var products int64 // FLOPs
	for _, p := range rec.Snapshot().Plans {
		for i, st := range p.Stats {
			if p.Steps[i].Kernel == "product" {
				products += st.FLOPs
			}
		}
	}
	if err := rec.Err(); err != nil || products == 0 {
		t.Errorf("the profile has %d FLOPs of the device, %v", products, err)
	}
	if e.generator.sampled != nil {
		t.Error("the device draws tokens, but it lacks the op")
	}
}
