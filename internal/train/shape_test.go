package train

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

const described = `{"model":{"architecture":"llama","d_model":32,"n_layers":2,"n_heads":4,"n_kv_heads":2,"context":64,"tokenizer":"char"},"data":"d.txt","out":"o"}`

func TestShapeIsRead(t *testing.T) {
	c, err := ParseConfig("c.json", []byte(described), []string{"model.d_ff=100", "model.rope_theta=500"})
	must(t, err)
	want := DefaultShape()
	want.DModel, want.NLayers, want.NHeads, want.NKVHeads, want.Context, want.Tokenizer, want.DFF, want.RopeTheta = 32, 2, 4, 2, 64, "char", 100, 500
	if c.Shape == nil || *c.Shape != want || c.Init != "random" || c.Model != "" {
		t.Errorf("shape %+v, init %s, want %+v", c.Shape, c.Init, want)
	}
	data, err := json.Marshal(c)
	must(t, err)
	if again, err := ParseConfig("c.json", data, nil); err != nil || *again.Shape != want {
		t.Errorf("%s reads back as %+v, %v", data, again.Shape, err)
	}
	if c, err = ParseConfig("c.json", []byte(described), []string{"model=m", "init=weights"}); err != nil || c.Shape != nil || c.Model != "m" {
		t.Errorf("a path in place of the description: %+v, %v", c, err)
	}
}

func TestShapeRefusals(t *testing.T) {
	for set, want := range map[string]string{
		"model.d_model=30":          "field model.d_model: expected a multiple of n_heads (4), such as 28 or 32, found 30",
		"model.d_model=0":           "field model.d_model: expected 1 to",
		"model.d_model=wide":        "field model.d_model: expected an integer, found \"wide\"",
		"model.hidden_size=64":      `unknown field model."hidden_size", did you mean model.d_model?`,
		"model.n_layer=1":           `did you mean model.n_layers?`,
		"model.n_heads=32":          "field model.n_heads: expected heads of an even size",
		"model.n_kv_heads=3":        "field model.n_heads: expected a multiple of n_kv_heads (3), such as 3 or 6, found 4",
		"model.n_layers=0":          "field model.n_layers",
		"model.context=0":           "field model.context",
		"model.context=1":           "field model.context: expected 2 to",
		"model.d_model=-32":         "field model.d_model: expected 1 to",
		"model.n_layers=1000000000": "field model.n_layers: expected 1 to",
		"model.d_ff=1099511627776":  "field model.d_ff: expected 0 to",
		"model.rope_theta=1e-320":   "field model.rope_theta: expected a positive number that fits 32 bits",
		"lora.rank=2":               "field lora: expected none for a model that is only described",
		`model={"architecture":"gpt2","d_model":30,"n_layers":1,"n_heads":4,"tokenizer":"char"}`:                "field model.d_model: expected a multiple of n_heads (4), such as 28 or 32, found 30",
		`model={"architecture":"gpt2","d_model":32,"n_layers":1,"n_heads":4,"n_kv_heads":1,"tokenizer":"char"}`: "field model.n_kv_heads: expected n_heads in this architecture, found 1",
		"seq_len=128":              "field model.context: expected at least seq_len (128), found 64",
		"model.architecture=lama":  `field model.architecture: expected one of bert, gpt2, llama (did you mean llama?), found "lama"`,
		"model.tokenizer=":         "field model.tokenizer",
		"model.rope_theta=0":       "field model.rope_theta",
		"init=weights":             `field init: expected "random" for a model that is only described`,
		"model.vocab=-1":           "field model.vocab",
		`model={"d_model":null}`:   "field model.d_model: expected a value, found null",
		`model={"d_model":9e9}`:    "field model.d_model",
		`model={"architecture":3}`: "field model.architecture: expected a string",
	} {
		_, err := ParseConfig("c.json", []byte(described), []string{set})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", set, err, want)
		}
	}
}

// A described model opens with every tensor that its architecture asks for, and
// has as many parameters as the published ones of its sizes.
func TestShapesOpen(t *testing.T) {
	tokens := testmodels.Dir(t, "gpt2")
	for name, c := range map[string]struct {
		shape  Shape
		params int64
	}{
		"gpt2": {Shape{Architecture: "gpt2", DModel: 40, NLayers: 2, NHeads: 5, Context: 240, Tied: true, RopeTheta: 1, Tokenizer: tokens},
			330*40 + 240*40 + 2*(2*2*40+40*160+160+160*40+40+4*40*40+4*40) + 2*40},
		"llama": {Shape{Architecture: "llama", DModel: 32, NLayers: 2, NHeads: 4, NKVHeads: 2, DFF: 96, Context: 64, RopeTheta: 1e4, Tokenizer: filepath.Join(tokens, "tokenizer.json")},
			2*330*32 + 32 + 2*(2*32+2*16*32+2*32*32+3*96*32)},
		"bert": {Shape{Architecture: "bert", DModel: 32, NLayers: 1, NHeads: 4, Context: 64, Tied: true, RopeTheta: 1, Tokenizer: testmodels.Dir(t, "bert")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, c.shape.validate(&Config{}))
			st, err := c.shape.open(t.Context(), nil, Options{})
			must(t, err)
			m, err := model.Open(st)
			must(t, err)
			if got := m.Config().ParamCount; c.params > 0 && got != c.params {
				t.Errorf("%d parameters, want %d", got, c.params)
			}
		})
	}
	s := Shape{Architecture: "llama", DModel: 32, NLayers: 1, NHeads: 4, Context: 64, RopeTheta: 1, Tokenizer: tokens}
	for _, vocab := range []int{329, 330 + padding + 1} {
		s.Vocab = vocab
		if _, err := s.open(t.Context(), nil, Options{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "field model.vocab: expected 330, as many tokens as") {
			t.Errorf("error %v of a table of %d rows for 330 tokens", err, vocab)
		}
	}
	s.Tokenizer = t.TempDir()
	if _, err := s.open(t.Context(), nil, Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "field model.tokenizer") {
		t.Errorf("error %v of a folder without a tokenizer", err)
	}
}

