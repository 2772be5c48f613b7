package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// ErrConfig reports a configuration that cannot be trained with.
var ErrConfig = errors.New("invalid training configuration")

// maxConfig is the largest configuration file in bytes.
const maxConfig = 1 << 20

// Config is a training run. Its JSON form is an object of the fields below,
// by their names there; a field that is left out has its default.
type Config struct {
	About string `json:"about"` // one line for people; nothing reads it
	// Model is a Hugging Face directory or a .gguf file. Its architecture,
	// tokenizer and, unless Init says otherwise, weights are the start. In JSON
	// "model" is this path or an object, which is Shape.
	Model string `json:"model"`
	// Shape describes a model that has no files yet; nil where Model is a path.
	Shape *Shape `json:"-"`
	// Init is "weights" (default of a path), or "random" (default of a Shape):
	// normal with deviation 0.02, projections into the residual stream scaled
	// by 1/sqrt(2*layers).
	Init string `json:"init"`
	// Data is one path or a list: text files (one document each), .jsonl with
	// "text" (one document per line), directories of both.
	Data List `json:"data"`
	// Truncate cuts examples that are longer than SeqLen; they are errors
	// otherwise. Texts are always cut into pieces.
	Truncate bool `json:"truncate"`
	// Out is the folder of checkpoints and logs.
	Out string `json:"out"`

	Steps       int `json:"steps"`        // optimizer steps in all: 1000
	BatchTokens int `json:"batch_tokens"` // most tokens of a step: 4096
	SeqLen      int `json:"seq_len"`      // most tokens of a sequence; 0 (default): what the model has, at most batch_tokens
	// MicroTokens is the most tokens of one run of the model; a step of more sums
	// the gradients of several runs. 0 (default): batch_tokens.
	MicroTokens int `json:"micro_tokens"`

	// Recompute saves memory: what layers compute is not kept for their gradients
	// but computed once more. false.
	Recompute bool `json:"recompute"`

	Optimizer   string  `json:"optimizer"`    // adamw (default) or sgd
	LR          float64 `json:"lr"`           // 3e-4
	MinLR       float64 `json:"min_lr"`       // where cosine, linear and wsd end: 0
	Warmup      int     `json:"warmup"`       // steps from 0 to lr: 0
	Schedule    string  `json:"schedule"`     // after warm-up: cosine (default), linear, constant, wsd
	DecaySteps  int     `json:"decay_steps"`  // last steps of wsd, in which the rate falls; 0 (default): a fifth of steps
	Betas       Betas   `json:"betas"`        // of adamw: [0.9, 0.95]
	Eps         float64 `json:"eps"`          // of adamw: 1e-8
	Momentum    float64 `json:"momentum"`     // of sgd: 0.9
	Nesterov    bool    `json:"nesterov"`     // of sgd: false
	WeightDecay float64 `json:"weight_decay"` // 0.1
	NoDecay     List    `json:"no_decay"`     // roles without weight decay: bias, norm
	Clip        float64 `json:"clip"`         // largest global norm of gradients: 1; 0: none
	// Dropout is the share of elements that are set to 0 in the input of the first
	// block, in what blocks add to the residual stream, and in attention weights: 0.
	Dropout        float64 `json:"dropout"`
	LabelSmoothing float64 `json:"label_smoothing"` // share that all labels get in equal parts: 0
	// SkipAbove skips the update of a step if its gradient norm exceeds this many
	// times the running average: 0, never. StopAbove ends the run in that case.
	SkipAbove float64 `json:"skip_above"`
	StopAbove float64 `json:"stop_above"`

	Validation ValidationConfig `json:"validation"`
	Sample     SampleConfig     `json:"sample"`

	Seed            uint64 `json:"seed"`             // of the order of data and of random weights: 1
	CheckpointEvery int    `json:"checkpoint_every"` // steps; 0 (default): at the end only
	Keep            int    `json:"keep"`             // newest checkpoints that stay: 2; 0: all

	// Objective is what the model is trained for: next tokens unless it says
	// otherwise.
	Objective ObjectiveConfig `json:"objective"`
	// LoRA trains small matrices beside weights that stay as they are.
	LoRA LoRAConfig `json:"lora"`
}

