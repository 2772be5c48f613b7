package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// An evaluation gives what scoring the same texts with the checkpoint gives,
// whatever dropout and accumulation training has, and changes nothing.
func TestEvaluationMatchesScores(t *testing.T) {
	page, err := os.ReadFile(testmodels.Dir(t, "shakespeare.txt"))
	must(t, err)
	text := string(page[:400])
	file := filepath.Join(t.TempDir(), "valid.txt")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	for name, change := range map[string]func(c *Config){
		"plain":       func(*Config) {},
		"regularized": func(c *Config) { c.Dropout, c.LabelSmoothing = 0.4, 0.2 },
		"accumulated": func(c *Config) { c.MicroTokens = 48 },
	} {
		t.Run(name, func(t *testing.T) {
			be := cpuBackend(t, 2)
			c := fixture(t, "llama")
			c.Steps, c.Validation.Data, c.Validation.Every = 4, List{file}, 2
			change(&c)
			var seen losses
			res, err := Run(t.Context(), c, Options{Backend: be, OnStep: seen.add})
			must(t, err)
			st, err := weights.Open(res.Checkpoint)
			must(t, err)
			defer func() { must(t, st.Close()) }()
			m, err := model.Open(st)
			must(t, err)
			tok, err := m.Tokenizer()
			must(t, err)
			e, err := engine.Open(m, be, engine.Options{})
			must(t, err)
			defer func() { must(t, e.Close()) }()
			ids := tok.Encode(nil, text, tokenizer.Options{Special: true}, &tokenizer.Scratch{})
			if eos, ok := tok.EOS(); ok {
				ids = append(ids, eos)
			}
			var sum float64
			n := 0
			for at := 0; at < len(ids)-1; at += c.SeqLen {
				nll, err := e.ScoreIDs(t.Context(), [][]int32{ids[at:min(at+c.SeqLen+1, len(ids))]})
				must(t, err)
				for _, v := range nll[0] {
					sum += float64(v)
					n++
				}
			}
			got := seen[3].Eval
			if !got.Done || math.Abs(got.Loss-sum/float64(n)) > 1e-4 {
				t.Errorf("validation loss %g, scores say %g", got.Loss, sum/float64(n))
			}
			if want := sum / math.Ln2 / float64(len(text)-len(tok.Decode(ids[:1], true))); math.Abs(got.BitsPerByte-want) > 0.02*want {
				t.Errorf("%g bits per byte, want about %g", got.BitsPerByte, want)
			}
			if seen[0].Eval.Done || !seen[1].Eval.Done || got.Perplexity() != math.Exp(got.Loss) {
				t.Errorf("evaluations %v", seen)
			}
			// The same run without evaluations takes the same steps.
			c.Out, c.Validation = t.TempDir(), ValidationConfig{}
			var plain losses
			_, err = Run(t.Context(), c, Options{Backend: be, OnStep: plain.add})
			must(t, err)
			for i := range seen {
				seen[i].Eval = Evaluation{}
			}
			if !slices.Equal(seen, plain) {
				t.Errorf("evaluations change the run:\n%v\n%v", seen, plain)
			}
		})
	}
}

// What is held out is not learnt from.
func TestSplitKeepsTheEndApart(t *testing.T) {
	var all []Example
	for i := range 10 {
		all = append(all, Example{Seqs: []Sequence{{IDs: []int32{int32(i), int32(i)}}}})
	}
	s, err := NewMemory(Text, all)
	must(t, err)
	a, b, err := split(s, 0.25)
	must(t, err)
	var e Example
	must(t, b.Example(0, &e))
	if a.Stats().Examples != 7 || b.Stats().Examples != 3 || a.Stats().Tokens != 14 || b.Stats().Tokens != 6 || e.Seqs[0].IDs[0] != 7 {
		t.Errorf("stats %+v and %+v, the first held out is %v", a.Stats(), b.Stats(), e.Seqs[0].IDs)
	}
	if a.Fingerprint() == s.Fingerprint() || a.Fingerprint() == b.Fingerprint() {
		t.Error("parts have the fingerprint of something else")
	}
	if _, _, err := split(s, 0.99); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "validation.share") {
		t.Errorf("error %v of a share that leaves nothing", err)
	}
}

