package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
)

// watched tells which examples are read by the goroutine that reads ahead.
type watched struct {
	Source
	read chan int
}

func (w *watched) Example(i int, e *Example) error {
	w.read <- i
	return w.Source.Example(i, e)
}

// The examples of the next steps are read ahead, in their order and into the
// next epoch, and no more of them.
func TestPrefetch(t *testing.T) {
	var examples []Example
	for i := range 10 {
		examples = append(examples, Example{Seqs: []Sequence{{IDs: []int32{int32(i), 1, 2}}}})
	}
	source, err := NewMemory(Text, examples)
	must(t, err)
	w := &watched{source, make(chan int, 100)}
	b := newBatches(source, &lm{}, tensor.Bind{T: 8, S: 8, R: 8}, 8, 3)
	b.ahead = newPrefetcher(w, 3)
	for range 5 {
		must(t, b.plan()) // four examples of two tokens to read
		var want, got []int
		after, at := newWalk(10, 3), b.at
		for range 8 {
			want = append(want, after.at(at))
			at = after.after(at)
			got = append(got, <-w.read)
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %v ahead, expected %v", got, want)
		}
	}
	b.ahead.close()
	if n := len(w.read); n > 0 {
		t.Errorf("%d examples more were read", n)
	}
}

// Closing does not wait for a long request, and nothing blocks a step.
func TestPrefetchEnds(t *testing.T) {
	var examples []Example
	for i := range 1000 {
		examples = append(examples, Example{Seqs: []Sequence{{IDs: []int32{int32(i), 1}}}})
	}
	source, err := NewMemory(Text, examples)
	must(t, err)
	w := &watched{source, make(chan int)}
	p := newPrefetcher(w, 1)
	for range 100 { // more than it can take: the step goes on
		p.ahead(Position{}, 1000)
	}
	<-w.read // it is at work
	go func() {
		for range w.read {
		}
	}()
	p.close()
	close(w.read)
}

// A run on mapped shards has the losses of a run in memory, goes on from a
// checkpoint bit for bit, and leaves no goroutine that reads.
func TestTrainOnShards(t *testing.T) {
	defer func(old int64) { memoryData = old }(memoryData)
	stop := errors.New("stop")
	cache := t.TempDir()
	t.Setenv("HOTPATH_CACHE", cache)
	c := fixture(t, "llama")
	page, err := os.ReadFile(testmodels.Dir(t, "shakespeare.txt"))
	must(t, err)
	c.Data = []string{write(t, t.TempDir(), "a.txt", string(page))}
	c.Steps, c.Warmup, c.SeqLen, c.BatchTokens = 6, 0, 16, 64
	run := func(out string, limit int64, steps int) (losses []string) {
		t.Helper()
		memoryData = limit
		c.Out = out
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto", OnStep: func(s Step) error {
			losses = append(losses, fmt.Sprintf("%d %x", s.Step, s.Loss))
			if s.Step == steps {
				return stop
			}
			return nil
		}})
		if err != nil && !errors.Is(err, stop) {
			t.Fatal(err)
		}
		return losses
	}
	want := run(filepath.Join(t.TempDir(), "memory"), 1<<40, 0)
	out := filepath.Join(t.TempDir(), "shards")
	got := run(out, 0, 3)
	got = append(got, run(out, 0, 0)...)
	if !slices.Equal(got, want) {
		t.Errorf("losses on shards %v, in memory %v", got, want)
	}
	if made, _ := filepath.Glob(filepath.Join(cache, "tokens", "*", shardName(0))); len(made) != 1 {
		t.Errorf("shards: %v", made)
	}
	memoryData, c.Out = 0, filepath.Join(t.TempDir(), "closed")
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	ahead := tr.data.ahead
	must(t, tr.Close())
	select {
	case <-ahead.done:
	default:
		t.Error("a goroutine reads on although the data are unmapped")
	}
}
