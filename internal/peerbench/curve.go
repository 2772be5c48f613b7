package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/shapes"
	"hotpath/internal/tensor"
)

// Curve names the rows of a group by the number of threads.
type Curve struct {
	Threads []int  `json:"threads"`
	Ceiling string `json:"ceiling"` // what hotpath is set against
}

const ours = "hotpath"

// onThreads names a runner.
func onThreads(name string, threads int) string {
	if threads == 1 {
		return name + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", name, threads)
}

// gainName names the row that sets hotpath's gain against that of a ceiling.
func gainName(ceiling string, threads int) string {
	return onThreads(ours+"'s gain of that of "+ceiling, threads)
}

// threadCounts are the powers of two up to a number, and that number.
func threadCounts(most int) (out []int) {
	for n := 1; n < most; n *= 2 {
		out = append(out, n)
	}
	return append(out, most)
}

// addWays adds one runner per number of threads, each based on one thread. base is
// the runner without its name and way.
func (g *Group) addWays(base Runner, name, kind, unit string, counts []int) {
	for _, n := range counts {
		r := base
		r.Name, r.Way, r.Unit = onThreads(name, n), fmt.Sprintf("%s=%d", kind, n), unit
		if n != counts[0] {
			r.Base = onThreads(name, counts[0])
		}
		g.Runners = append(g.Runners, r)
	}
}

// addCeiling adds what the machine does at most, and hotpath's gain against it.
func (g *Group) addCeiling(base Runner, c ceilingOf, counts []int) {
	base.Op, base.Limit = g.Works[0].Op, 0 // nothing to hold against the reference
	g.addWays(base, c.name, c.kind, c.unit, counts)
	for _, n := range counts[1:] {
		g.Gains = append(g.Gains, Gain{Name: gainName(c.name, n), Of: onThreads(ours, n), Over: onThreads(c.name, n)})
	}
}

// ceilingOf is a ceiling by its way.
type ceilingOf struct{ name, kind, unit string }

// computeCeilings are those of products, the one that auto computes in first.
func computeCeilings() []ceilingOf {
	fma := ceilingOf{"f32 FMA", "f32", "GFLOP/s"}
	if isa.Active() >= isa.AMX {
		return []ceilingOf{{"bf16 tiles", "bf16", "GFLOP/s"}, fma}
	}
	return []ceilingOf{fma}
}

// scaling is what hotpath gains from more threads, call by call beside what the
// machine does.
func (p place) scaling(model string, in inputs) Group {
	more := fmt.Sprintf("%d threads", p.threads)
	g := Group{
		Name: "threads", Title: "From 1 to " + more,
		Note: "all-MiniLM-L6-v2. One process alternates, call by call, between hotpath with 1 thread, hotpath with " + more + ", and a peak benchmark of 20 ms (operands in registers, operations over elapsed time) with as many. " +
			"One thread is measured on each core; its rate is the mean. A gain is the median ratio per turn. The last rows divide hotpath's gain by that of the peak, per turn.",
		Reference: p.reference(model), Inputs: in, Paired: true,
	}
	g.Works = []Work{p.onEachCore(scalingSeconds)}
	counts := slices.Compact([]int{1, p.threads})
	runner := p.hotpath("", model, floorBF16)
	g.addWays(runner, ours, "threads", "", counts)
	for _, c := range computeCeilings() {
		g.addCeiling(runner, c, counts)
	}
	return g
}

// scalingSeconds are some dozen turns of 1 and of 2 threads.
const scalingSeconds = 4

// onEachCore is embedding with one call per core and turn: one thread, of hotpath and
// of the ceiling, is on another core in each call. Cores differ 2.5 times in their
// speed at tiles, and where one thread was must not decide what more threads gain.
func (p place) onEachCore(seconds float64) Work {
	work := embed(32, 128, p.threads)
	work.Seconds, work.Cores = seconds, true
	return work
}

// besideEachOther puts each ceiling behind the work on as many threads. A core that
// computes in tiles may run at half its clock for a while: both then see the same.
func besideEachOther(runners []Runner, counts int) (out []Runner) {
	for i := range counts {
		out = append(out, runners[i], runners[counts+i])
	}
	return out
}

// steady is decode that is timed when it has gone on for a while. With 16 threads a token
// of Llama 1B takes 5.1 ms behind its prompt, and 3.8 ms some 100 tokens later, probably
// because caches fill with a part of the weights. The ceiling skips as many reads of all
// memory.
func steady(w Work) Work {
	w.Skip = 96
	return w
}

// curves are the groups of `make scale`: how each kind of work scales with threads,
// beside the scaling of its ceiling. They make their models themselves.
func (p place) curves() []Group {
	counts := threadCounts(p.threads)
	compute := computeCeilings()[0]
	llama, minilm, gpt2 := p.shape("llama-1b-q4_0.gguf"), p.shape("minilm"), p.shape("gpt2-train")
	makeLlama := func() error {
		return makeOnce(llama, func(path string) error { return shapes.Known["llama-1b"].WriteGGUF(path, tensor.Q4_0) })
	}
	group := func(name, title string, work Work, ceiling ceilingOf, r Runner, in inputs, making func() error) Group {
		g := Group{
			Name: "scale-" + name, Title: title, Asked: true, Make: making,
			Inputs: in, Paired: true, Works: []Work{work}, Curve: &Curve{Threads: counts, Ceiling: ceiling.name},
		}
		r.Op = work.Op
		g.addWays(r, ours, "threads", "", counts)
		g.addCeiling(r, ceiling, counts)
		g.Runners = besideEachOther(g.Runners, len(counts))
		return g
	}
	makeMiniLM := func() error { return makeOnce(minilm, writeDir("minilm")) }
	training := p.hotpath("", "", 0)
	training.Argv = []string{selfPath, "worker", "--train", gpt2}
	return []Group{
		group("decode", "Decode, Llama 1B Q4_0, one sequence", steady(decode(1)), ceilingOf{"memory reads", "reads", "GB/s"},
			p.hotpath("", llama, 0), inputs{Model: llama, Random: true}, makeLlama),
		group("prefill", fmt.Sprintf("Prefill of %d tokens, Llama 1B Q4_0", curvePrompt), prefill(curvePrompt, 1), compute,
			p.hotpath("", llama, 0), inputs{Model: llama, Random: true}, makeLlama),
		group("embed", "Embedding 32 texts of 128 tokens, MiniLM's shape", p.onEachCore(curveSeconds), compute,
			p.hotpath("", minilm, 0), inputs{Model: minilm, Random: true}, makeMiniLM),
		group("train", fmt.Sprintf("Training step of %d tokens, GPT-2 124M", curveTrained), Work{Name: "train", Op: "train", Texts: 1, Lengths: []int{1}, Reps: 1}, compute,
			training, inputs{}, func() error {
				return makeTraining(gpt2, "gpt2-124m", fmt.Sprintf("batch_tokens=%d", curveTrained), "warmup=10", "schedule=constant", "skip_above=0")
			}),
		p.modes(minilm, makeMiniLM),
	}
}

// modes sets the modes of sharing a batch against each other on all threads, with the
// usual runs and with runs of all tokens.
func (p place) modes(model string, making func() error) Group {
	g := Group{
		Name: "scale-modes", Title: "How all threads share 32 texts of 128 tokens, MiniLM's shape", Lead: "auto", Asked: true, Make: making,
		Inputs: inputs{Model: model, Random: true}, Works: []Work{embed(32, 128, 5)},
	}
	for _, r := range []struct {
		name  string
		flags []string
	}{
		{"auto", nil},
		{"coarse", []string{"--parallel", "coarse"}},
		{"fine", []string{"--parallel", "fine"}},
		{"fine, runs of 2,048 tokens", []string{"--parallel", "fine", "--batch-tokens", "2048"}},
		{"fine, runs of 4,096 tokens", []string{"--parallel", "fine", "--batch-tokens", "4096"}},
	} {
		runner := p.hotpath(r.name, model, 0, r.flags...)
		runner.Op = "embed"
		g.Runners = append(g.Runners, runner)
	}
	return g
}

const (
	curvePrompt  = 512
	curveTrained = 2048
	curveSeconds = 2 // of embedding in a round: some turns of few cores, one of many
)

func (p place) shape(name string) string { return filepath.Join(p.cache, "shapes", name) }

// writeDir makes a model of a shape, with a tokenizer and a text.
func writeDir(shape string) func(string) error {
	return func(path string) error {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return err
		}
		s := shapes.Known[shape]
		if err := s.WriteDir(path); err != nil {
			return err
		}
		return shapes.WriteText(path, s.Vocab(), textWords)
	}
}

