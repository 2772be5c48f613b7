package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrConfig reports a configuration that cannot be trained with.
var ErrConfig = errors.New("invalid training configuration")

// maxConfig is the largest configuration file in bytes.
const maxConfig = 1 << 20

// Config is a training run. Its JSON form is an object of the fields below,
// by their names there; what is left out has the default.
type Config struct {
	// Model is a Hugging Face directory or a .gguf file. Its architecture,
	// tokenizer and, unless Init says otherwise, weights are the start.
	Model string `json:"model"`
	// Init is "weights" (default), or "random": normal with deviation 0.02,
	// projections into the residual stream scaled by 1/sqrt(2*layers).
	Init string `json:"init"`
	// Data is one path or a list: text files (one document each), .jsonl with
	// "text" (one document a line), directories of both.
	Data []string `json:"data"`
	// Out is the folder of checkpoints and logs.
	Out string `json:"out"`

	Steps       int `json:"steps"`        // optimizer steps in all: 1000
	BatchTokens int `json:"batch_tokens"` // most tokens of a step: 4096
	SeqLen      int `json:"seq_len"`      // most tokens of a sequence; 0 (default): what the model has, at most batch_tokens
	// MicroTokens is the most tokens of one run of the model; a step of more sums
	// the gradients of several runs. 0 (default): batch_tokens.
	MicroTokens int `json:"micro_tokens"`

	LR          float64    `json:"lr"`           // 3e-4
	MinLR       float64    `json:"min_lr"`       // where cosine and linear end: 0
	Warmup      int        `json:"warmup"`       // steps from 0 to lr: 0
	Schedule    string     `json:"schedule"`     // after warm-up: cosine (default), linear, constant
	Betas       [2]float64 `json:"betas"`        // [0.9, 0.95]
	Eps         float64    `json:"eps"`          // 1e-8
	WeightDecay float64    `json:"weight_decay"` // on matrices: 0.1
	Clip        float64    `json:"clip"`         // largest global norm of gradients: 1; 0: none

	Seed            uint64 `json:"seed"`             // of the order of data and of random weights: 1
	CheckpointEvery int    `json:"checkpoint_every"` // steps; 0 (default): at the end only
	Keep            int    `json:"keep"`             // checkpoints that stay: 2; 0: all

	// Objective is what the model is trained for: next tokens unless it says
	// otherwise.
	Objective ObjectiveConfig `json:"objective"`
	// LoRA trains small matrices beside weights that stay as they are.
	LoRA LoRAConfig `json:"lora"`
}

// paths is one path or a list of them.
type paths []string

// UnmarshalJSON reads a string or a list of strings.
func (p *paths) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = paths{one}
		return nil
	}
	var list []string
	if json.Unmarshal(data, &list) != nil {
		return errors.New("expected a path or a list of paths")
	}
	*p = list
	return nil
}

// betas are AdamW's two decay rates.
type betas [2]float64

// UnmarshalJSON reads a list of exactly two numbers.
func (b *betas) UnmarshalJSON(data []byte) error {
	var list []float64
	if json.Unmarshal(data, &list) != nil || len(list) != 2 {
		return errors.New("expected a list of two numbers")
	}
	*b = betas(list)
	return nil
}

// DefaultConfig is a configuration with every default filled in.
func DefaultConfig() Config {
	return Config{
		Init: "weights", Steps: 1000, BatchTokens: 4096,
		LR: 3e-4, Schedule: "cosine", Betas: [2]float64{0.9, 0.95}, Eps: 1e-8, WeightDecay: 0.1, Clip: 1,
		Seed: 1, Keep: 2,
	}
}

// fields are the JSON fields of a configuration and where each is kept.
func (c *Config) fields() map[string]any {
	return map[string]any{
		"model": &c.Model, "init": &c.Init, "data": (*paths)(&c.Data), "out": &c.Out,
		"steps": &c.Steps, "batch_tokens": &c.BatchTokens, "seq_len": &c.SeqLen, "micro_tokens": &c.MicroTokens,
		"lr": &c.LR, "min_lr": &c.MinLR, "warmup": &c.Warmup, "schedule": &c.Schedule,
		"betas": (*betas)(&c.Betas), "eps": &c.Eps, "weight_decay": &c.WeightDecay, "clip": &c.Clip,
		"seed": &c.Seed, "checkpoint_every": &c.CheckpointEvery, "keep": &c.Keep,
		"objective": &c.Objective, "lora": &c.LoRA,
	}
}

