package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
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
	// compile plans whatever else the objective runs beside the model's program p. It
	// gives a name for that and the bytes that it takes; 0 for nothing.
	compile(p *plan.Program) (what string, bytes int64, err error)
	// bind takes the memory of the inputs that build declared, and opens what was
	// compiled.
	bind(ctx context.Context, s *plan.Session) error
	// most is the largest batch of a source within a number of tokens.
	most(tokens int, s Stats) tensor.Bind
	// size is what an example takes of a batch, and its terms of the loss.
	size(e *Example) (b tensor.Bind, terms int)
	// put writes an example, for which there is room, behind those in the batch.
	// rng depends on the seed and the example's position only.
	put(in *inputs, e *Example, rng *rand.Rand)
	// check reports an example that the objective cannot learn from.
	check(e *Example) error
	// beside names the field of a file beside the model that decides what is learned,
	// with a digest of its contents; both are "" without one.
	beside(ctx context.Context) (field, digest string, err error)
	// ready completes a batch before its run.
	ready(ctx context.Context, in *inputs) error
	close() error
}

// wholeStep is an objective whose loss is over all runs of a step together
// where there are several. Each run is made twice: forward, to see what it
// computes, and then with the gradient of the loss by that.
type wholeStep interface {
	objective
	// begin starts a step.
	begin()
	// keep takes what the first pass of a run computed.
	keep(in *inputs)
	// solve gives the loss of the step.
	solve(ctx context.Context) (float32, error)
	// again prepares the second pass of a run whose sequences begin at first.
	again(in *inputs, first int)
}

// setting is what an objective is made from.
type setting struct {
	cfg   *Config
	model *model.Model
	opts  Options
	stats Stats // of the training data
	all   Stats // with the validation data, which runs have room for too
}

// objectives are the rows of the field objective.type.
var objectives = map[string]func(s setting) (objective, error){
	"lm":                newLM,
	"sft":               newSFT,
	"mlm":               newMLM,
	"contrastive":       newContrastive,
	"classify":          newClassify,
	"regress":           newRegress,
	"dpo":               newDPO,
	"distill":           newDistill,
	"distill_embedding": newDistillEmbedding,
}

// newObjective makes the objective of a configuration.
func newObjective(s setting) (objective, error) {
	o, err := objectives[s.cfg.Objective.name()](s)
	if err != nil {
		return nil, fmt.Errorf("field objective: %w", err)
	}
	return o, nil
}

// ObjectiveConfig is the field objective: what the model is trained for. Fields
// that a type has no use for must be left out.
type ObjectiveConfig struct {
	// Type is a row of objectives; "" means lm.
	Type string `json:"type"`
	// Batch is the most examples of a step; 0: as many as batch_tokens holds.
	Batch int `json:"batch,omitempty"`
	// Freeze names the roles of weights that stay as they are: embedding, q, ...
	Freeze []string `json:"freeze,omitempty"`

	MaskRate   float64   `json:"mask_rate,omitempty"`   // mlm: share of tokens to predict: 0.15
	Scale      float64   `json:"scale,omitempty"`       // contrastive: factor of cosines, 1/temperature: 20
	Symmetric  bool      `json:"symmetric,omitempty"`   // contrastive: positives ask for their anchors too
	Dims       []int     `json:"dims,omitempty"`        // contrastive: widths of Matryoshka losses; none: the whole vector
	DimWeights []float64 `json:"dim_weights,omitempty"` // contrastive: of each of dims: 1
	Labels     int       `json:"labels,omitempty"`      // classify: number of classes: those of the model
	Beta       float64   `json:"beta,omitempty"`        // dpo: how far the model is held to the reference: 0.1
	Reference  string    `json:"reference,omitempty"`   // dpo: file of the reference: the field model

	Teacher     string  `json:"teacher,omitempty"`     // distill, distill_embedding: file of the teacher
	Vectors     string  `json:"vectors,omitempty"`     // distill_embedding: .npy file of the teacher's vectors, in its place
	Temperature float64 `json:"temperature,omitempty"` // distill: of both distributions: 2
	Hard        float64 `json:"hard,omitempty"`        // distill: share of the loss of the data's own tokens: 0
	Cosine      bool    `json:"cosine,omitempty"`      // distill_embedding: compare directions only
}

