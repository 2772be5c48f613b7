package train

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hotpath/internal/graph"
)

// check is a field, whether it can be used, and what is expected of it.
type check struct {
	name string
	ok   bool
	want string
	got  any
}

// oneOf checks a word of a few.
func oneOf(name, got string, words []string) check {
	want := "one of " + strings.Join(words, ", ")
	if near := nearest(got, words, nil); near != "" {
		want += " (did you mean " + near + "?)"
	}
	return check{name, slices.Contains(words, got), want, got}
}

// fits32 reports whether f keeps its meaning in 32 bits, in which the optimizer
// computes: 1e300 would be infinite there, and an eps of 1e-300 would be 0.
func fits32(f float64) bool {
	return math.Abs(f) <= math.MaxFloat32 && (f == 0) == (float32(f) == 0)
}

// Validate says what is wrong with the first field that is.
func (c *Config) Validate() error {
	rate := func(b float64) bool { return b >= 0 && float32(b) < 1 && fits32(b) }
	held := c.Validation.Share > 0 || len(c.Validation.Data) > 0
	const fromZero = "a number from 0 that fits 32 bits"
	checks := []check{
		{"model", c.Model != "" || c.Shape != nil, "a path or the description of a model", c.Model},
		oneOf("init", c.Init, []string{"weights", "random"}),
		{"init", c.Shape == nil || c.Init == "random", `"random" for a model that is only described`, c.Init},
		{"lora", c.Shape == nil || c.LoRA.Rank == 0, "none for a model that is only described: there are no weights to adapt", c.LoRA.Rank},
		{"init", c.Init == "weights" || c.LoRA.Rank == 0, `"weights" with lora, which trains none of the model's weights`, c.Init},
		{"data", len(c.Data) > 0 && !slices.Contains(c.Data, ""), "at least one path", []string(c.Data)},
		{"out", c.Out != "", "the folder of checkpoints and logs", c.Out},
		{"steps", c.Steps >= 1 && c.Steps <= 1e9, "1 to 1000000000", c.Steps},
		{"batch_tokens", c.BatchTokens >= 1 && c.BatchTokens <= 1<<24, "1 to 16777216", c.BatchTokens},
		{"seq_len", c.SeqLen >= 0 && c.SeqLen <= c.BatchTokens, fmt.Sprintf("0 to batch_tokens (%d)", c.BatchTokens), c.SeqLen},
		{"micro_tokens", c.MicroTokens == 0 || c.MicroTokens >= max(c.SeqLen, 1) && c.MicroTokens <= c.BatchTokens,
			fmt.Sprintf("0, or seq_len to batch_tokens (%d)", c.BatchTokens), c.MicroTokens},
		oneOf("optimizer", c.Optimizer, []string{"adamw", "sgd"}),
		{"lr", c.LR > 0 && fits32(c.LR), "a positive number that fits 32 bits", c.LR},
		{"min_lr", c.MinLR >= 0 && c.MinLR <= c.LR && fits32(c.MinLR), "a number from 0 to lr that fits 32 bits", c.MinLR},
		{"warmup", c.Warmup >= 0 && c.Warmup <= c.Steps, fmt.Sprintf("0 to steps (%d)", c.Steps), c.Warmup},
		oneOf("schedule", c.Schedule, slices.Sorted(maps.Keys(schedules))),
		{"decay_steps", c.DecaySteps >= 0 && c.DecaySteps <= c.Steps-c.Warmup, fmt.Sprintf("0 to steps without warmup (%d)", c.Steps-c.Warmup), c.DecaySteps},
		{"decay_steps", c.DecaySteps == 0 || c.Schedule == "wsd", "0 unless the schedule is wsd", c.DecaySteps},
		{"betas", rate(c.Betas[0]) && rate(c.Betas[1]), "two numbers from 0 to below 1 that fit 32 bits", c.Betas},
		{"eps", c.Eps > 0 && fits32(c.Eps), "a positive number that fits 32 bits", c.Eps},
		{"momentum", rate(c.Momentum), "a number from 0 to below 1 that fits 32 bits", c.Momentum},
		{"nesterov", !c.Nesterov || c.Momentum > 0, "false where momentum is 0", c.Nesterov},
		{"nesterov", !c.Nesterov || c.Optimizer == "sgd", "false unless the optimizer is sgd", c.Nesterov},
		{"weight_decay", c.WeightDecay >= 0 && fits32(c.WeightDecay), fromZero, c.WeightDecay},
	}
	for _, role := range c.NoDecay {
		checks = append(checks, oneOf("no_decay", role, graph.RoleNames()))
	}
	checks = append(checks, []check{
		{"clip", c.Clip >= 0 && fits32(c.Clip), fromZero, c.Clip},
		{"dropout", rate(c.Dropout), "a number from 0 to below 1 that fits 32 bits", c.Dropout},
		{"label_smoothing", rate(c.LabelSmoothing), "a number from 0 to below 1 that fits 32 bits", c.LabelSmoothing},
		{"label_smoothing", c.LabelSmoothing == 0 || slices.Contains(labelled, c.Objective.name()), "0 unless the objective is one of " + strings.Join(labelled, ", "), c.LabelSmoothing},
		{"label_smoothing", c.LabelSmoothing == 0 || c.Objective.name() != "distill" || c.Objective.Hard > 0, "0 unless objective.hard is above 0", c.LabelSmoothing},
		{"skip_above", c.SkipAbove == 0 || c.SkipAbove > 1 && fits32(c.SkipAbove), "0, or a factor above 1", c.SkipAbove},
		{"stop_above", c.StopAbove == 0 || c.StopAbove > 1 && fits32(c.StopAbove), "0, or a factor above 1", c.StopAbove},
		{"validation.share", c.Validation.Share >= 0 && c.Validation.Share < 1 && (c.Validation.Share == 0 || len(c.Validation.Data) == 0),
			"a number from 0 to below 1, and 0 beside validation.data", c.Validation.Share},
		{"validation.data", !slices.Contains(c.Validation.Data, ""), "paths", []string(c.Validation.Data)},
		{"validation.sts", !slices.Contains(c.Validation.STS, ""), "paths", []string(c.Validation.STS)},
		{"validation.retrieval", !slices.Contains(c.Validation.Retrieval, ""), "paths", []string(c.Validation.Retrieval)},
		{"validation.every", c.Validation.Every >= 0, "0 or more", c.Validation.Every},
		{"validation.every", c.Validation.Every == 0 || held, "0 without validation.data and validation.share", c.Validation.Every},
		{"validation.sts", held || len(c.Validation.STS) == 0, "none without validation.data and validation.share", []string(c.Validation.STS)},
		{"validation.retrieval", held || len(c.Validation.Retrieval) == 0, "none without validation.data and validation.share", []string(c.Validation.Retrieval)},
		oneOf("validation.best", c.Validation.best(), figureWords()),
		{"validation.best", held || c.Validation.best() == "loss", "loss without validation.data and validation.share", c.Validation.Best},
		{"validation.tokens", c.Validation.Tokens >= 0, "0 or more", c.Validation.Tokens},
		{"validation.tokens", c.Validation.Tokens == 0 || held, "0 without validation.data and validation.share", c.Validation.Tokens},
		{"validation.patience", c.Validation.Patience >= 0, "0 or more", c.Validation.Patience},
		{"validation.patience", c.Validation.Patience == 0 || c.Validation.Every > 0, "0 without validation.every", c.Validation.Patience},
		{"sample.every", c.Sample.Every >= 0, "0 or more", c.Sample.Every},
		{"sample.tokens", c.Sample.Tokens >= 1 && c.Sample.Tokens <= maxContext, fmt.Sprintf("1 to %d", maxContext), c.Sample.Tokens},
		{"sample.temp", c.Sample.Temp >= 0 && c.Sample.Temp <= 100, "0 to 100", c.Sample.Temp},
		{"checkpoint_every", c.CheckpointEvery >= 0, "0 or more", c.CheckpointEvery},
		{"keep", c.Keep >= 0, "0 or more", c.Keep},
		{"objective.freeze", len(c.Objective.Freeze) == 0 || c.LoRA.Rank == 0, "none beside lora, which trains none of the model's weights", c.Objective.Freeze},
	}...)
	if err := firstWrong("", checks); err != nil {
		return err
	}
	if err := c.Objective.validate(); err != nil {
		return err
	}
	if err := c.LoRA.validate(); err != nil {
		return err
	}
	if c.Shape != nil {
		return c.Shape.validate(c)
	}
	return nil
}

// labelled are the objectives whose loss is a cross entropy of labels.
var labelled = []string{"classify", "distill", "lm", "mlm", "sft"}

func firstWrong(prefix string, checks []check) error {
	for _, f := range checks {
		if !f.ok {
			return fmt.Errorf("field %s%s: expected %s, found %v: %w", prefix, f.name, f.want, shown(f.got), ErrConfig)
		}
	}
	return nil
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
