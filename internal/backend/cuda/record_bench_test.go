package cuda

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// timedFake is a card that computes for a fixed time and writes stamps in every run,
// recorded or not: runs differ only in what the host does.
type timedFake struct {
	*fake
	takes time.Duration
	homes map[list][]int64 // stamps and ends of a list's run, in host memory
	ends  int64            // of the last run
	other []byte           // what the host touches while it waits
}

func (f *timedFake) record(launches []launch) (list, error) {
	l, err := f.fake.record(launches)
	last := launches[len(launches)-1]
	home, count := binary.LittleEndian.Uint64(last.args[stampBytes+40:]), int(binary.LittleEndian.Uint32(last.args[stampBytes+48:]))
	f.homes[l] = unsafe.Slice((*int64)(unsafe.Pointer(word(home))), count+last.grid[0]*last.grid[1])
	return l, err
}

func (f *timedFake) replay(l list) error {
	home, now := f.homes[l], profile.Now()
	f.ends = now + int64(f.takes)
	for i := range home {
		home[i] = now + int64(f.takes)*int64(i+1)/int64(len(home))
	}
	return nil
}

func (f *timedFake) sync() error {
	for i := 0; profile.Now() < f.ends; i += 64 {
		f.other[i%len(f.other)]++
	}
	return nil
}

// BenchmarkRecording runs a plan recorded and not recorded in turn. added-µs is by how
// much a recorded run takes longer for the caller, the median of single runs. A block is
// many runs, so its mean has what only some runs do; the median of these means is given
// too. A card that takes no time shows all that the host does. With a card that computes,
// what the host does meanwhile is free.
func BenchmarkRecording(b *testing.B) {
	for _, steps := range []int{46, 170} {
		for _, takes := range []time.Duration{0, 130 * time.Microsecond} {
			b.Run(fmt.Sprintf("steps=%d/card=%v", steps, takes), func(b *testing.B) {
				s := chain(b, &timedFake{fake: newFake(), takes: takes, homes: map[list][]int64{}, other: make([]byte, 64<<20)}, steps)
				rec := profile.NewRecorder(profile.Options{})
				if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
					b.Fatal(err)
				}
				run := func(recorded bool) float64 {
					s.Pause(!recorded)
					start := profile.Now()
					if err := s.Run(b.Context(), tensor.Bind{T: 16, S: 1, R: 1}); err != nil {
						b.Fatal(err)
					}
					return float64(profile.Now()-start) / 1e3
				}
				const block = 64 // two times as many runs as are folded together
				var single, blocks, alone []float64
				for i := 0; b.Loop(); i++ {
					var times [2][]float64
					for k := range 2 {
						recorded := (i + k) % 2
						run(recorded == 1) // finds what runs of the other kind left
						for range block {
							times[recorded] = append(times[recorded], run(recorded == 1))
						}
					}
					var sum float64
					for j, t := range times[1] {
						single = append(single, t-times[0][j])
						sum += single[len(single)-1]
					}
					blocks, alone = append(blocks, sum/block), append(alone, times[0]...)
				}
				if err := rec.Err(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(stats.Median(single), "added-µs")
				b.ReportMetric(stats.Median(blocks), "added-µs-of-blocks")
				b.ReportMetric(stats.Median(alone), "µs/run")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// chain is a session of a plan with a number of steps.
func chain(tb testing.TB, drv driver, steps int) *plan.Session {
	tb.Helper()
	be, err := newBackend(Options{}, drv)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { be.Close() })
	b := graph.NewBuilder(tensor.Bind{T: 16, S: 1, R: 1})
	x, w := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8)), b.Weight("norm.weight", graph.RoleNorm, tensor.Static(8))
	for i := range steps {
		x = b.RMSNorm(fmt.Sprintf("norm %d", i), x, w, 1e-6, 0)
	}
	g, err := b.Freeze(x)
	if err != nil {
		tb.Fatal(err)
	}
	prog, err := plan.Compile("chain", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if got := len(prog.Plans[0].Steps); got != steps {
		tb.Fatalf("%d steps, expected %d", got, steps)
	}
	s, err := plan.NewSession(tb.Context(), prog, plan.NewWeightSet(be, source{}), plan.BindOptions{Slots: 2})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}