// textWords are some texts for the command, which reads text.
const textWords = 1 << 15

// makeOnce makes what is not there. What is made in part is removed.
func makeOnce(path string, write func(path string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	part := path + ".part" // a program that is stopped leaves this
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := write(part); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return os.Rename(part, path)
}

// curve is the group's table by threads.
func (g *Result) curve() [][]string {
	c := g.Curve
	find := func(name string) *Row {
		i := slices.IndexFunc(g.Rows, func(r *Row) bool { return r.Runner == name })
		if i < 0 || len(g.Rows[i].Samples)+len(g.Rows[i].Gain) == 0 {
			return nil
		}
		return g.Rows[i]
	}
	out := [][]string{{"threads", "hotpath", "middle half", "speed-up", c.Ceiling, "middle half", "speed-up", "hotpath's speed-up of the ceiling's"}}
	for _, n := range c.Threads {
		row := []string{fmt.Sprint(n)}
		for _, name := range []string{ours, c.Ceiling} {
			r := find(onThreads(name, n))
			if r == nil {
				row = append(row, "not measured", "", "")
				continue
			}
			row = append(row, rateText(r.Median)+" "+r.Unit, rateText(r.Q1)+" to "+rateText(r.Q3), r.ratioText())
		}
		gain := ""
		if r := find(gainName(c.Ceiling, n)); r != nil {
			gain = r.ratioText()
		}
		out = append(out, append(row, gain))
	}
	return out
}