func TestGPT2Has124MParameters(t *testing.T) {
	c, err := ReadConfig("gpt2-124m", nil)
	must(t, err)
	s, err := c.Shape.complete(50257)
	must(t, err)
	_, dims, err := s.layout(nil)
	must(t, err)
	var n int64
	for _, d := range dims {
		n += int64(weights.Tensor{Dims: d}.Len())
	}
	if n != 124439808 {
		t.Errorf("%d parameters, want 124439808", n)
	}
}

// A described model trains, resumes from its checkpoint alone and is then what
// every command opens.
func TestDescribedModelTrains(t *testing.T) {
	c, err := ReadConfig("shakespeare-char", []string{"steps=20", "warmup=2", "data=" + testmodels.Dir(t, "shakespeare.txt"), "out=" + t.TempDir(), "model.n_layers=1"})
	must(t, err)
	be := cpuBackend(t, 2)
	var whole, parts losses
	_, err = Run(context.Background(), c, Options{Backend: be, OnStep: whole.add})
	must(t, err)
	if first, last := whole[0].Loss, whole[len(whole)-1].Loss; first < 3.5 || last > first-0.5 {
		t.Errorf("loss went from %g to %g", first, last)
	}
	c.Out = t.TempDir()
	stop := errors.New("enough")
	_, err = Run(context.Background(), c, Options{Backend: be, OnStep: func(s Step) error {
		must(t, parts.add(s))
		if s.Step == 7 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	res, err := Run(context.Background(), c, Options{Backend: be, Resume: "auto", OnStep: parts.add})
	must(t, err)
	if !slices.Equal(whole, parts) {
		t.Errorf("steps of a whole run and of a resumed one differ:\n%v\n%v", whole, parts)
	}
	st, err := weights.Open(res.Checkpoint)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	_, err = model.Open(st)
	must(t, err)
}

// A tokenizer that is learnt from the data goes with the model into checkpoints.
func TestTokenizerIsLearntFromTheData(t *testing.T) {
	sets := []string{"steps=2", "warmup=1", "batch_tokens=256", "model.vocab=300", "model.d_model=32", "model.n_layers=1", "model.n_heads=2",
		"data=" + testmodels.Dir(t, "shakespeare.txt")}
	c, err := ReadConfig("shakespeare-bpe", append(sets, "out="+t.TempDir()))
	must(t, err)
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	st, err := weights.Open(res.Checkpoint)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	m, err := model.Open(st)
	must(t, err)
	tok, err := m.Tokenizer()
	must(t, err)
	if tok.Size() != 300 || m.Config().Vocab != 300 {
		t.Errorf("%d tokens for a table of %d", tok.Size(), m.Config().Vocab)
	}
	if _, err := ReadConfig("shakespeare-bpe", append(sets, "model.vocab=0")); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "field model.vocab: expected the number of tokens to learn") {
		t.Errorf("error %v of a tokenizer without a size", err)
	}
}

func TestReadyMadeConfigsAreValid(t *testing.T) {
	for _, name := range ReadyMadeNames() {
		c, err := ReadConfig(name, nil)
		if err != nil {
			t.Error(err)
		} else if c.About == "" || strings.Contains(c.About, "\n") {
			t.Errorf("%s: about %q, expected one line", name, c.About)
		}
	}
	if _, err := ReadConfig("shakespere-char", nil); err == nil || !strings.Contains(err.Error(), "did you mean the ready-made configuration shakespeare-char?") {
		t.Errorf("error %v of a misspelt name", err)
	}
}

// The file of a tokenizer may have any name, and the file beside it that has the usual
// one does not stand in for it.
func TestTokenizerFileOfAnyName(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(testmodels.Dir(t, "llama"), "tokenizer.json"))
	must(t, err)
	path := write(t, dir, "mine.json", string(text))
	write(t, dir, "tokenizer.json", "{}")
	c := fixture(t, "llama")
	c.Model, c.Init, c.Steps, c.Warmup = "", "random", 1, 0
	c.Shape = &Shape{Architecture: "llama", DModel: 16, NLayers: 1, NHeads: 2, Context: 64, Tied: true, RopeTheta: 1e4, Tokenizer: path}
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	if kept, err := os.ReadFile(filepath.Join(res.Checkpoint, "tokenizer.json")); err != nil || string(kept) != string(text) {
		t.Errorf("the checkpoint has another tokenizer (%v)", err)
	}
}
