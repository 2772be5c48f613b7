//go:build linux

package cpu_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// overheadCase is a kind of work that is recorded and not recorded in turn.
type overheadCase struct {
	name, model string
	// open binds the work; next fills the inputs of pair i.
	open func(b *testing.B, m *model.Model) (s *plan.Session, next func(i int) tensor.Bind, done func())
}

var overheadCases = []overheadCase{
	{"work=embed/batch=1/seq=16", miniLM, embedCase(1, 16, 16)},
	{"work=embed/batch=1/seq=9to16", miniLM, embedCase(1, 9, 16)},
	{"work=embed/batch=8/seq=64", miniLM, embedCase(8, 64, 64)},
	{"work=embed/batch=32/seq=128", miniLM, embedCase(32, 128, 128)},
	{"work=decode/batch=1", smolLM, decodeCase},
	{"work=train/tokens=32", smolLM, trainCase},
}

const (
	miniLM = "all-MiniLM-L6-v2"
	smolLM = "SmolLM2-135M-Instruct.Q4_1.gguf"
)

// embedCase embeds texts; pair after pair they have shortest to length tokens.
func embedCase(seqs, shortest, length int) func(*testing.B, *model.Model) (*plan.Session, func(int) tensor.Bind, func()) {
	return func(b *testing.B, m *model.Model) (*plan.Session, func(int) tensor.Bind, func()) {
		s, bind, starts, done := session(b, m, seqs, length, 0)
		return s, func(i int) tensor.Bind {
			n := shortest + i%(length-shortest+1)
			for k := range seqs + 1 {
				starts[k] = int32(k * n)
			}
			bind.T = seqs * n
			return bind
		}, done
	}
}

// decodeCase makes one token after 33 to 64 others.
func decodeCase(b *testing.B, m *model.Model) (*plan.Session, func(int) tensor.Bind, func()) {
	bind := tensor.Bind{T: 1, S: 1, R: 1}
	g, ports, err := m.BuildGenerate(bind, model.KVLayout{Blocks: 2, MaxBlocksPerSeq: 2})
	if err != nil {
		b.Fatal(err)
	}
	s, done := bound(b, m, g, 0)
	s.I32(ports.QStart)[1], s.I32(ports.BlockTable)[1] = 1, 1
	return s, func(i int) tensor.Bind {
		past := int32(33 + i%32)
		s.I32(ports.Tokens)[0], s.I32(ports.Pos)[0] = 1000+past, past
		s.I32(ports.Slots)[0], s.I32(ports.KVLen)[0] = past, past+1
		return bind
	}, done
}

// trainCase is a step of AdamW for the norms of all layers: forward and back
// through the whole model, in memory that any machine has.
func trainCase(b *testing.B, m *model.Model) (*plan.Session, func(int) tensor.Bind, func()) {
	bind := tensor.Bind{T: 32, S: 1, R: 32}
	g, ports, _, err := m.BuildTrain(bind, model.TrainOptions{Trainable: func(r graph.Role, _ int) bool { return r == graph.RoleNorm }})
	if err != nil {
		b.Fatal(err)
	}
	s, done := bound(b, m, g, 0)
	for i := range bind.T {
		s.I32(ports.Tokens)[i], s.I32(ports.Pos)[i] = int32(1000+i*37), int32(i)
		s.I32(ports.Rows)[i], s.I32(ports.Targets)[i] = int32(i), int32(1000+(i+1)*37)
	}
	s.I32(ports.QStart)[1] = int32(bind.T)
	return s, func(i int) tensor.Bind {
		h := grad.Hyper{LR: 1e-6, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
		if err := h.Put(s.F32(ports.Hyper)[:graph.HyperLen], 1+i); err != nil {
			b.Fatal(err)
		}
		return bind
	}, done
}

// BenchmarkProfilingOverhead reports what recording costs, twice.
//
// The caller's latency: pairs of a recorded and an unrecorded run in turn, the
// first of a pair changing each time. Each comes after a run of its own kind and is
// timed from the end of that one, so that what a run leaves behind counts as its own
// kind's. %overhead is by how much the recorded one is slower, the median of the pairs,
// with the interval that holds the true median with 95 per cent (by the ranks of the
// pairs). A median does not see what
// every 128th run does, so runs are folded between the pairs, before the recorder
// would do it inside of one; the time of that, divided among its runs, is added to
// all three.
//
// The processor time of the whole process: blocks of as many runs, recorded and
// folded or not, in turn. %cpu is by how many per cent a recorded block takes more, the
// median of the pairs of blocks with its interval; %cpu-min compares the blocks that
// took least. They have all that recording does on any thread: stamps, folding, samples
// of ceilings and of threads.
func BenchmarkProfilingOverhead(b *testing.B) {
	for _, c := range overheadCases {
		b.Run(c.name, func(b *testing.B) {
			m := cpu.OpenModel(b, modelPath(b, c.model))
			// One session, so that both kinds of runs meet the same memory.
			s, next, done := c.open(b, m)
			defer done()
			rec := profile.NewRecorder(profile.Options{})
			if err := s.Attach(rec, plan.ProfileLabels{Model: c.model}); err != nil {
				b.Fatal(err)
			}
			p := &rec.Snapshot().Plans[0]
			o := overhead{b: b, session: s, rec: rec, next: next}
			o.together, o.since = profile.FoldsAfter(len(p.Steps), len(p.Lanes))
			o.measure()
		})
	}
}

// overhead is one measurement of the benchmark.
type overhead struct {
	b       *testing.B
	session *plan.Session
	rec     *profile.Recorder
	next    func(i int) tensor.Bind
	// The recorder folds if so many runs wait, or one ends so long after the first.
	together int
	since    time.Duration

	ratios, alone []float64 // of pairs, in per cent; seconds without recording
	folds         []float64 // seconds per run
	cpu           [2][]float64
}

func (o *overhead) run(recorded bool, bind tensor.Bind) (end time.Time) {
	o.session.Pause(!recorded)
	if err := o.session.Run(context.Background(), bind); err != nil {
		o.b.Fatal(err)
	}
	return time.Now()
}

// second is the time from the end of one run to the end of the next of its kind.
func (o *overhead) second(recorded bool, bind tensor.Bind) (seconds float64) {
	first := o.run(recorded, bind)
	return o.run(recorded, bind).Sub(first).Seconds()
}

// fold folds what was released, outside of the pairs.
func (o *overhead) fold(runs int) {
	start := time.Now()
	if err := o.rec.Err(); err != nil {
		o.b.Fatal(err)
	}
	if runs > 0 {
		o.folds = append(o.folds, time.Since(start).Seconds()/float64(runs))
	}
}

// block is the processor time per run of a block of runs, which are folded at its end.
func (o *overhead) block(recorded bool, runs, i int) {
	before := processTime(o.b)
	for range runs {
		o.run(recorded, o.next(i))
	}
	k := 0
	if recorded {
		k = 1
		o.fold(0)
	}
	o.cpu[k] = append(o.cpu[k], (processTime(o.b)-before)/float64(runs))
}

func processTime(b *testing.B) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
}