// The best checkpoint stays beside the newest, and a run whose loss rises ends.
func TestBestCheckpointStays(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.CheckpointEvery, c.Keep, c.Warmup, c.Schedule = 40, 1, 1, 0, "constant"
	c.LR = 0.05 // it overfits what is left of the page, soon
	c.Validation.Share, c.Validation.Every, c.Validation.Patience = 0.3, 1, 4
	var seen losses
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: seen.add})
	must(t, err)
	low := slices.MinFunc(seen, func(a, b Step) int {
		if a.Eval.Loss < b.Eval.Loss {
			return -1
		}
		return 1
	})
	steps, err := checkpoints(c.Out)
	must(t, err)
	if !res.Early || res.Best != low.Step || res.Steps != low.Step+4 || !slices.Equal(steps, []int{low.Step, res.Steps}) {
		t.Errorf("result %+v, checkpoints %v, the lowest loss is of step %d", res, steps, low.Step)
	}
	text, err := os.ReadFile(filepath.Join(c.Out, bestFile))
	must(t, err)
	if want := `"checkpoint":"` + filepath.Base(checkpointDir(c.Out, low.Step)) + `"`; !strings.Contains(string(text), want) {
		t.Errorf("%s says %s, want %s", bestFile, text, want)
	}
	// Resuming a run that ended early makes no step, unless it has more patience.
	again, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), Resume: "auto"})
	must(t, err)
	if !again.Early || again.Steps != res.Steps || again.Tokens != 0 || again.Best != low.Step {
		t.Errorf("resumed after its end: %+v", again)
	}
	c.Validation.Patience++
	again, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), Resume: "auto"})
	must(t, err)
	if again.Steps <= res.Steps {
		t.Errorf("resumed with more patience: %+v", again)
	}
}

func TestSamples(t *testing.T) {
	c := fixture(t, "llama")
	c.Sample.Every, c.Sample.Prompt, c.Sample.Tokens = 5, "First", 8
	var steps []int
	write := func(step int, text string) error {
		steps = append(steps, step)
		if !strings.HasPrefix(text, "First") || len(text) <= len("First") {
			t.Errorf("step %d: %q", step, text)
		}
		return nil
	}
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnSample: write})
	must(t, err)
	if !slices.Equal(steps, []int{5, 10}) {
		t.Errorf("samples after steps %v", steps)
	}
}

// A sample is of the weights as they are, not as the file has them.
func TestSamplesAreOfTheWeightsNow(t *testing.T) {
	t.Run("all", func(t *testing.T) { samplesNow(t, LoRAConfig{}) })
	t.Run("lora", func(t *testing.T) { samplesNow(t, LoRAConfig{Rank: 4, Roles: []string{"q", "v", "down"}}) })
}

func samplesNow(t *testing.T, lora LoRAConfig) {
	c := fixture(t, "llama")
	c.LoRA = lora
	c.Sample.Prompt, c.Sample.Tokens, c.Sample.Temp, c.LR = "First Citizen", 12, 0, 1e-2
	c.Steps, c.BatchTokens, c.SeqLen = 20, 512, 64
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	before, err := tr.generate(t.Context(), &tr.cfg.Sample)
	must(t, err)
	for range 20 {
		_, err := tr.Step(context.Background())
		must(t, err)
	}
	after, err := tr.generate(t.Context(), &tr.cfg.Sample)
	must(t, err)
	dir, err := tr.Save(t.Context())
	must(t, err)
	st, err := weights.Open(dir)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	m, err := model.Open(st)
	must(t, err)
	tr.runner.model, tr.runner.parts = m, &model.TrainParts{} // as it was saved
	saved, err := tr.generate(t.Context(), &tr.cfg.Sample)
	must(t, err)
	if before == after || after != saved {
		t.Errorf("before %q, after %q, saved %q", before, after, saved)
	}
}
