//go:build linux

package cpu_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
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

// foldedTogether is how many runs are folded at a time here. The recorder
// would fold one more inside a run.
const foldedTogether = 31

// BenchmarkProfilingOverhead runs pairs of a recorded and an unrecorded run in
// turn, the first of a pair changing each time, and reports by how much the
// recorded one is slower: the median of the pairs, and the interval that holds
// the true median with 95 per cent (by the ranks of the pairs). A median does
// not see what every 32nd run does, so runs are folded between the pairs; the
// time of that, divided among its runs, is added to all three.
func BenchmarkProfilingOverhead(b *testing.B) {
	for _, c := range overheadCases {
		b.Run(c.name, func(b *testing.B) {
			st, err := weights.Open(modelPath(b, c.model))
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			m, err := model.Open(st)
			if err != nil {
				b.Fatal(err)
			}
			// One session, so that both kinds of runs meet the same memory.
			s, next, done := c.open(b, m)
			defer done()
			rec := profile.NewRecorder(profile.Options{})
			if err := s.Attach(rec, plan.ProfileLabels{Model: c.model}); err != nil {
				b.Fatal(err)
			}
			measureOverhead(b, s, rec, next)
		})
	}
}

func measureOverhead(b *testing.B, s *plan.Session, rec *profile.Recorder, next func(i int) tensor.Bind) {
	timed := func(watched bool, bind tensor.Bind) float64 {
		s.Pause(!watched)
		start := time.Now()
		if err := s.Run(context.Background(), bind); err != nil {
			b.Fatal(err)
		}
		return time.Since(start).Seconds()
	}
	var ratios, alone, folds []float64
	fold := func(runs int) {
		start := time.Now()
		if err := rec.Err(); err != nil { // folds what was released
			b.Fatal(err)
		}
		folds = append(folds, time.Since(start).Seconds()/float64(runs))
	}
	for i := range 2 {
		timed(i == 0, next(i))
	}
	pending := 1
	for i := 0; b.Loop(); i++ {
		bind := next(i)
		var with, without float64
		if i%2 == 0 {
			with, without = timed(true, bind), timed(false, bind)
		} else {
			without, with = timed(false, bind), timed(true, bind)
		}
		ratios, alone = append(ratios, 100*(with/without-1)), append(alone, without)
		if pending++; pending == foldedTogether {
			fold(pending)
			pending = 0
		}
	}
	if pending > 0 {
		fold(pending)
	}
	slices.Sort(ratios)
	slices.Sort(alone)
	slices.Sort(folds)
	n := len(ratios)
	half := int(0.98 * math.Sqrt(float64(n))) // 1.96 standard deviations of a binomial rank
	each := folds[len(folds)/2]
	folding := 100 * each / alone[n/2]
	b.ReportMetric(folding+ratios[n/2], "%overhead")
	b.ReportMetric(folding+ratios[max(0, n/2-half)], "%low")
	b.ReportMetric(folding+ratios[min(n-1, n/2+half)], "%high")
	b.ReportMetric(1e9*each, "fold-ns/run")
	b.ReportMetric(1e6*alone[n/2], "µs/run")
	b.ReportMetric(0, "ns/op") // two runs and a share of a fold
}