// ValidationConfig is the field validation: how the model is judged on data
// that it does not learn from.
type ValidationConfig struct {
	Data  List    `json:"data"`  // of its own, in the form of Config.Data
	Share float64 `json:"share"` // or the last share of the data, which is left out of training: 0
	// STS are pairs of texts with scores, Retrieval anchors with their positives,
	// for models that embed. Without them validation data of such a kind are taken.
	STS       List `json:"sts"`
	Retrieval List `json:"retrieval"`

	Every  int `json:"every"`  // steps between evaluations, and one at the end; 0 (default): at the end only
	Tokens int `json:"tokens"` // most tokens of an evaluation; 0 (default): all
	// Best is the figure that decides which checkpoint is the best: loss
	// (default), ppl, bpb, of which the lowest counts, or spearman, pearson, mrr,
	// ndcg10, of which the highest does.
	Best     string `json:"best"`
	KeepBest bool   `json:"keep_best"` // the best checkpoint stays: true
	Patience int    `json:"patience"`  // evaluations without a better figure after which the run ends; 0 (default): it does not
}

// SampleConfig is the field sample: texts that the model writes while it
// trains.
type SampleConfig struct {
	Every  int     `json:"every"`  // steps; 0 (default): never
	Prompt string  `json:"prompt"` // that texts begin with
	Tokens int     `json:"tokens"` // 100
	Temp   float64 `json:"temp"`   // temperature: 0.8
}

// List is one string or a list of them.
type List []string

// UnmarshalJSON reads a string or a list of strings.
func (l *List) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = List{one}
		return nil
	}
	var list []string
	if json.Unmarshal(data, &list) != nil {
		return errors.New("expected a string or a list of strings")
	}
	*l = list
	return nil
}

// MarshalJSON writes a list, an empty one where there is nothing.
func (l List) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, l...)) }

// Betas are AdamW's two decay rates.
type Betas [2]float64

// UnmarshalJSON reads a list of exactly two numbers.
func (b *Betas) UnmarshalJSON(data []byte) error {
	var list []float64
	if json.Unmarshal(data, &list) != nil || len(list) != 2 {
		return errors.New("expected a list of two numbers")
	}
	*b = Betas(list)
	return nil
}

// DefaultConfig is a configuration with every default filled in.
func DefaultConfig() Config {
	return Config{
		Init: "weights", Steps: 1000, BatchTokens: 4096,
		Optimizer: "adamw", LR: 3e-4, Schedule: "cosine", Betas: Betas{0.9, 0.95}, Eps: 1e-8, Momentum: 0.9,
		WeightDecay: 0.1, NoDecay: List{"bias", "norm"}, Clip: 1,
		Seed: 1, Keep: 2, Validation: ValidationConfig{Best: "loss", KeepBest: true}, Sample: SampleConfig{Tokens: 100, Temp: 0.8},
	}
}

// MarshalJSON writes every field, in a form that ParseConfig reads back.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.fields()) }

// ReadConfig reads a configuration file, or the ready-made configuration of
// that name, replaces what sets ("lr=1e-3", "betas.1=0.99") say, and validates
// the result.
func ReadConfig(path string, sets []string) (Config, error) {
	data, err := readConfig(path)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(path, data, sets)
}

func readConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		if data, ok := ReadyMade(path); ok {
			return data, nil
		}
		if near := nearest(path, ReadyMadeNames(), nil); near != "" {
			return nil, fmt.Errorf("%w (did you mean the ready-made configuration %s?)", err, near)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("%s: expected a file of at most %d bytes: %w", path, maxConfig, ErrConfig)
	}
	return os.ReadFile(path)
}
