package plan_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// lacking is the reference backend without some ops, which it leaves to the host:
// like a device, but it completes inside Enqueue.
type lacking struct {
	*ref.Backend
	lacks func(n *graph.Node) bool
}

func (l lacking) Caps() plan.Caps {
	c := l.Backend.Caps()
	c.Host = true
	return c
}
func (l lacking) Supports(n *graph.Node) bool { return !l.lacks(n) }

func newNull(lacks func(n *graph.Node) bool) *null.Backend {
	be := null.New(20 * time.Microsecond)
	be.Lacks = lacks
	return be
}

// openModel opens the model of a program for a test.
func openModel(t *testing.T, pr program) *model.Model {
	t.Helper()
	st, err := weights.Open(pr.model(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// outputs runs a program three times with the same inputs on every backend and
// gives all its outputs, bit by bit.
func outputs(t *testing.T, be plan.Backend, pr program, rec *profile.Recorder) []uint32 {
	t.Helper()
	m := openModel(t, pr)
	g, ports, err := pr.build(m, tensor.Bind{T: 24, S: 4, R: 24})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(pr.name, g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Attach(rec, plan.ProfileLabels{Model: pr.name}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var out []uint32
	for _, b := range []tensor.Bind{{T: 24, S: 4, R: 24}, {T: 1, S: 1, R: 1}, {T: 9, S: 2, R: 3}} {
		fillInputs(rng, s, ports, b)
		if ports.Hyper != nil {
			if err := hyper.Put(s.F32(ports.Hyper)[:graph.HyperLen], 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Outputs {
			for _, f := range s.F32(v)[:v.Shape.Len(b)] {
				out = append(out, math.Float32bits(f))
			}
		}
	}
	return out
}

// TestHostRunsWhatTheBackendLacks: whichever ops a backend lacks, a program gives
// the bits that it gives on a backend that has all. The profile shows which steps
// ran on the host, and its stamps are sound.
func TestHostRunsWhatTheBackendLacks(t *testing.T) {
	only := func(ops ...*graph.OpDef) func(n *graph.Node) bool {
		return func(n *graph.Node) bool { return !slices.Contains(ops, n.Op) }
	}
	but := func(ops ...*graph.OpDef) func(n *graph.Node) bool {
		return func(n *graph.Node) bool { return slices.Contains(ops, n.Op) }
	}
	for _, pr := range programs {
		want := outputs(t, ref.New(), pr, nil)
		for name, lacks := range map[string]func(n *graph.Node) bool{
			"only linear":     only(graph.OpLinear),
			"no linear":       but(graph.OpLinear),
			"no attention":    but(graph.OpAttention, graph.OpAttentionKV, graph.OpKVWrite),
			"no embed":        but(graph.OpEmbed),
			"nothing":         only(),
			"everything":      but(),
			"every other one": func(n *graph.Node) bool { return n.ID%2 == 0 },
		} {
			for _, be := range []plan.Backend{newNull(lacks), lacking{ref.New(), lacks}} {
				t.Run(pr.name+"/"+name+"/"+be.Caps().Name, func(t *testing.T) {
					rec := profile.NewRecorder(profile.Options{})
					if got := outputs(t, be, pr, rec); !slices.Equal(got, want) {
						t.Error("other bits than on a backend that has all ops")
					}
					prof := rec.Snapshot()
					if len(prof.Runs) != 3 {
						t.Fatalf("%d runs in the profile, expected 3", len(prof.Runs))
					}
					host, rest := 0, 0
					for _, pl := range prof.Plans {
						for _, s := range pl.Steps {
							switch {
							case s.Op == "transfer":
							case s.Host != (s.Kernel == plan.HostKernel):
								t.Errorf("%s: host %v, kernel %q", s.Name, s.Host, s.Kernel)
							case s.Host:
								host++
							default:
								rest++
							}
						}
					}
					if (host == 0) != (name == "everything") || (rest == 0) != (name == "nothing") {
						t.Errorf("%d steps on the host, %d on the backend", host, rest)
					}
				})
			}
		}
	}
}

// TestUnsupportedIsRefusedByName: before a weight is packed or memory is taken.
func TestUnsupportedIsRefusedByName(t *testing.T) {
	be := newNull(func(n *graph.Node) bool { return n.Op == graph.OpLinear || n.Op == graph.OpPool })
	be.Refuses = true
	be.Fail = func(call string) error {
		t.Errorf("the device was asked to %s", call)
		return nil
	}
	m := openModel(t, programs[0])
	g, _, err := programs[0].build(m, tensor.Bind{T: 24, S: 4, R: 24})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Compile("embed", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if !errors.Is(err, weights.ErrUnsupported) {
		t.Fatalf("the program was refused with %v", err)
	}
	for _, want := range []string{"null", "linear (blk.0/", "pool (pool)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
}

// TestHostStepsOfACommitAreNotCancelled: a run whose context ends while it commits
// goes on to its end, over parts of the host and of the device. Before, it ends.
func TestHostStepsOfACommitAreNotCancelled(t *testing.T) {
	pr := programs[len(programs)-1] // train
	m := openModel(t, pr)
	g, ports, err := pr.build(m, tensor.Bind{T: 24, S: 4, R: 24})
	if err != nil {
		t.Fatal(err)
	}
	be := newNull(func(n *graph.Node) bool { return n.Op == graph.OpAdamW && n.ID%2 == 0 })
	p, err := plan.Compile(pr.name, g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pl, before, after := p.Plans[0], 0, 0 // parts of the device that begin up to the commit, and behind it
	for i := range pl.Steps {
		switch begins := !pl.Steps[i].Host && (i == 0 || pl.Steps[i-1].Host); {
		case begins && i <= pl.Commit:
			before++
		case begins:
			after++
		}
	}
	if before == 0 || after < 2 {
		t.Fatalf("%d parts up to the commit and %d behind it: the test needs some of each", before, after)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		at   int // part of the device that is enqueued when the context ends
		ends bool
	}{{1, false}, {before + 1, true}, {before + after - 1, true}} {
		fillInputs(rng, s, ports, g.Max)
		if err := hyper.Put(s.F32(ports.Hyper)[:graph.HyperLen], 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		enqueued := 0
		be.Fail = func(call string) error {
			if call == "enqueue" {
				if enqueued++; enqueued == c.at {
					cancel()
				}
			}
			return nil
		}
		err := s.Run(ctx, g.Max)
		if c.ends && (err != nil || enqueued != before+after) {
			t.Errorf("cancelled at part %d: %d of %d parts ran, %v", c.at, enqueued, before+after, err)
		}
		if !c.ends && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before the commit: %v", err)
		}
		cancel()
	}
}

var hyper = grad.Hyper{LR: 1e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