// objectiveFields are the types that have a use for a field.
var objectiveFields = map[string][]string{
	"mask_rate": {"mlm"}, "scale": {"contrastive"}, "symmetric": {"contrastive"}, "dims": {"contrastive"}, "dim_weights": {"contrastive"},
	"labels": {"classify"}, "beta": {"dpo"}, "reference": {"dpo"},
	"teacher": {"distill", "distill_embedding"}, "temperature": {"distill"}, "hard": {"distill"}, "cosine": {"distill_embedding"}, "vectors": {"distill_embedding"},
}

// short is an objective that is only named.
func (c *ObjectiveConfig) short(name string) { *c = ObjectiveConfig{Type: name} }

// validate says what is wrong with the first field that is.
func (c *ObjectiveConfig) validate() error {
	share := func(f float64) bool { return f >= 0 && f < 1 }
	positive := func(f float64) bool { return f >= 0 && float32(f) < math.MaxFloat32 && (f == 0 || float32(f) > 0) }
	weights := !slices.ContainsFunc(c.DimWeights, func(f float64) bool { return !positive(f) })
	checks := []check{
		oneOf("type", c.name(), slices.Sorted(maps.Keys(objectives))),
		{"batch", c.Batch >= 0, "0 or more", c.Batch},
		{"mask_rate", share(c.MaskRate), "a number from 0 to below 1", c.MaskRate},
		{"scale", positive(c.Scale), "a positive number that fits 32 bits", c.Scale},
		{"dim_weights", weights, "numbers from 0 that fit 32 bits", c.DimWeights},
		{"labels", c.Labels >= 0 && c.Labels <= 1<<16, "0 to 65536", c.Labels},
		{"beta", positive(c.Beta), "a positive number that fits 32 bits", c.Beta},
		{"temperature", positive(c.Temperature), "a positive number that fits 32 bits", c.Temperature},
		{"hard", c.Hard >= 0 && c.Hard <= 1, "a number from 0 to 1", c.Hard},
	}
	for _, role := range c.Freeze {
		checks = append(checks, oneOf("freeze", role, graph.RoleNames()))
	}
	fields := tagged(c)
	for _, name := range slices.Sorted(maps.Keys(objectiveFields)) {
		types := objectiveFields[name]
		value := reflect.ValueOf(fields[name]).Elem()
		checks = append(checks, check{name, value.IsZero() || slices.Contains(types, c.name()),
			fmt.Sprintf("it only with type %s, not with %s", strings.Join(types, " or "), c.name()), value.Interface()})
	}
	return firstWrong("objective.", checks)
}

// trainable says which weights are trained; nil: all.
func (c *ObjectiveConfig) trainable() func(role graph.Role, layer int) bool {
	if len(c.Freeze) == 0 {
		return nil
	}
	return func(role graph.Role, _ int) bool { return !slices.Contains(c.Freeze, role.String()) }
}

// name is the type, the default included.
func (c *ObjectiveConfig) name() string { return cmp.Or(c.Type, "lm") }

// alone is the part of an objective that most have nothing to do in.
type alone struct{}

func (alone) bind(context.Context, *plan.Session) error { return nil }
func (alone) ready(context.Context, *inputs) error      { return nil }
func (alone) check(*Example) error                      { return nil }
func (alone) close() error                              { return nil }

func (alone) compile(*plan.Program) (what string, bytes int64, err error) { return "", 0, nil }

func (alone) beside(context.Context) (field, digest string, err error) { return "", "", nil }
