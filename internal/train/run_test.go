package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
	"hotpath/profile"
	"hotpath/profile/report"
)

// fixture is a short run over a page of Shakespeare.
func fixture(t testing.TB, name string) Config {
	t.Helper()
	c := DefaultConfig()
	c.Model, c.Data = testmodels.Dir(t, name), []string{testmodels.Dir(t, "shakespeare.txt")}
	c.Out = t.TempDir()
	c.Steps, c.BatchTokens, c.SeqLen, c.LR, c.Warmup = 10, 96, 32, 3e-3, 3
	return c
}

// openRunner compiles a task and opens it.
func openRunner(ctx context.Context, m *model.Model, o Options, k task, most tensor.Bind) (*runner, error) {
	c, err := compile(m, o.Backend, k, most)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, o)
}

// losses collects what OnStep sees.
type losses []Step

func (l *losses) add(s Step) error {
	s.Elapsed, s.Left, s.MFU = 0, 0, 0
	*l = append(*l, s)
	return nil
}

func TestResumeIsExact(t *testing.T) {
	for _, name := range []string{"llama", "gpt2", "gguf/llama-q8_0.gguf", "gguf/gpt2-f16.gguf"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			be := cpuBackend(t, 2)
			var whole, parts losses
			c := fixture(t, name)
			res, err := Run(context.Background(), c, Options{Backend: be, OnStep: whole.add})
			must(t, err)

			// The second run dies in step 8, having saved step 5.
			c2 := c
			c2.Out, c2.CheckpointEvery = t.TempDir(), 5
			tr, err := New(t.Context(), c2, Options{Backend: be})
			must(t, err)
			for i := range 7 {
				s, err := tr.Step(context.Background())
				must(t, err)
				if i < 5 {
					must(t, parts.add(s))
				}
				if i == 4 {
					_, err := tr.Save(context.Background())
					must(t, err)
				}
			}
			must(t, tr.Close())
			must(t, os.MkdirAll(filepath.Join(c2.Out, tempPrefix+"step-00000008"), 0o777))
			c2.Model = filepath.Join(t.TempDir(), "gone") // the checkpoint has all that is needed
			res2, err := Run(context.Background(), c2, Options{Backend: be, Resume: "auto", OnStep: parts.add})
			must(t, err)

			if !slices.Equal(whole, parts) {
				t.Errorf("steps of a whole run and of a resumed one differ:\n%v\n%v", whole, parts)
			}
			files, err := os.ReadDir(res.Checkpoint)
			must(t, err)
			if len(files) < 2 {
				t.Errorf("the checkpoint has only %v", files)
			}
			for _, f := range files {
				if f.Name() == configFile {
					continue // out and checkpoint_every are others
				}
				a, err := os.ReadFile(filepath.Join(res.Checkpoint, f.Name()))
				must(t, err)
				b, err := os.ReadFile(filepath.Join(res2.Checkpoint, f.Name()))
				must(t, err)
				if !bytes.Equal(a, b) {
					t.Errorf("%s differs after a resume", f.Name())
				}
			}
			for _, log := range []string{"log.jsonl", "log.csv"} {
				data, err := os.ReadFile(filepath.Join(c2.Out, log))
				must(t, err)
				want := c.Steps
				if log == "log.csv" {
					want++ // its header
				}
				if n := bytes.Count(data, []byte("\n")); n != want {
					t.Errorf("%s has %d lines, want %d:\n%s", log, n, want, data)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(c2.Out, ".tmp*")); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestCheckpointIsAModel(t *testing.T) {
	c := fixture(t, "gpt2")
	c.Init = "random"
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	_, err = tr.Step(context.Background())
	must(t, err)
	dir, err := tr.Save(context.Background())
	must(t, err)
	st, err := weights.Open(dir)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	m, err := model.Open(st)
	must(t, err)
	if _, err := m.Tokenizer(); err != nil {
		t.Error(err)
	}
	for _, p := range tr.runner.parts.Params {
		w, err := m.Weight(p.Key)
		must(t, err)
		f, err := w.F32()
		must(t, err)
		if !slices.Equal(f, read(t, tr.runner, p.Value)) {
			t.Errorf("%s is another in the checkpoint", p.Key)
		}
	}
}

func TestOverfitsAPage(t *testing.T) {
	c := fixture(t, "llama")
	c.Init, c.Steps, c.BatchTokens, c.SeqLen, c.LR, c.Warmup, c.WeightDecay = "random", 150, 512, 64, 1e-2, 10, 0
	var seen losses
	_, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, 1), OnStep: seen.add})
	must(t, err)
	first, last := seen[0].Loss, seen[len(seen)-1].Loss
	t.Logf("loss %.3f to %.3f", first, last)
	if first < 5 || last > 0.2 {
		t.Errorf("loss went from %g to %g, want it from above 5 to below 0.2", first, last)
	}
}