func (o *overhead) measure() {
	for i := range 2 {
		o.run(i == 0, o.next(i))
	}
	o.fold(0)
	pending, first := 0, time.Now() // runs that wait to be folded
	for i, groups := 0, 0; o.b.Loop(); i++ {
		began := time.Now()
		bind := o.next(i)
		var with, without float64
		if i%2 == 0 {
			with, without = o.second(true, bind), o.second(false, bind)
		} else {
			without, with = o.second(false, bind), o.second(true, bind)
		}
		o.ratios, o.alone = append(o.ratios, 100*(with/without-1)), append(o.alone, without)
		pending += 2
		if pending > o.together-3 || time.Since(first)+2*time.Since(began) > o.since { // the next may be folded inside of a run
			o.fold(pending)
			recorded := groups%2 == 0
			o.block(recorded, pending, i)
			o.block(!recorded, pending, i)
			pending, first = 0, time.Now()
			groups++
		}
	}
	if pending > 0 {
		o.fold(pending)
	}
	o.report()
}

// medianOf is the median of values and the interval that holds the true one with 95
// per cent, by their ranks.
func medianOf(v []float64) (low, mid, high float64) {
	slices.Sort(v)
	n := len(v)
	half := int(0.98 * math.Sqrt(float64(n))) // 1.96 standard deviations of a binomial rank
	return v[max(0, n/2-half)], v[n/2], v[min(n-1, n/2+half)]
}

func TestMedianOf(t *testing.T) {
	v := make([]float64, 101)
	for i := range v {
		v[i] = float64((i * 37) % 101)
	}
	if low, mid, high := medianOf(v); low != 41 || mid != 50 || high != 59 {
		t.Errorf("%v, from %v to %v, expected 50, from 41 to 59", mid, low, high)
	}
	if low, mid, high := medianOf([]float64{7}); low != 7 || mid != 7 || high != 7 {
		t.Errorf("of one value: %v, from %v to %v", mid, low, high)
	}
}

func (o *overhead) report() {
	b := o.b
	low, mid, high := medianOf(o.ratios)
	alone, each := stats.Median(o.alone), stats.Median(o.folds)
	folding := 100 * each / alone
	b.ReportMetric(folding+mid, "%overhead")
	b.ReportMetric(folding+low, "%low")
	b.ReportMetric(folding+high, "%high")
	b.ReportMetric(1e9*each, "fold-ns/run")
	b.ReportMetric(1e6*alone, "µs/run")
	if len(o.cpu[0]) > 0 {
		pairs := make([]float64, len(o.cpu[0]))
		for i := range pairs {
			pairs[i] = 100 * (o.cpu[1][i]/o.cpu[0][i] - 1)
		}
		low, mid, high := medianOf(pairs)
		b.ReportMetric(mid, "%cpu")
		if len(pairs) >= profile.OverheadPairs {
			b.ReportMetric(low, "%cpu-low")
			b.ReportMetric(high, "%cpu-high")
		}
		b.ReportMetric(100*(slices.Min(o.cpu[1])/slices.Min(o.cpu[0])-1), "%cpu-min")
		b.ReportMetric(1e6*slices.Min(o.cpu[0]), "cpu-µs/run")
	}
	b.ReportMetric(0, "ns/op") // two runs, a share of a fold and of two blocks
}
