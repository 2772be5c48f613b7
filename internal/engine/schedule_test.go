package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/calib"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// minilm is about the work of all-MiniLM-L6-v2.
var minilm = calib.Work{FLOPs: 21e6, Packed: 10.6e6, Barriers: 50}

// quiet is a machine that nothing disturbs: threads cost next to nothing, and
// both ways of sharing are as good at large work.
func quiet(workers int) calib.Costs {
	return calib.Costs{Workers: workers, Cores: workers, Fork: 5e-6, Barrier: 1e-6, FLOP: 1 / 400e9, Packed: 0.05e-9, Stored: 0.2e-9,
		Fine: 0.9 * float64(workers), Coarse: 0.9 * float64(workers), Measured: true}
}

func texts(n, tokens int) load { return load{seqs: n, tokens: n * tokens, longest: tokens} }

func TestPick(t *testing.T) {
	uneven := quiet(4) // processors that are not equally fast: barriers wait for the last
	uneven.Fine = 2.4
	slowTeam := quiet(4) // meeting is dear
	slowTeam.Barrier = 1e-3
	large := calib.Work{FLOPs: 300e6, Packed: 150e6, Barriers: 250}
	stored := minilm
	stored.Packed, stored.Stored = 0, 300e6
	for _, c := range []struct {
		name  string
		mode  Mode
		has   bool
		costs calib.Costs
		work  calib.Work
		load  load
		want  Mode
	}{
		{"many short texts", Auto, true, uneven, minilm, texts(64, 12), Coarse},
		{"many long texts", Auto, true, uneven, minilm, texts(32, 256), Coarse},
		{"one long text", Auto, true, uneven, minilm, texts(1, 256), Fine},
		{"one long text of a larger model", Auto, true, uneven, large, texts(1, 256), Fine},
		{"a text per worker and one more", Auto, true, quiet(4), minilm, texts(5, 200), Fine},
		{"few texts, one run", Auto, true, quiet(4), minilm, texts(5, 30), Fine},
		{"too few tokens to share out", Auto, true, slowTeam, minilm, texts(5, 12), Fine},
		{"texts beyond a coarse run", Auto, true, uneven, minilm, texts(64, coarseLongest+1), Fine},
		{"one worker", Auto, true, quiet(1), minilm, texts(64, 12), Fine},
		{"no serial sessions", Auto, false, uneven, minilm, texts(64, 12), Fine},
		{"a short text", Auto, true, quiet(4), minilm, texts(1, 16), Fine},
		{"a short text, dear threads", Auto, true, slowTeam, minilm, texts(1, 16), Fine},
		{"many short texts, dear barriers", Auto, true, slowTeam, minilm, texts(64, 12), Coarse},
		{"weights that each worker would decode", Auto, true, quiet(4), stored, texts(8, 16), Fine},
		{"coarse on demand", Coarse, true, slowTeam, minilm, texts(1, 30), Coarse},
		{"coarse where there is none", Coarse, false, quiet(4), minilm, texts(80, 30), Fine},
		{"fine on demand", Fine, true, slowTeam, minilm, texts(80, 30), Fine},
	} {
		s := scheduler{mode: c.mode, coarse: c.has, costs: c.costs, work: c.work, most: 512}
		if got := s.pick(c.load); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
	for _, s := range []string{"", "auto", "fine", "coarse"} {
		if m, err := ParseMode(s); err != nil || s != "" && m.String() != s {
			t.Errorf("%q: %v, %v", s, m, err)
		}
	}
	if _, err := ParseMode("both"); !errors.Is(err, ErrInput) {
		t.Errorf("mode both: %v", err)
	}
}

// TestScheduleIsAsDecided: what runs is what the machine's figures say, and
// vectors are the same whatever runs.
func TestScheduleIsAsDecided(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	seqs := sequences(testmodels.Load(t, name))
	for len(seqs) < 40 {
		seqs = append(seqs, seqs...)
	}
	fine, coarse := quiet(2), quiet(2)
	// Fixtures are tiny: figures that make each way the best one for them.
	fine.FLOP, fine.Packed, fine.Fork, fine.Barrier, fine.Coarse = 1e-7, 0, 0, 0, 0.1
	coarse.FLOP, coarse.Barrier, coarse.Fork, coarse.Fine = 1e-7, 0.05, 0, 0.1
	var want []float32
	for _, c := range []struct {
		name         string
		costs        calib.Costs
		fine, coarse bool
		lanes        int
	}{{"fine", fine, true, false, 2}, {"coarse", coarse, false, true, 1}} {
		rec := profile.NewRecorder(profile.Options{})
		e := open(t, name, be, Options{Costs: &c.costs, Recorder: rec})
		dst := make([]float32, len(seqs)*e.cfg.EmbedDim)
		if err := e.EmbedIDs(context.Background(), seqs, dst, e.pooling()); err != nil {
			t.Fatal(err)
		}
		s := e.Stats()
		if (s.FineRuns > 0) != c.fine || (s.CoarseRuns > 0) != c.coarse {
			t.Errorf("%s: %d fine and %d coarse runs", c.name, s.FineRuns, s.CoarseRuns)
		}
		// The recording tells the same: whose program ran, on how many lanes.
		for _, p := range rec.Snapshot().Plans {
			if p.Ledger.Runs > 0 && (len(p.Lanes) != c.lanes || strings.Contains(p.Name, "coarse") != c.coarse) {
				t.Errorf("%s: %d runs of %s on %d lanes", c.name, p.Ledger.Runs, p.Name, len(p.Lanes))
			}
		}
		if want == nil {
			want = dst
		}
		for i := range seqs {
			w := e.cfg.EmbedDim
			if cos := cosine(dst[i*w:(i+1)*w], want[i*w:(i+1)*w]); cos < 0.999999 {
				t.Errorf("%s: text %d: cosine %.7f against fine", c.name, i, cos)
			}
		}
	}
}

// TestWaysTakeTurns: one engine runs the same texts one way and the other, as
// it is told in between, and its answers agree.
func TestWaysTakeTurns(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	seqs := sequences(testmodels.Load(t, name))
	e := open(t, name, be, Options{})
	var want []float32
	var before Stats
	for i, mode := range []Mode{Fine, Coarse, Fine, Coarse} {
		e.SetParallel(mode)
		dst := make([]float32, len(seqs)*e.cfg.EmbedDim)
		if err := e.EmbedIDs(context.Background(), seqs, dst, e.pooling()); err != nil {
			t.Fatal(err)
		}
		s := e.Stats()
		if (s.FineRuns > before.FineRuns) != (mode == Fine) || (s.CoarseRuns > before.CoarseRuns) != (mode == Coarse) {
			t.Errorf("turn %d, %v: %d fine and %d coarse runs", i, mode, s.FineRuns-before.FineRuns, s.CoarseRuns-before.CoarseRuns)
		}
		before = s
		if want == nil {
			want = dst
		}
		for j := range seqs {
			w := e.cfg.EmbedDim
			if cos := cosine(dst[j*w:(j+1)*w], want[j*w:(j+1)*w]); cos < 0.999999 {
				t.Errorf("turn %d, %v: text %d: cosine %.7f against fine", i, mode, j, cos)
			}
		}
	}
}

// countingRef is a reference backend with n workers that notes how many of them
// a round had.
type countingRef struct {
	*ref.Backend
	n     int
	mu    *sync.Mutex
	teams *[]int
}

func (b countingRef) Caps() plan.Caps {
	c := coarseRef{b.Backend}.Caps()
	c.Workers = b.n
	run := c.Coarse
	c.Coarse = func(ctx context.Context, n int, f func(int)) error {
		b.mu.Lock()
		*b.teams = append(*b.teams, n)
		b.mu.Unlock()
		return run(ctx, n, f)
	}
	return c
}

// TestAnyNumberOfWorkers: from one worker to far more than there are cores,
// every mode answers the same, and no round has more workers than texts.
func TestAnyNumberOfWorkers(t *testing.T) {
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	seqs := sequences(testmodels.Load(t, name))
	var want []float32
	for _, n := range []int{1, 2, 3, 16, 128} {
		for _, mode := range []Mode{Auto, Fine, Coarse} {
			var teams []int
			e := open(t, name, countingRef{ref.New(), n, &sync.Mutex{}, &teams}, Options{Parallel: mode})
			dst := make([]float32, len(seqs)*e.cfg.EmbedDim)
			if err := e.EmbedIDs(context.Background(), seqs, dst, e.pooling()); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = dst
			}
			if !slices.Equal(dst, want) {
				t.Errorf("%d workers, %v: other vectors than one worker's", n, mode)
			}
			if mode == Coarse && (len(teams) == 0 || slices.Max(teams) != min(n, len(seqs))) {
				t.Errorf("%d workers for %d texts: rounds of %v", n, len(seqs), teams)
			}
		}
	}
}

