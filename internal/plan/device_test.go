package plan_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// session compiles a program and opens a session, for the length of a test.
func session(t *testing.T, be plan.Backend, m *model.Model, ws *plan.WeightSet, pr program) (*plan.Session, *model.Ports) {
	t.Helper()
	p, ports := compiled(t, be, m, pr)
	s, err := plan.NewSession(t.Context(), p, ws, plan.BindOptions{Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s, ports
}

func compiled(t *testing.T, be plan.Backend, m *model.Model, pr program) (*plan.Program, *model.Ports) {
	t.Helper()
	g, ports, err := pr.build(m, tensor.Bind{T: 24, S: 4, R: 24})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(pr.name, g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p, ports
}

// TestTwoRunsInFlight: a session on an asynchronous device has two slots. Each run
// reads and writes those of its own, and they end in order; on other backends
// there is one.
func TestTwoRunsInFlight(t *testing.T) {
	be := null.New(200 * time.Microsecond)
	m := openModel(t, programs[0])
	s, ports := session(t, be, m, plan.NewWeightSet(be, m), programs[0])
	defer s.Close()
	want, wantPorts := session(t, ref.New(), m, plan.NewWeightSet(ref.New(), m), programs[0])
	defer want.Close()
	if s.Slots() != 2 || want.Slots() != 1 {
		t.Fatalf("%d and %d slots, expected 2 and 1", s.Slots(), want.Slots())
	}
	const runs = 12
	fill := func(tokens, pos, starts []int32, run int) tensor.Bind {
		n := 1 + (run*7)%24 // of every bucket
		starts[0], starts[1] = 0, int32(n)
		for i := range n {
			tokens[i], pos[i] = int32((run+3*i)%20), int32(i)
		}
		return tensor.Bind{T: n, S: 1, R: 1}
	}
	check := func(run int) {
		b := fill(want.I32(wantPorts.Tokens), want.I32(wantPorts.Pos), want.I32(wantPorts.QStart), run)
		if err := want.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sl, n := s.Slot(run%2), ports.Embedding.Shape.RowLen()
		if err := sl.Wait(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sl.F32(ports.Embedding)[:n], want.F32(wantPorts.Embedding)[:n]) {
			t.Errorf("run %d gave what another should", run)
		}
	}
	for run := range runs {
		sl := s.Slot(run % 2)
		b := fill(sl.I32(ports.Tokens), sl.I32(ports.Pos), sl.I32(ports.QStart), run)
		if err := sl.Enqueue(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if run > 0 {
			check(run - 1)
		}
	}
	check(runs - 1)
	if n := be.Flights(); n != 2 {
		t.Errorf("at most %d runs were in flight, expected 2", n)
	}
	if err := s.Slot(0).Wait(); err == nil {
		t.Error("waited for a run that nobody started")
	}
}

// cacheProgram is a program over a KV cache.
func cacheProgram(name string, blocks int, score bool) program {
	return program{name, testmodel("llama"), func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		kv := model.KVLayout{Blocks: blocks, MaxBlocksPerSeq: 2, Type: tensor.F16}
		if score {
			return m.BuildScore(most, kv)
		}
		return m.BuildGenerate(most, kv)
	}}
}

// TestStateIsShared: what one program writes into a KV cache, another that shares
// it reads; the memory lives as long as one of them. Programs whose state is laid
// out otherwise do not share.
func TestStateIsShared(t *testing.T) {
	for _, be := range []plan.Backend{ref.New(), null.New(50 * time.Microsecond), cpuBackend(t)} {
		t.Run(be.Caps().Name, func(t *testing.T) {
			gen, score := cacheProgram("generate", 8, false), cacheProgram("score", 8, true)
			m := openModel(t, gen)
			// put feeds tokens [from, to) of one text whose last target is scored.
			put := func(s *plan.Session, p *model.Ports, from, to int) {
				t.Helper()
				b := tensor.Bind{T: to - from, S: 1, R: 1}
				s.I32(p.QStart)[0], s.I32(p.QStart)[1] = 0, int32(b.T)
				s.I32(p.KVLen)[0], s.I32(p.Rows)[0] = int32(to), int32(b.T-1)
				s.I32(p.BlockTable)[0] = 3
				if p.Targets != nil {
					s.I32(p.Targets)[0] = 7
				}
				for i := range b.T {
					s.I32(p.Tokens)[i], s.I32(p.Pos)[i], s.I32(p.Slots)[i] = int32((5*(from+i))%20), int32(from+i), int32(3*64+from+i)
				}
				if err := s.Run(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			alone, p := session(t, be, m, plan.NewWeightSet(be, m), score)
			put(alone, p, 0, 9)
			put(alone, p, 9, 17)
			want := alone.F32(p.NLL)[0]
			defer alone.Close()

			ws := plan.NewWeightSet(be, m)
			first, firstPorts := session(t, be, m, ws, gen)
			prog, ports := compiled(t, be, m, score)
			second, err := first.Share(t.Context(), prog, plan.BindOptions{})
			if err != nil {
				t.Fatal(err)
			}
			put(first, firstPorts, 0, 9)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			put(second, ports, 9, 17)
			if got := second.F32(ports.NLL)[0]; got != want {
				t.Errorf("over a shared cache %v, alone %v", got, want)
			}
			other, _ := compiled(t, be, m, cacheProgram("larger", 9, true))
			if _, err := second.Share(t.Context(), other, plan.BindOptions{}); err == nil {
				t.Error("a cache of another size was shared")
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWeightsAreFreed: with the last session that reads them, whichever program
// it is of. The set names the programs that read a weight.
func TestWeightsAreFreed(t *testing.T) {
	be := null.New(0)
	embed := program{"embed", testmodel("llama"), func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildEmbed(most, model.EmbedOptions{Pooling: m.Config().Pooling})
	}}
	gen := cacheProgram("generate", 8, false)
	m := openModel(t, gen)
	ws := plan.NewWeightSet(be, m)
	a, _ := session(t, be, m, ws, embed)
	shared := be.Live()
	b, _ := session(t, be, m, ws, gen)
	c, _ := session(t, be, m, ws, gen)
	all := be.Live()
	if shared == 0 || all <= shared {
		t.Fatalf("%d weights are packed for one program, %d for two", shared, all)
	}
	const key = "blk.0.attn_q.weight"
	if got := ws.Readers(key); !slices.Equal(got, []string{"embed", "generate"}) {
		t.Errorf("%s is read by %v", key, got)
	}
	for i, step := range []struct {
		close *plan.Session
		left  int
	}{{a, all}, {b, all}, {c, 0}} {
		if err := step.close.Close(); err != nil {
			t.Fatal(err)
		}
		if n := be.Live(); n != step.left {
			t.Errorf("%d weights after session %d was closed, expected %d", n, i, step.left)
		}
	}
	if ws.Bytes() != 0 || len(ws.Readers(key)) != 0 {
		t.Errorf("the set still holds %d bytes", ws.Bytes())
	}
	d, _ := session(t, be, m, ws, gen) // they are packed again
	if be.Live() == 0 {
		t.Error("no weight is packed")
	}
	if err := errors.Join(d.Close(), ws.Close()); err != nil || be.Live() != 0 {
		t.Errorf("%d weights are left: %v", be.Live(), err)
	}
}

// TestFaultsOfADevice: whatever call of a device fails, opening or running, the
// error comes out, nothing is lost, and the next attempt does it.
func TestFaultsOfADevice(t *testing.T) {
	lost := errors.New("the device is lost")
	be := null.New(0)
	calls, fail := 0, 0 // the call that fails, from 1
	be.Fail = func(string) error {
		if calls++; calls == fail {
			return lost
		}
		return nil
	}
	gen := cacheProgram("generate", 8, false)
	m := openModel(t, gen)
	prog, ports := compiled(t, be, m, gen)
	rng := rand.New(rand.NewPCG(1, 2))
	attempt := func() (err error) {
		ws := plan.NewWeightSet(be, m)
		defer func() { err = errors.Join(err, ws.Close()) }()
		s, err := plan.NewSession(context.Background(), prog, ws, plan.BindOptions{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		for range 2 { // a run that failed leaves the session sound
			fillInputs(rng, s, ports, prog.Graph.Max)
			if e := s.Run(context.Background(), prog.Graph.Max); e != nil {
				err = e
			}
		}
		return err
	}
	if err := attempt(); err != nil {
		t.Fatal(err)
	}
	all := calls
	if all < 20 {
		t.Fatalf("only %d calls of the device", all)
	}
	for k := 1; k <= all; k++ {
		calls, fail = 0, k
		if err := attempt(); !errors.Is(err, lost) {
			t.Errorf("call %d failed, and the attempt ended with %v", k, err)
		}
		if n := be.Live(); n != 0 {
			t.Fatalf("call %d failed, and %d weights are left", k, n)
		}
	}
	fail = 0
	if err := attempt(); err != nil {
		t.Error(err)
	}
}