// ReadConfig reads a configuration file, replaces what sets ("lr=1e-3",
// "betas.1=0.99") say, and validates the result.
func ReadConfig(path string, sets []string) (Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Config{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return Config{}, fmt.Errorf("%s: expected a file of at most %d bytes: %w", path, maxConfig, ErrConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(path, data, sets)
}

// ParseConfig is ReadConfig of bytes; file is for errors.
func ParseConfig(file string, data []byte, sets []string) (Config, error) {
	c := DefaultConfig()
	if !utf8.Valid(data) { // the decoder would put other letters into a path
		return c, fmt.Errorf("%s: expected UTF-8: %w", file, ErrConfig)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return c, fmt.Errorf("%s: expected a JSON object of fields: %v: %w", file, err, ErrConfig)
	}
	to := c.fields()
	if err := override(raw, to, sets); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if to[name] == nil {
			return c, fmt.Errorf("%s: unknown field %.*q, expected one of %s: %w",
				file, maxShown, name, strings.Join(slices.Sorted(maps.Keys(to)), ", "), ErrConfig)
		}
		if string(bytes.TrimSpace(raw[name])) == "null" { // which the decoder takes for nothing
			return c, fmt.Errorf("%s: field %s: expected a value, found null: %w", file, name, ErrConfig)
		}
		if err := json.Unmarshal(raw[name], to[name]); err != nil {
			return c, fmt.Errorf("%s: field %s: %s: %w", file, name, reason(err), ErrConfig)
		}
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// reason says what was expected without the decoder's own vocabulary.
func reason(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("expected a value of type %s, found %.*s", wrong.Type, maxShown, wrong.Value)
	}
	return err.Error()
}

// Validate says what is wrong with the first field that is.
func (c *Config) Validate() error {
	// The optimizer computes with 32 bits: 1e300 would be infinite there, and an
	// eps of 1e-300 would be 0.
	held := func(f float64) bool {
		return math.Abs(f) <= math.MaxFloat32 && (f == 0) == (float32(f) == 0)
	}
	rate := func(b float64) bool { return b >= 0 && float32(b) < 1 && held(b) }
	for _, f := range []struct {
		name string
		ok   bool
		want string
		got  any
	}{
		{"model", c.Model != "", "a path", c.Model},
		{"init", c.Init == "weights" || c.Init == "random", `"weights" or "random"`, c.Init},
		{"data", len(c.Data) > 0 && !slices.Contains(c.Data, ""), "at least one path", []string(c.Data)},
		{"out", c.Out != "", "the folder of checkpoints and logs", c.Out},
		{"steps", c.Steps >= 1 && c.Steps <= 1e9, "1 to 1000000000", c.Steps},
		{"batch_tokens", c.BatchTokens >= 1 && c.BatchTokens <= 1<<24, "1 to 16777216", c.BatchTokens},
		{"seq_len", c.SeqLen >= 0 && c.SeqLen <= c.BatchTokens, fmt.Sprintf("0 to batch_tokens (%d)", c.BatchTokens), c.SeqLen},
		{"micro_tokens", c.MicroTokens >= 0 && c.MicroTokens <= c.BatchTokens, fmt.Sprintf("0 to batch_tokens (%d)", c.BatchTokens), c.MicroTokens},
		{"lr", c.LR > 0 && held(c.LR), "a positive number that fits 32 bits", c.LR},
		{"min_lr", c.MinLR >= 0 && c.MinLR <= c.LR && held(c.MinLR), "a number from 0 to lr that fits 32 bits", c.MinLR},
		{"warmup", c.Warmup >= 0 && c.Warmup <= c.Steps, fmt.Sprintf("0 to steps (%d)", c.Steps), c.Warmup},
		{"schedule", schedules[c.Schedule] != nil, strings.Join(slices.Sorted(maps.Keys(schedules)), ", "), c.Schedule},
		{"betas", rate(c.Betas[0]) && rate(c.Betas[1]), "two numbers from 0 to below 1 that fit 32 bits", c.Betas},
		{"eps", c.Eps > 0 && held(c.Eps), "a positive number that fits 32 bits", c.Eps},
		{"weight_decay", c.WeightDecay >= 0 && held(c.WeightDecay), "a number from 0 that fits 32 bits", c.WeightDecay},
		{"clip", c.Clip >= 0 && held(c.Clip), "a number from 0 that fits 32 bits", c.Clip},
		{"checkpoint_every", c.CheckpointEvery >= 0, "0 or more", c.CheckpointEvery},
		{"keep", c.Keep >= 0, "0 or more", c.Keep},
	} {
		if !f.ok {
			return fmt.Errorf("field %s: expected %s, found %v: %w", f.name, f.want, shown(f.got), ErrConfig)
		}
	}
	if err := c.Objective.validate(); err != nil {
		return err
	}
	return c.LoRA.validate()
}

// maxShown is how many letters of a value an error shows.
const maxShown = 80

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.*q", maxShown, v)
	case []string:
		return fmt.Sprintf("%.*q", maxShown, v[:min(len(v), 3)])
	}
	return fmt.Sprint(v)
}