func TestCancelSaves(t *testing.T) {
	c := fixture(t, "llama")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	res, err := Run(ctx, c, Options{Backend: cpuBackend(t, 2), OnStep: func(s Step) error {
		if s.Step == 3 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || res == nil || res.Steps != 3 {
		t.Fatalf("result %+v, error %v, want three steps and a cancellation", res, err)
	}
	if st, err := readState(res.Checkpoint); err != nil || st.Step != 3 {
		t.Errorf("checkpoint %q: %+v, %v", res.Checkpoint, st, err)
	} else if err := st.close(); err != nil {
		t.Error(err)
	}
	broken := errors.New("enough")
	res, err = Run(context.Background(), c, Options{Backend: cpuBackend(t, 2), Resume: "auto", OnStep: func(Step) error { return broken }})
	if !errors.Is(err, broken) || res.Steps != 4 || res.Checkpoint == "" {
		t.Errorf("result %+v, error %v, want the callback's after step 4", res, err)
	}
}

func TestKeepsTheNewest(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.CheckpointEvery, c.Keep = 7, 2, 2
	res, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	steps, err := checkpoints(c.Out)
	must(t, err)
	if !slices.Equal(steps, []int{6, 7}) || res.Checkpoint != checkpointDir(c.Out, 7) {
		t.Errorf("checkpoints of steps %v, the last %s", steps, res.Checkpoint)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	tr, err := New(t.Context(), fixture(t, "llama"), Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	step := func() {
		if _, err := tr.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(30, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// What the stamps leave out would be missing in every step; a busy machine
// disturbs some. So the best quarter of many steps is what counts.
func TestLedgerCloses(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs are those of the race detector, whose own work lies between the stamps")
	}
	c := fixture(t, "llama")
	c.BatchTokens, c.SeqLen, c.Steps = 512, 64, 40
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	var residuals []float64
	for range c.Steps {
		rec := profile.NewRecorder(profile.Options{})
		must(t, tr.runner.sess.Attach(rec, plan.ProfileLabels{}))
		_, err := tr.Step(context.Background())
		must(t, err)
		must(t, rec.Err())
		l := rec.Snapshot().Ledger
		if l.Runs != 1 || l.Compute == 0 {
			t.Fatalf("ledger %+v of one step", l)
		}
		residuals = append(residuals, math.Abs(l.ResidualPercent()))
	}
	slices.Sort(residuals)
	if r := residuals[len(residuals)/4]; r > 2 {
		t.Errorf("residual of %.2f%% in the best quarter of the steps, want less than 2%%", r)
	}
}

func TestRunIsProfiled(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	c := fixture(t, "llama")
	_, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, 2), Recorder: rec})
	must(t, err)
	p := rec.Snapshot()
	if len(p.Plans) != 1 || p.Plans[0].Ledger.Runs != int64(c.Steps) || p.Plans[0].Phase != "train" {
		t.Errorf("plans %+v, want one of %d runs", p.Plans, c.Steps)
	}
	var stages []string
	var steps int64
	for _, g := range p.ByStage() {
		stages = append(stages, g.Name)
		steps += g.LaneTime
	}
	if !slices.Equal(stages, []string{"forward", "loss", "backward", "optimizer"}) || steps != p.Ledger.Compute {
		t.Errorf("stages %v have %d of %d ns of compute", stages, steps, p.Ledger.Compute)
	}
	var text bytes.Buffer
	must(t, report.Text(&text, p, report.Options{}))
	for _, want := range []string{"BY STAGE", "\n  data ", "\n  optimizer ", "\n  checkpoint ", "\n  step ", "\n  epoch "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the report", want)
		}
	}
	calls := map[string]int64{}
	for _, s := range p.Scopes {
		calls[s.Name] = s.Calls
	}
	if calls["prepare"] != 1 || calls["read data"] != 1 || calls["first weights"] != 1 {
		t.Errorf("scopes %v, want what comes before the first step", calls)
	}
	if n := int64(c.Steps); calls["data"] != n || calls["step"] != n || calls["run"] != n || calls["checkpoint"] != 1 || calls["epoch"] < 1 {
		t.Errorf("scopes %v, want %d batches, steps and runs, epochs and a checkpoint", calls, n)
	}
	// The ops of a run lie inside of its scopes, in the tree as in the stacks.
	node, path := p.Tree(), []string{"epoch", "step", "run"}
	for _, name := range path {
		at := slices.IndexFunc(node.Children, func(c *profile.TreeNode) bool { return c.Kind == "scope" && c.Name == name })
		if at < 0 {
			t.Fatalf("no scope %s of %v in the tree", name, path)
		}
		if outer := node; outer.FLOPs != outer.Children[at].FLOPs {
			t.Errorf("scope %s has %d of %d FLOPs", name, outer.Children[at].FLOPs, outer.FLOPs)
		}
		node = node.Children[at]
	}
	if len(node.Children) < 3 {
		t.Errorf("%d nodes inside of the scopes", len(node.Children))
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	c := fixture(t, "llama")
	c.LR, c.Clip, c.Warmup, c.Schedule = 1e30, 0, 0, "constant"
	_, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, 1)})
	if !errors.Is(err, ErrDiverged) {
		t.Errorf("error %v, want ErrDiverged", err)
	}
}

func TestPlanSaysWhatIsToCome(t *testing.T) {
	c := fixture(t, "llama")
	e, err := Plan(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	const params = 2*330*32 + 32 + 2*(2*32+2*64*32+2*32*32+3*96*32)
	if e.Parameters != params || e.Documents != 1 || e.Batch.T != 96 {
		t.Errorf("plan %+v, want %d parameters", e, params)
	}
	// Forward and backward of every matrix that is no table: 6 a weight and token.
	least := int64(6 * 96 * (params - 330*32))
	if e.FLOPs < least || e.FLOPs > 2*least {
		t.Errorf("%d FLOPs a step, want %d and something", e.FLOPs, least)
	}
	if e.Measured < 1 || e.Measured > measuredSteps || e.StepTime <= 0 || e.Time != time.Duration(c.Steps)*e.StepTime {
		t.Errorf("%v per step, the median of %d, %v in all", e.StepTime, e.Measured, e.Time)
	}
	if state := e.Memory[plan.State.String()]; state < 3*4*params {
		t.Errorf("%d bytes of state for %d parameters", state, params)
	}
	if files, _ := os.ReadDir(c.Out); len(files) != 0 {
		t.Errorf("planning wrote %v", files)
	}
	for _, want := range []string{"parameters", "memory, state", "FLOPs per step", "FLOPs per token", "time per step", "time of the run"} {
		if !strings.Contains(e.String(), want) {
			t.Errorf("no %q in:\n%s", want, e)
		}
	}
}

// A step of several runs costs as much per token as one of one run.
func TestPlanOfSeveralRuns(t *testing.T) {
	c := fixture(t, "llama")
	perToken := func(micro int) float64 {
		c.MicroTokens = micro
		e, err := Plan(t.Context(), c, Options{Backend: cpuBackend(t, 1), Memory: 1})
		must(t, err)
		if want := max(1, 96/max(micro, 1)); micro > 0 && e.Runs != want || e.Epochs < float64(c.Steps*96)/float64(e.Tokens) {
			t.Errorf("%d runs and %g epochs, want %d runs", e.Runs, e.Epochs, want)
		}
		var cost float64
		for line := range strings.Lines(e.String()) {
			if text, ok := strings.CutPrefix(line, "FLOPs per token"); ok {
				_, err := fmt.Sscan(text, &cost)
				must(t, err)
			}
		}
		return cost
	}
	// The optimizer's part is counted once per run.
	if one, three := perToken(0), perToken(32); one == 0 || three < one || three > 2*one {
		t.Errorf("%g FLOPs per token in three runs, %g in one", three, one)
	}
}

// Where memory is short no step is made, and the time is said to be unknown.
func TestPlanWithoutMemory(t *testing.T) {
	e, err := Plan(t.Context(), fixture(t, "llama"), Options{Backend: cpuBackend(t, 1), Memory: 1 << 10})
	must(t, err)
	if e.Measured != 0 || e.Time != 0 || !strings.Contains(e.String(), "unknown: the run wants") {
		t.Errorf("%+v: %s", e, e)
	}
}

// A run that wants more memory than there is ends before it takes any of it: of
// a described model before its largest weight is made.
func TestRunWithoutMemory(t *testing.T) {
	for what, change := range map[string]func(c *Config){
		"a small model": func(*Config) {},
		"a described one": func(c *Config) {
			shape := DefaultShape()
			shape.DModel, shape.NLayers, shape.NHeads, shape.DFF, shape.Tokenizer = maxWidth, maxLayers, 64, 1<<20, c.Model
			c.Model, c.Shape, c.Init = "", &shape, "random"
		},
	} {
		c := fixture(t, "llama")
		c.Out = filepath.Join(t.TempDir(), "out")
		change(&c)
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Memory: 1 << 10})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "GiB are free") {
			t.Errorf("%s: error %v", what, err)
		}
		if _, err := os.Stat(c.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder stays: %v", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	be := cpuBackend(t, 1)
	done := fixture(t, "llama")
	done.Steps, done.Warmup = 1, 0
	res, err := Run(context.Background(), done, Options{Backend: be})
	must(t, err)
	empty := filepath.Join(t.TempDir(), "empty.txt")
	must(t, os.WriteFile(empty, nil, 0o644))
	for name, c := range map[string]struct {
		change func(c *Config)
		resume string
		want   string
		is     error
	}{
		"out taken":         {func(c *Config) {}, "", "checkpoint of step 1", ErrConfig},
		"encoder":           {func(c *Config) { c.Out, c.Model = t.TempDir(), testmodels.Dir(t, "bert") }, "", "cannot be trained", ErrConfig},
		"long":              {func(c *Config) { c.Out, c.BatchTokens, c.SeqLen = t.TempDir(), 4096, 4096 }, "", "seq_len", ErrConfig},
		"no data":           {func(c *Config) { c.Out, c.Data = t.TempDir(), []string{"missing.txt"} }, "", "missing.txt", os.ErrNotExist},
		"empty data":        {func(c *Config) { c.Out, c.Data = t.TempDir(), []string{empty} }, "", "no text to learn from", ErrData},
		"model is no model": {func(c *Config) { c.Out, c.Model = t.TempDir(), c.Data[0] }, "", "field model: ", weights.ErrNotModel},
		"no regular file":   {func(c *Config) { c.Out, c.Data = t.TempDir(), []string{os.DevNull} }, "", "regular file", ErrData},
		"other seed":        {func(c *Config) { c.Seed++ }, "auto", "seed", ErrCheckpoint},
		"other cut":         {func(c *Config) { c.SeqLen++ }, "auto", "seq_len", ErrCheckpoint},
		"other data":        {func(c *Config) { c.Data = append(c.Data, c.Data[0]) }, "auto", "data", ErrCheckpoint},
		"no such":           {func(c *Config) {}, "nowhere", "nowhere", ErrCheckpoint},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := done
			cfg.Data = slices.Clone(cfg.Data)
			c.change(&cfg)
			_, err := New(t.Context(), cfg, Options{Backend: be, Resume: c.resume})
			if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %v with %q", err, c.is, c.want)
			}
		})
	}
	// A fork goes on elsewhere, not among the checkpoints of what came after.
	more := done
	more.Steps = 2
	_, err = Run(context.Background(), more, Options{Backend: be, Resume: "auto"})
	must(t, err)
	if _, err := New(t.Context(), more, Options{Backend: be, Resume: res.Checkpoint}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "checkpoint of step 2") {
		t.Errorf("error %v of a fork in the same folder", err)
	}
	more.Out = t.TempDir()
	fork, err := Run(context.Background(), more, Options{Backend: be, Resume: res.Checkpoint})
	if err != nil || fork.Steps != 2 {
		t.Errorf("a fork elsewhere: %+v, %v", fork, err)
	}
	done.Out = t.TempDir()
	// A run that is complete has nothing to do.
	res2, err := Run(context.Background(), done, Options{Backend: be, Resume: res.Checkpoint})
	if err != nil || res2.Steps != 1 || res2.Tokens != 0 {
		t.Errorf("resuming a complete run: %+v, %v", res2, err)
	}
}
