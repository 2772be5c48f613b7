package study

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/compare"
)

// The audit records real pairs, of one build and of builds with a change that was
// made on purpose, and counts what compare.Compare says of them. make
// profile-audit runs it: HOTPATH_PROFILE_AUDIT is how many pairs of one build are
// compared; changes have a fifth of that each. Lines that begin with | are rows of its
// table. A simulation is in package profile/compare.
type audit struct {
	t    *testing.T
	s    *session
	rng  *rand.Rand
	text [][]int32
}

// rounds of a recording: each embeds all texts once, in two or three runs. Many short
// recordings in turn tell more than a few long ones: what the machine did to a
// recording is as large in a long one.
const rounds = 16

// row prints a row of the audit's table.
func row(t *testing.T, what, good string, count, of, wanted int) {
	t.Helper()
	t.Logf("| %-34s | %-24s | %3d of %3d | %3d |", what, good, count, of, wanted)
}

func newAudit(t *testing.T) (_ *audit, pairs int) {
	pairs, err := strconv.Atoi(os.Getenv("HOTPATH_PROFILE_AUDIT"))
	if err != nil || pairs < 5 {
		t.Skip("takes minutes: make profile-audit; a simulation is in package profile/compare")
	}
	s, err := open(Options{Model: testmodels.Real(t, "all-MiniLM-L6-v2")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	var lengths []int
	for i := range 24 {
		lengths = append(lengths, []int{8, 12, 20, 40}[i%4])
	}
	return &audit{t, s, rand.New(rand.NewPCG(uint64(pairs), 1)), s.texts(1, lengths)}, pairs
}

// audited is an engine with a recorder, on auto.
type audited struct {
	*running
	rec *profile.Recorder
	dst [callers][]float32
}

// slowed says which steps take how many times as long, in one of every so many calls.
type slowed struct {
	every  int
	factor func(*plan.Step) float64
}

const callers = 3

// open starts an engine; nil slows nothing.
func (a *audit) open(o *opened, slow *slowed) *audited {
	a.t.Helper()
	b := &audited{rec: profile.NewRecorder(profile.Options{Runs: -1})} // no trace: samples of runs are enough
	x := setMode(engine.Auto, a.s.Threads)
	x.engine.Recorder = b.rec
	var err error
	if b.running, err = a.s.start(o, x); err != nil {
		a.t.Fatal(err)
	}
	if slow != nil {
		b.be.DelayCalls(slow.every, slow.factor)
	}
	for i := range b.dst {
		b.dst[i] = make([]float32, len(a.text)*a.s.model.Config().Dim)
	}
	return b
}

// round embeds all texts once. Three callers share them, so that their batches
// depend on who comes when.
func (a *audit) round(b *audited) {
	a.rng.Shuffle(len(a.text), func(i, j int) { a.text[i], a.text[j] = a.text[j], a.text[i] })
	var done sync.WaitGroup
	var failed [callers]error
	for i := range callers {
		part := slices.Clone(a.text[len(a.text)*i/callers : len(a.text)*(i+1)/callers])
		done.Go(func() { failed[i] = b.EmbedIDs(a.t.Context(), part, b.dst[i], a.s.pooling()) })
	}
	done.Wait()
	for _, err := range failed {
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// record is a recording of a build alone.
func (a *audit) record() *profile.Profile {
	runtime.GC() // a program has no garbage of other engines
	var o opened
	defer o.close()
	b := a.open(&o, nil)
	for range rounds {
		a.round(b)
	}
	return b.rec.Snapshot()
}

// inTurn makes a recording of the build as it is and of one with a change, round by
// round in turn.
func (a *audit) inTurn(slow *slowed) (x, y *profile.Profile) {
	var o opened
	defer o.close()
	pair := []*audited{a.open(&o, nil), a.open(&o, slow)}
	for i := range 2 * rounds { // a b b a
		a.round(pair[(i+1)/2%2])
	}
	return pair[0].rec.Snapshot(), pair[1].rec.Snapshot()
}

func (a *audit) compare(x, y []*profile.Profile) *compare.Comparison {
	a.t.Helper()
	c, err := compare.Compare(x, y, "a", "b")
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// One build is called the same in 95 of 100 pairs of recordings, and if ten of each
// side that were made in turn are compared.
func TestAuditOneBuild(t *testing.T) {
	a, pairs := newAudit(t)
	var x, y []*profile.Profile
	for range pairs {
		x, y = append(x, a.record()), append(y, a.record())
	}
	same := func(what string, each int) {
		equal, of := 0, 0
		for i := 0; i+each <= pairs; i += each {
			of++
			if c := a.compare(x[i:i+each], y[i:i+each]); c.Same() {
				equal++
			} else {
				t.Logf("%s, %d: %s", what, i, c.Summary())
			}
		}
		wanted := (95*of + 99) / 100
		if row(t, what, "called the same", equal, of, wanted); equal < wanted {
			t.Errorf("%s: called the same in %d of %d, expected 95 in 100", what, equal, of)
		}
	}
	same("one build, a recording each", 1)
	same("one build, ten recordings each", min(auditEach, pairs))
}

// auditEach is how many pairs of recordings a trial has.
const auditEach = 10

// Changes that were made on purpose are found, and sized within their intervals,
// in 18 of 20 trials of ten pairs each.
func TestAuditChanges(t *testing.T) {
	a, pairs := newAudit(t)
	attention := func(d *compare.PlanDiff) *compare.Diff { return rowNamed(d.Kinds, comparedKind) }
	for _, in := range []struct {
		name    string
		slow    slowed
		row     func(*compare.PlanDiff) *compare.Diff
		measure compare.Measure
		percent float64
	}{
		{"one op by 20 %", slowed{1, slowedBy(comparedKind, 1.2)}, attention, compare.Median, 20},
		{"one layer by 30 %", slowed{1, func(s *plan.Step) float64 {
			if s.Root().Layer == 3 {
				return 1.3
			}
			return 1
		}}, func(d *compare.PlanDiff) *compare.Diff {
			i := slices.IndexFunc(d.Layers, func(r compare.Diff) bool { return r.Layer == 3 })
			return &d.Layers[i]
		}, compare.Median, 30},
		{"one call in ten 6 times", slowed{10, slowedBy(comparedKind, 6)}, attention, compare.Mean, 50},
	} {
		t.Run(in.name, func(t *testing.T) {
			a.t = t
			found, sized, failed := 0, 0, 0
			trials := pairs / 5
			for range trials {
				var before, after []*profile.Profile
				for range auditEach {
					x, y := a.inTurn(&in.slow)
					before, after = append(before, x), append(after, y)
				}
				c := a.compare(before, after)
				d := in.row(longest(c))
				change := d.Of(in.measure)
				if d.Verdict == compare.Slower || d.Verdict == compare.SlowerTail {
					found++
				}
				if change.Low != nil && *change.Low <= in.percent && in.percent <= *change.High {
					sized++
				}
				if worst, _ := c.Worst(); worst > 3 {
					failed++
				}
				t.Logf("%s %s: %.1f %% (noise %.1f): %s", in.measure, d.Name, change.Percent, change.Noise, c.Summary())
			}
			wanted := (18*trials + 19) / 20
			row(t, in.name, "found", found, trials, wanted)
			row(t, in.name, "within its interval", sized, trials, wanted)
			t.Logf("--fail-above 3%% fails in %d of %d", failed, trials)
			if 20*found < 18*trials || 20*sized < 18*trials {
				t.Errorf("found in %d and sized in %d of %d, expected 18 of 20", found, sized, trials)
			}
		})
	}
	t.Run("memory only", func(t *testing.T) {
		a.t = t
		const ballast = 96 << 20
		found, trials := 0, pairs/5
		for range trials {
			before := a.record()
			held := make([]byte, ballast)
			for i := 0; i < len(held); i += 4096 {
				held[i] = 1
			}
			after := a.record()
			runtime.KeepAlive(held)
			c := a.compare([]*profile.Profile{before}, []*profile.Profile{after})
			more := slices.ContainsFunc(c.Memory, func(d compare.MemoryDiff) bool { return d.Verdict == compare.MoreMemory })
			if more && len(c.Different()) == 0 {
				found++
			} else {
				t.Log(c.Summary())
			}
		}
		row(t, "memory only", "found, no time named", found, trials, (18*trials+19)/20)
		if 20*found < 18*trials {
			t.Errorf("found in %d of %d, expected 18 of 20", found, trials)
		}
	})
}

func rowNamed(rows []compare.Diff, name string) *compare.Diff {
	i := slices.IndexFunc(rows, func(d compare.Diff) bool { return d.Name == name })
	if i < 0 {
		return &compare.Diff{Name: "no " + name}
	}
	return &rows[i]
}

// longest is the plan that took most of the time.
func longest(c *compare.Comparison) *compare.PlanDiff {
	best := &c.Plans[0]
	for i := range c.Plans {
		if p := &c.Plans[i]; p.Total.Before*float64(p.Runs[0]) > best.Total.Before*float64(best.Runs[0]) {
			best = p
		}
	}
	return best
}
