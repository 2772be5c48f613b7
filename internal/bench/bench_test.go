package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/testmodels"
)

func newTestEnv(t *testing.T, o Options) *Env {
	t.Helper()
	o.Count, o.Time = max(1, o.Count), time.Microsecond
	e, err := NewEnv(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Every group runs, on one worker and on two, and its figures are there and
// agree with each other.
func TestGroupsRun(t *testing.T) {
	small := regexp.MustCompile(`^(Ceiling/(class|read=1M)` +
		`|Matmul/.*/m=4/n=384/k=384-|Matmul/class=f32/type=Q4_1/.*/m=1/n=384/` +
		`|Matmul/class=[^/]*/type=(Q4_0|Q5_[01]|Q[2-6]_K|IQ4_..|MXFP4)/.*/m=1/.*-1$|Matmul/.*/tile=64x192/` +
		`|Linear/.*/m=(1|16)/n=384/` +
		`|Rope/.*heads=3/.*len=16-` +
		`|Attention/.*/batch=1/len=(16|64)-` +
		`|Norm/.*/rows=16-|Activation/.*/rows=16/|Activation/.*/size=64-` +
		`|Pool/.*/len=16/|CrossEntropy/vocab=4096/rows=1-` +
		`|Embed/.*/batch=1/|Prefill/.*/len=16-|Decode/.*/batch=(1|4)/)`)
	seen := map[string]int{}
	for _, model := range []string{"llama", "bert"} {
		e := newTestEnv(t, Options{Threads: 2, Model: testmodels.Dir(t, model)})
		names := []string{}
		if model != "llama" {
			names = []string{"embed"}
		}
		cases, err := e.Select(names, small)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Run(t.Context(), cases, func(s Sample) error {
			group, _, _ := strings.Cut(s.Name, "/")
			seen[group]++
			checkFigures(t, s)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range []string{"Ceiling", "Matmul", "Linear", "Rope", "Attention", "Norm", "Activation", "Pool", "CrossEntropy", "Embed", "Prefill", "Decode"} {
		if seen[group] == 0 {
			t.Errorf("no case of %s ran", group)
		}
	}
}

func checkFigures(t *testing.T, s Sample) {
	t.Helper()
	figures := map[string]float64{}
	for _, v := range s.Values {
		if _, twice := figures[v.Unit]; twice || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || v.Value < 0 {
			t.Errorf("%s: %v", s.Name, s.Values)
		}
		figures[v.Unit] = v.Value
	}
	if strings.HasPrefix(s.Name, "Ceiling") {
		if len(figures) != 1 || s.Values[0].Value <= 0 {
			t.Errorf("%s: %v", s.Name, s.Values)
		}
		return
	}
	want := []string{"ns/op", "GB/s", "bytes/op", "%ceiling", "B/op", "allocs/op"}
	if !strings.HasPrefix(s.Name, "Pool/") {
		want = append(want, "GFLOP/s", "flops/op")
	}
	for _, unit := range want {
		if _, ok := figures[unit]; !ok || s.Iters < 1 {
			t.Errorf("%s has no %s: %v", s.Name, unit, s.Values)
		}
	}
	for _, rate := range [][2]string{{"GFLOP/s", "flops/op"}, {"GB/s", "bytes/op"}} {
		if r, ok := figures[rate[0]]; ok && math.Abs(r*figures["ns/op"]-figures[rate[1]]) > 1e-6*figures[rate[1]] {
			t.Errorf("%s: %s x ns/op is not %s: %v", s.Name, rate[0], rate[1], s.Values)
		}
	}
}

// FLOPs and bytes are those of the work: 2mnk, and each operand once.
func TestProductCost(t *testing.T) {
	e := newTestEnv(t, Options{Threads: 1})
	cases, err := e.Select([]string{"matmul", "linear"}, regexp.MustCompile(`type=Q8_0/(kernel=rows|precision=auto)/m=4/n=384/k=384-1$`))
	want := 2 // in f32, and as a model does it
	if bf16.Tiles() {
		want++
	}
	if err != nil || len(cases) != want {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	const weights, activations = 384 * 384 / 32 * 34, 4 * 4 * (384 + 384)
	if err := e.Run(t.Context(), cases, func(s Sample) error {
		if !slices.Contains(s.Values, Value{2 * 4 * 384 * 384, "flops/op"}) || !slices.Contains(s.Values, Value{weights + activations, "bytes/op"}) {
			t.Errorf("%s: %v, expected %d flops and %d bytes", s.Name, s.Values, 2*4*384*384, weights+activations)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Weights that bf16 keeps in half their size count as much as is read.
func TestRoundedCost(t *testing.T) {
	for precision, weight := range map[string]float64{"f32": 4, "bf16": 2} {
		e := newTestEnv(t, Options{Threads: 1, Precision: precision})
		cases, err := e.Select([]string{"linear"}, regexp.MustCompile(`type=F32/.*/m=16/n=384/k=384-1$`))
		if err != nil || len(cases) != 1 {
			t.Fatalf("%d cases, %v", len(cases), err)
		}
		want := Value{weight*384*384 + 4*16*(384+384), "bytes/op"}
		if err := e.Run(t.Context(), cases, func(s Sample) error {
			if !slices.Contains(s.Values, want) {
				t.Errorf("%s: %v, expected %v", s.Name, s.Values, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Samples come in rounds, each in the reverse order of the one before, so that a
// drift of the machine's speed affects all cases alike.
func TestInterleaved(t *testing.T) {
	e := newTestEnv(t, Options{Threads: 1, Count: 3})
	cases, err := e.Select([]string{"activation"}, regexp.MustCompile("size=64-"))
	if err != nil || len(cases) != 2 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	var order []string
	if err := e.Run(t.Context(), cases, func(s Sample) error { order = append(order, s.Name); return nil }); err != nil {
		t.Fatal(err)
	}
	a, b := cases[0].FullName(), cases[1].FullName()
	if !slices.Equal(order, []string{a, b, b, a, b, a}) {
		t.Errorf("order %q", order)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx, cases, func(Sample) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSelect(t *testing.T) {
	e := newTestEnv(t, Options{Threads: 5})
	if !slices.Equal(e.threads(), []int{1, 2, 4, 5}) {
		t.Errorf("threads %v", e.threads())
	}
	all, err := e.Select(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names, valid := map[string]bool{}, regexp.MustCompile(`^[A-Z][A-Za-z]*(/[a-z0-9]+=[A-Za-z0-9_.]+)+-[1245]$`)
	for _, c := range all {
		if name := c.FullName(); names[name] || !valid.MatchString(name) {
			t.Errorf("name %q is there twice or has another form", name)
		} else {
			names[name] = true
		}
	}
	if len(all) < 1000 {
		t.Errorf("only %d cases", len(all))
	}
	if _, err := e.Select([]string{"nothing"}, nil); err == nil || !strings.Contains(err.Error(), "matmul") {
		t.Errorf("an unknown group: %v", err)
	}
	if _, err := e.Select([]string{"decode"}, nil); !errors.Is(err, ErrNoModel) {
		t.Errorf("no model: %v", err)
	}
	if _, err := e.Select([]string{"rope"}, regexp.MustCompile("heads=10000")); !errors.Is(err, ErrNoCase) || !strings.Contains(err.Error(), "heads=10000") {
		t.Errorf("a filter that keeps nothing: %v", err)
	}
	encoder := newTestEnv(t, Options{Threads: 1, Model: testmodels.Dir(t, "bert")})
	if _, err := encoder.Select([]string{"embed", "decode"}, nil); !errors.Is(err, ErrNoCase) || !strings.Contains(err.Error(), "bert: expected a model that generates") {
		t.Errorf("a model that does not generate: %v", err)
	}
	if _, err := NewEnv(Options{Model: t.TempDir()}); err == nil {
		t.Error("an empty folder is a model")
	}
}

// Repetitions grow until the time is reached, and what fails ends them.
func TestMeasure(t *testing.T) {
	calls, total := 0, 0
	m, err := measure(t.Context(), func(n int) (time.Duration, error) {
		calls++
		total += n
		return time.Duration(n) * time.Microsecond, nil
	}, time.Millisecond)
	if err != nil || m.n < 1000 || m.n > 1300 || m.elapsed != time.Duration(m.n)*time.Microsecond || calls > 6 {
		t.Errorf("%+v after %d calls, %v", m, calls, err)
	}
	boom := errors.New("boom")
	if _, err := measure(t.Context(), func(n int) (time.Duration, error) {
		if n > 1 {
			return 0, boom
		}
		return 1, nil
	}, time.Second); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if m, err := measure(t.Context(), func(int) (time.Duration, error) { return 0, nil }, time.Second); err != nil || m.n < 1e9 {
		t.Errorf("work that takes no time: %+v, %v", m, err)
	}
}

func TestPace(t *testing.T) {
	at := func(seconds ...int) (out []time.Time) {
		for _, s := range seconds {
			out = append(out, time.Unix(int64(s), 0))
		}
		return out
	}
	// Both run from 12 to 16: two tokens each a second of four, of six wanted.
	if d, err := pace([][]time.Time{at(10, 12, 14, 16), at(12, 14, 16, 18)}, 4); err != nil || d != 6*time.Second {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := pace([][]time.Time{at(10, 12, 14, 16)}, 4); err != nil || d != 6*time.Second {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := pace([][]time.Time{at(1, 2), at(3, 4)}, 2); err == nil {
		t.Error("sequences that never met have a pace")
	}
	if _, err := pace([][]time.Time{at(1)}, 2); err == nil {
		t.Error("a token is missing")
	}
}

// The figures follow the tier in use, the least one too.
func TestGenericTier(t *testing.T) {
	defer isa.Use(isa.Generic)()
	e := newTestEnv(t, Options{Threads: 1, Precision: "f32"})
	cases, err := e.Select(nil, regexp.MustCompile(`^(Matmul/.*/m=1/n=384/k=384-1|Rope/pairs=split/heads=3/.*len=1-1|Ceiling/class=.*)$`))
	if err != nil || len(cases) < 10 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	if err := e.Run(t.Context(), cases, func(s Sample) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if m := Describe(0); m.Tier != "generic" || m.Threads != isa.Host().Cores {
		t.Errorf("%+v", m)
	}
}

// A step of several sequences does each one's arithmetic, and reads the weights
// once for all of them and each one's keys and values. It is the same each time.
func TestDecodeCost(t *testing.T) {
	cost := func(e *Env, seqs int) (total Cost) {
		cases, err := e.Select([]string{"decode"}, regexp.MustCompile(fmt.Sprintf("batch=%d/.*-1$", seqs)))
		if err != nil || len(cases) != 1 {
			t.Fatalf("%d cases, %v", len(cases), err)
		}
		w, err := cases[0].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		steps, err := w.Cost()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			total.FLOPs += s.FLOPs
			total.Bytes += s.Bytes
		}
		return total
	}
	path := testmodels.Dir(t, "llama")
	auto, f32 := newTestEnv(t, Options{Threads: 1, Model: path}), newTestEnv(t, Options{Threads: 1, Model: path, Precision: "f32"})
	one, four, eight := cost(auto, 1), cost(auto, 4), cost(auto, 8)
	if one.FLOPs <= 0 || four.FLOPs != 4*one.FLOPs || eight.FLOPs != 8*one.FLOPs {
		t.Errorf("FLOPs of 1, 4 and 8 sequences: %v, %v, %v", one.FLOPs, four.FLOPs, eight.FLOPs)
	}
	each, sixteen := (eight.Bytes-four.Bytes)/4, cost(auto, 16) // all that is a sequence's own
	if each <= 0 || sixteen.Bytes != eight.Bytes+8*each {
		t.Errorf("bytes of 4, 8 and 16 sequences: %v, %v, %v", four.Bytes, eight.Bytes, sixteen.Bytes)
	}
	if shared := four.Bytes - 4*each; one.Bytes != shared+each {
		t.Errorf("one sequence moves %v bytes, expected %v, which all share, and %v of its own", one.Bytes, shared, each)
	}
	if again := cost(auto, 4); again != four {
		t.Errorf("%+v, and again %+v", four, again)
	}
	// As a model opens by default: the cache takes half where it is not f32.
	if wide := (cost(f32, 8).Bytes - cost(f32, 4).Bytes) / 4; wide <= each {
		t.Errorf("a sequence has %v bytes of its own at f32, %v otherwise", wide, each)
	}
}
