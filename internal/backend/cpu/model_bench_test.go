//go:build linux

package cpu_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// modelPath finds a real model fetched by scripts/fetch_models.sh.
func modelPath(tb testing.TB, name string) string {
	p := filepath.Join("..", "..", "..", ".cache", "models", name)
	if _, err := os.Stat(p); err != nil {
		tb.Skipf("%s is not fetched: run scripts/fetch_models.sh", name)
	}
	return p
}

// BenchmarkMiniLM embeds whole batches of the real model.
func BenchmarkMiniLM(b *testing.B) {
	st, err := weights.Open(modelPath(b, "all-MiniLM-L6-v2"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		b.Fatal(err)
	}
	for _, shape := range [][2]int{{1, 16}, {8, 64}, {32, 128}, {4, 256}} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("batch=%d/seq=%d/workers=%d", shape[0], shape[1], workers), func(b *testing.B) {
				embed(b, m, shape[0], shape[1], workers)
			})
		}
	}
}

// session binds the real model for one batch shape and fills its inputs.
func session(b *testing.B, m *model.Model, seqs, length, workers int) (*plan.Session, tensor.Bind, func()) {
	be, err := cpu.New(cpu.Options{Workers: workers})
	if err != nil {
		b.Fatal(err)
	}
	bind := tensor.Bind{T: seqs * length, S: seqs, R: 1}
	g, ports, err := m.BuildEmbed(bind, model.EmbedOptions{Normalize: true})
	if err != nil {
		b.Fatal(err)
	}
	p, err := plan.Compile("embed", g, be, []tensor.Bind{g.Max})
	if err != nil {
		b.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		b.Fatal(err)
	}
	tokens, pos, starts := s.I32(ports.Tokens), s.I32(ports.Pos), s.I32(ports.QStart)
	for i := range bind.T {
		tokens[i], pos[i] = int32(1000+i*37%20000), int32(i%length)
	}
	for i := range seqs + 1 {
		starts[i] = int32(i * length)
	}
	return s, bind, func() {
		s.Close()
		be.Close()
	}
}

func embed(b *testing.B, m *model.Model, seqs, length, workers int) {
	s, bind, done := session(b, m, seqs, length, workers)
	defer done()
	b.ReportAllocs()
	start := threadTime(b)
	for b.Loop() {
		if err := s.Run(context.Background(), bind); err != nil {
			b.Fatal(err)
		}
	}
	if workers == 1 {
		cpuTime := threadTime(b) - start
		b.ReportMetric(float64(bind.T)*float64(b.N)/cpuTime.Seconds(), "tok/cpu-s")
	}
	b.ReportMetric(float64(bind.T)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

// BenchmarkProfilingOverhead runs pairs of a profiled and an unprofiled batch
// in turn, the first of a pair changing each time, and reports by how much
// the profiled one is slower: the median of the pairs and the interval that
// holds the true median with 95 per cent (by the ranks of the pairs).
func BenchmarkProfilingOverhead(b *testing.B) {
	for _, shape := range [][2]int{{1, 16}, {8, 64}, {32, 128}} {
		b.Run(fmt.Sprintf("batch=%d/seq=%d", shape[0], shape[1]), func(b *testing.B) {
			st, err := weights.Open(modelPath(b, "all-MiniLM-L6-v2"))
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			m, err := model.Open(st)
			if err != nil {
				b.Fatal(err)
			}
			// One session, so that both kinds of runs meet the same memory.
			s, bind, done := session(b, m, shape[0], shape[1], 0)
			defer done()
			if err := s.Attach(profile.NewRecorder(profile.Options{}), plan.ProfileLabels{Model: "MiniLM"}); err != nil {
				b.Fatal(err)
			}
			timed := func(watched bool) float64 {
				s.Pause(!watched)
				start := time.Now()
				if err := s.Run(context.Background(), bind); err != nil {
					b.Fatal(err)
				}
				return time.Since(start).Seconds()
			}
			timed(true)
			timed(false)
			var ratios []float64
			for i := 0; b.Loop(); i++ {
				var with, without float64
				if i%2 == 0 {
					with, without = timed(true), timed(false)
				} else {
					without, with = timed(false), timed(true)
				}
				ratios = append(ratios, 100*(with/without-1))
			}
			slices.Sort(ratios)
			n := len(ratios)
			half := int(0.98 * math.Sqrt(float64(n))) // 1.96 standard deviations of a binomial rank
			b.ReportMetric(ratios[n/2], "%overhead")
			b.ReportMetric(ratios[max(0, n/2-half)], "%low")
			b.ReportMetric(ratios[min(n-1, n/2+half)], "%high")
		})
	}
}
