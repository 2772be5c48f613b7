package cpu_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// TestManyWorkers: with more workers than processors, and more than steps have shares,
// callers at the same time get the bits of one worker, and the books of the recording
// close for every lane.
func TestManyWorkers(t *testing.T) {
	m := cpu.OpenModel(t, testmodels.Dir(t, "bert"))
	texts := make([][]int32, 24)
	for i := range texts {
		for k := range 1 + i*5%40 {
			texts[i] = append(texts[i], int32(1+(i*31+k*7)%60))
		}
	}
	want := embedByMany(t, m, texts, engine.Fine, 1)
	for _, mode := range []engine.Mode{engine.Fine, engine.Coarse} {
		for _, workers := range []int{2, 7, 33} {
			t.Run(fmt.Sprintf("%v/%d", mode, workers), func(t *testing.T) {
				if got := embedByMany(t, m, texts, mode, workers); !slices.Equal(got, want) {
					t.Error("the vectors are not those of one worker")
				}
			})
		}
	}
}

// embedByMany embeds the texts by three callers at a time, each all of them, and returns
// the vectors.
func embedByMany(t *testing.T, m *model.Model, texts [][]int32, mode engine.Mode, workers int) []float32 {
	t.Helper()
	be, err := cpu.New(cpu.Options{Workers: workers, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	rec := profile.NewRecorder(profile.Options{})
	rec.SetFacts(profile.Facts{Threads: workers})
	e, err := engine.Open(m, be, engine.Options{Parallel: mode, Invariant: true, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	const callers = 3
	var all [callers][]float32
	var failed [callers]error
	var done sync.WaitGroup
	for i := range callers {
		all[i] = make([]float32, len(texts)*m.Config().Dim)
		done.Go(func() {
			failed[i] = e.EmbedIDs(context.Background(), texts, all[i], model.EmbedOptions{Pooling: m.Config().Pooling})
		})
	}
	done.Wait()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range callers {
		if failed[i] != nil {
			t.Fatal(failed[i])
		}
		if !slices.Equal(all[i], all[0]) {
			t.Errorf("%d workers: caller %d has other vectors than the first", workers, i)
		}
	}
	p := rec.Snapshot()
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Read("the recording", file.Bytes()); err != nil { // it adds up all lanes and steps
		t.Error(err)
	}
	ran := 0
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		ran++
		lanes := workers
		if mode == engine.Coarse {
			lanes = 1
		}
		if len(s.ByLane) != lanes || s.Ledger.LaneTime != int64(lanes)*s.Ledger.Wall {
			t.Errorf("%s: %d lanes with %d ns of %d ns of runs, expected %d lanes", s.ID, len(s.ByLane), s.Ledger.LaneTime, s.Ledger.Wall, lanes)
		}
	}
	if ran == 0 || p.BadRuns > 0 {
		t.Errorf("%d plans ran, %d runs are bad", ran, p.BadRuns)
	}
	return all[0]
}