// TestCoarseRunsAreEven: the recorded runs of a round do not depend on who takes them,
// its last ones are even whatever order the texts come in, and every text gets
// its own vector.
func TestCoarseRunsAreEven(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	fine := open(t, name, be, Options{Parallel: Fine})
	for _, c := range []struct {
		lengths []int
		want    string // tokens of the runs, longest first
	}{
		{repeated(8, 12), "[48 48]"},
		{repeated(9, 12), "[60 48]"},
		{repeated(8, 5, 15, 40), "[70 70]"},
		{repeated(16, 5, 15, 40), "[155 150]"},
		{repeated(32, 5, 15, 40), "[160 160 150 150]"},
		{[]int{40, 3}, "[40 3]"},
		{[]int{3, 2, 3, 2, 3, 2, 40, 5}, "[40 20]"},
		{append(repeated(30, 12), 60, 60), "[240 240]"},
	} {
		rec := profile.NewRecorder(profile.Options{})
		e := open(t, name, be, Options{Parallel: Coarse, Recorder: rec})
		var seqs [][]int32
		for i, n := range c.lengths {
			if n > e.cfg.MaxSeq {
				t.Fatalf("%s takes %d tokens, expected %d", name, e.cfg.MaxSeq, n)
			}
			ids := make([]int32, n)
			for k := range ids {
				ids[k] = int32((11 + 17*i + 5*k) % e.cfg.Vocab)
			}
			seqs = append(seqs, ids)
		}
		w := e.cfg.EmbedDim
		got, want := make([]float32, len(seqs)*w), make([]float32, len(seqs)*w)
		if err := errors.Join(e.EmbedIDs(t.Context(), seqs, got, e.pooling()), fine.EmbedIDs(t.Context(), seqs, want, e.pooling())); err != nil {
			t.Fatal(err)
		}
		var runs []int64
		for _, p := range rec.Snapshot().Plans {
			if p.Samples != nil {
				runs = append(runs, p.Samples.Tokens...)
			}
		}
		slices.Sort(runs)
		slices.Reverse(runs)
		if fmt.Sprint(runs) != c.want {
			t.Errorf("%v: runs of %v tokens, expected %s", c.lengths, runs, c.want)
		}
		for i := range seqs {
			if cos := cosine(got[i*w:(i+1)*w], want[i*w:(i+1)*w]); cos < 0.999999 {
				t.Errorf("%v: text %d: cosine %.7f against fine", c.lengths, i, cos)
			}
		}
	}
}

// repeated is n lengths that take turns.
func repeated(n int, lengths ...int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = lengths[i%len(lengths)]
	}
	return out
}
