package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

// parallel is what info says about sharing work among threads.
type parallel struct {
	calib.Costs
	From       string      `json:"from"`
	File       string      `json:"file,omitempty"` // that keeps the figures
	Note       string      `json:"note,omitempty"` // why they are not what one might expect
	Thresholds []threshold `json:"thresholds"`
}

// threshold is what the figures mean for a model. 0 means never.
type threshold struct {
	Model       string         `json:"model"`
	ThreadsFrom int            `json:"threads_from_tokens"` // of one text, on a quiet machine
	CoarseFrom  map[string]int `json:"coarse_from_texts"`   // by their length in tokens
}

// examples are the models whose thresholds info gives: a small one with packed
// weights, a larger one that runs from the blocks of its file.
var examples = []struct {
	name string
	work calib.Work
}{
	{"22M encoder of floats", calib.Work{FLOPs: 21e6, Packed: 10.6e6, Barriers: 50}}, // all-MiniLM-L6-v2
	{"300M encoder in Q8_0", calib.Work{FLOPs: 210e6, Stored: 106e6, Barriers: 250}}, // EmbeddingGemma
}

// lengths of texts, in tokens, that thresholds are given for.
var lengths = []int{12, 40, 256}

// newThreshold finds where work changes its way.
func newThreshold(name string, c calib.Costs, w calib.Work) threshold {
	t := threshold{Model: name, ThreadsFrom: c.ThreadsFrom(w, engine.FineRunTokens), CoarseFrom: map[string]int{}}
	for _, n := range lengths {
		t.CoarseFrom[strconv.Itoa(n)] = c.CoarseFrom(w, n, engine.FineRunTokens, engine.CoarseRunTokens)
	}
	return t
}

// describeParallel finds the figures for a number of threads.
func describeParallel(ctx context.Context, threads int, anew bool) (*parallel, error) {
	f, err := calib.Find(ctx, threads, anew, func() (plan.Backend, error) {
		return engine.NewBackend("cpu", engine.BackendOptions{Threads: threads})
	})
	if err != nil {
		return nil, err
	}
	p := &parallel{Costs: f.Costs, From: f.From, File: f.File, Note: f.Note}
	for _, e := range examples {
		p.Thresholds = append(p.Thresholds, newThreshold(e.name, p.Costs, e.work))
	}
	return p, nil
}

// rows explain the figures, then what they mean.
func (p *parallel) rows() [][2]string {
	from := calib.Found{Costs: p.Costs, From: p.From, File: p.File, Note: p.Note}.String()
	if p.Workers < 2 {
		return [][2]string{{"parallel", "one thread: nothing to share"}, {"  figures", from}}
	}
	c := p.Costs
	rows := [][2]string{
		{"parallel", fmt.Sprintf("%d threads, %d at a time", c.Workers, c.Cores)},
		{"  figures", from},
		{"  waking all", fmt.Sprintf("%.1f us; a barrier %.2f us", c.Fork*1e6, c.Barrier*1e6)},
		{"  products", fmt.Sprintf("%.1f GFLOP/s a thread; a run fetches a million weights in %.0f us from panels, %.0f us from Q8_0", 1e-9/c.FLOP, c.Packed*1e12, c.Stored*1e12)},
		{"  fine", fmt.Sprintf("sharing each step, all do %.2f times the work of one", c.Fine)},
		{"  coarse", fmt.Sprintf("with texts of their own, %.2f times", c.Coarse)},
	}
	for _, t := range p.Thresholds {
		rows = append(rows, [2]string{"  auto", t.Model + ": " + t.words()})
	}
	return rows
}

// words say what auto does with batches of a model.
func (t threshold) words() string {
	s := "threads do not pay for a single text"
	if t.ThreadsFrom > 0 {
		s = fmt.Sprintf("threads pay from %d tokens", t.ThreadsFrom)
	}
	var parts []string
	for _, n := range lengths {
		from := "never"
		if v := t.CoarseFrom[strconv.Itoa(n)]; v > 0 {
			from = fmt.Sprintf("from %d", v)
		}
		parts = append(parts, fmt.Sprintf("%s texts of %d", from, n))
	}
	return s + "; coarse " + strings.Join(parts, ", ")
}
