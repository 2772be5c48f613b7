package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// objective is what a model is trained for. There is one file per objective,
// objective_*.go, and a row in objectives.
type objective interface {
	// kinds are the kinds of examples that it learns from.
	kinds() []Kind
	// build ends the graph and gives the loss, of shape [1]: a mean over terms.
	build(t *model.Trainee) *graph.Value
	// bind takes the memory of the inputs that build declared, and runs whatever
	// else the objective needs beside the model.
	bind(ctx context.Context, s *plan.Session) error
	// most is the largest batch of a source within a number of tokens.
	most(tokens int, s Stats) tensor.Bind
	// size is what an example takes of a batch, and its terms of the loss.
	size(e *Example) (b tensor.Bind, terms int)
	// put writes an example, for which there is room, behind those in the batch.
	// rng depends on the seed and the example's position only.
	put(in *inputs, e *Example, rng *rand.Rand)
	// ready completes a batch before its run.
	ready(ctx context.Context, in *inputs) error
	close() error
}

// setting is what an objective is made from.
type setting struct {
	cfg   *Config
	model *model.Model
	opts  Options
	stats Stats
}

// objectives are the rows of the field objective.type.
var objectives = map[string]func(s setting) (objective, error){
	"lm": newLM,
}

func objectiveNames() string { return strings.Join(slices.Sorted(maps.Keys(objectives)), ", ") }

// newObjective makes the objective of a configuration.
func newObjective(s setting) (objective, error) {
	o, err := objectives[s.cfg.Objective.name()](s)
	if err != nil {
		return nil, fmt.Errorf("field objective: %w", err)
	}
	return o, nil
}

// ObjectiveConfig is the field objective: what the model is trained for.
type ObjectiveConfig struct {
	// Type is a row of objectives; "" means lm.
	Type string `json:"type"`
}

// name is the type, the default included.
func (c *ObjectiveConfig) name() string { return cmp.Or(c.Type, "lm") }

// alone is the part of an objective that most have nothing to do in.
type alone struct{}

func (alone) bind(context.Context, *plan.Session) error { return nil }
func (alone) ready(context.Context, *inputs) error      { return nil }
func (alone) put(*inputs, *Example, *rand.Rand)         {}
func (alone) close() error                              { return nil }
