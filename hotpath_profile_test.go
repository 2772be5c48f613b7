package hotpath

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/machine"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/compare"
	"hotpath/profile/export"
	"hotpath/profile/report"
)

// A program that sets Options.Profile and nothing else learns what ran on what.
func TestOpenDescribesTheRun(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	m := open(t, testmodels.Dir(t, "bert"), Options{Profile: rec, Threads: 2})
	f := rec.Snapshot().Facts
	if f.CPU != isa.Host().Brand || f.Tier != isa.Active().String() || f.Threads != 2 || f.Device != "cpu" || f.Precision != "auto" || f.Params != m.cfg.ParamCount || f.Model != m.cfg.Name {
		t.Errorf("%+v", f)
	}
}

// Without ceilings nothing is known to be lost, in any table.
func TestReportWithoutCeilings(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	m := open(t, testmodels.Dir(t, "bert"), Options{Profile: rec})
	if _, err := m.Embed(context.Background(), []string{"a stitch in time"}, EmbedOptions{}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.Text(&b, rec.Snapshot(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	rows := 0
	in := false
	for line := range strings.Lines(b.String()) {
		switch {
		case strings.HasPrefix(line, "TREE") || strings.HasPrefix(line, "BY "):
			in = true
			continue
		case strings.TrimSpace(line) == "":
			in = false
		}
		if fields := strings.Fields(line); in && len(fields) > 4 && fields[len(fields)-1] != "ms" && !strings.Contains(line, " wait ") {
			rows++
			if fields[len(fields)-1] != "-" {
				t.Errorf("%q says what was lost", strings.TrimSpace(line))
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows found in\n%s", rows, b.String())
	}
}

// Workers with texts of their own share the machine: speed and rooflines are of
// all of them.
func TestCoarseProfileCountsAllWorkers(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	if err := rec.SetCeilings("", profile.Ceilings{FLOPs: 2e12, Bytes: 2e12, Lanes: 2}); err != nil {
		t.Fatal(err)
	}
	m := open(t, testmodels.Dir(t, "bert"), Options{Profile: rec, Threads: 2, Parallel: "coarse"})
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = strings.Repeat("a stitch in time ", 1+i%3)
	}
	for range 5 {
		if _, err := m.Embed(context.Background(), texts, EmbedOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	if len(p.Runs) == 0 || p.Elapsed <= 0 {
		t.Fatalf("%d runs in %d ns", len(p.Runs), p.Elapsed)
	}
	// The same from the stamps of the runs, all of which were kept.
	runs := slices.SortedFunc(slices.Values(p.Runs), func(a, b profile.RawRun) int { return cmp.Compare(a.Start, b.Start) })
	var union, wall, last int64
	for _, r := range runs {
		union += max(0, r.End-max(r.Start, last))
		last = max(last, r.End)
	}
	var sum int64
	for i := range p.Plans {
		sum += p.Plans[i].Elapsed
		wall += p.Plans[i].Ledger.Wall
	}
	if p.Elapsed > wall || p.Elapsed != union || sum < p.Elapsed-10 || sum > p.Elapsed+10 {
		t.Errorf("%d ns elapsed, plans %d, stamps %d, runs %d", p.Elapsed, sum, union, wall)
	}
	if p, err := profile.ReadFile(write(t, p)); err != nil || p.Elapsed != union {
		t.Errorf("read back: %v", err)
	}
}

func write(t *testing.T, p *profile.Profile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.json")
	if err := export.Export(path, p); err != nil {
		t.Fatal(err)
	}
	return path
}

var registerTestCard = sync.OnceFunc(func() {
	engine.Register("test-card", func(o engine.BackendOptions) (plan.Backend, error) { return engine.NewBackend(machine.CPU, o) })
})

// Steps are held against the figures of a card that was measured before, unless the
// caller set ceilings of that backend, before the model was opened or after.
func TestCallersCeilingsWin(t *testing.T) {
	t.Setenv(calib.Env, "")
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	key := calib.NewCardKey("test-card", "a card", "1.0", 100)
	dir, err := calib.Dir()
	if err == nil {
		err = calib.StoreCard(dir, key, calib.Card{Start: 1, Copy: 1e9, Run: 1e-6, Layer: 1e-6, Read: 4e12, FLOPs: map[string]float64{"f32": 40e12, "bf16": 600e12}, Measured: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	registerTestCard()
	cards := func(list func() ([]engine.Card, error)) {
		engine.RegisterCards("test-card", engine.Kind{Precision: "f32", List: list, Fits: func(int64) error { return nil }})
	}
	cards(func() ([]engine.Card, error) { return []engine.Card{{Key: key}}, nil })
	defer cards(func() ([]engine.Card, error) { return nil, engine.ErrAbsent })
	mine := profile.Ceilings{FLOPs: 1e9, Bytes: 1e9}
	for name, c := range map[string]struct {
		before, after bool
		backend       string
		want          float64
	}{
		"nobody":           {want: 40e12},
		"before":           {before: true, backend: "cpu", want: 1e9},
		"after":            {after: true, backend: "cpu", want: 1e9},
		"of all backends":  {before: true, want: 40e12},
		"of other backend": {before: true, backend: "other", want: 40e12},
	} {
		t.Run(name, func(t *testing.T) {
			rec := profile.NewRecorder(profile.Options{})
			set := func(when bool) {
				if !when {
					return
				}
				if err := rec.SetCeilings(c.backend, mine); err != nil {
					t.Fatal(err)
				}
			}
			set(c.before)
			open(t, testmodels.Dir(t, "bert"), Options{Profile: rec, Device: "test-card"})
			set(c.after)
			p := rec.Snapshot()
			if got := p.CeilingsOf("cpu").FLOPs; got != c.want {
				t.Errorf("%g FLOP/s, expected %g", got, c.want)
			}
		})
	}
}

// TestModelsShareARecorder: models have plans of their own, also of other threads, and one
// beyond the recorder's limit works without being recorded. compare knows the models apart,
// in whatever order they came.
func TestModelsShareARecorder(t *testing.T) {
	record := func(limit int, models ...string) *profile.Profile {
		t.Helper()
		rec := profile.NewRecorder(profile.Options{Plans: limit})
		for i, name := range models {
			m := open(t, testmodels.Dir(t, name), Options{Profile: rec, Threads: 2 - i/2})
			if _, err := m.Embed(t.Context(), []string{"a text"}, EmbedOptions{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return rec.Snapshot()
	}
	ran := func(p *profile.Profile) (ids []string) {
		for _, plan := range p.Plans {
			if plan.Ledger.Runs > 0 {
				ids = append(ids, plan.ID+" of "+plan.Model)
			}
		}
		return ids
	}
	p := record(0, "bert", "mpnet", "bert")
	if ids := ran(p); len(ids) != 3 || !strings.HasSuffix(ids[1], "#mpnet of mpnet") || !strings.HasSuffix(ids[2], "#2 of bert") || len(p.Warnings) > 0 {
		t.Errorf("plans %q, warnings %q; expected one of mpnet, and two of bert", ids, p.Warnings)
	}
	c, err := compare.Compare([]*profile.Profile{record(0, "bert", "mpnet")}, []*profile.Profile{record(0, "mpnet", "bert")}, "A", "B")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Plans) != 2 || len(c.OnlyA)+len(c.OnlyB) > 0 {
		t.Errorf("%d plans in both, %q in A alone, %q in B alone; expected 2 in both", len(c.Plans), c.OnlyA, c.OnlyB)
	}
	if p := record(-1, "bert"); len(ran(p)) > 0 || !strings.Contains(strings.Join(p.Warnings, "\n"), "more than 0 plans") {
		t.Errorf("plans %q, warnings %q; expected none, and a warning", ran(p), p.Warnings)
	}
}
