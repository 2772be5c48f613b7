package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
)

// LoRAConfig is the field lora: small matrices are trained in place of the
// model's weights, which stay as the file has them, quantized ones too.
type LoRAConfig struct {
	Rank  int      `json:"rank"`            // of the matrices; 0 (default): no LoRA
	Alpha float64  `json:"alpha,omitempty"` // what they add counts alpha/rank times: 2*rank
	Roles []string `json:"roles,omitempty"` // projections that get them: q and v
}

// loraRoles are the projections that can get one.
var loraRoles = []graph.Role{graph.RoleQ, graph.RoleK, graph.RoleV, graph.RoleO, graph.RoleGate, graph.RoleUp, graph.RoleDown}

func loraRoleNames() []string {
	var names []string
	for _, r := range loraRoles {
		names = append(names, r.String())
	}
	return names
}

// loraRole is the projection of a name.
func loraRole(name string) (graph.Role, bool) {
	i := slices.IndexFunc(loraRoles, func(r graph.Role) bool { return r.String() == name })
	if i < 0 {
		return graph.RoleOther, false
	}
	return loraRoles[i], true
}

// validate says what is wrong with the first field that is.
func (c *LoRAConfig) validate() error {
	for _, role := range c.Roles {
		if _, ok := loraRole(role); !ok {
			return firstWrong("lora.", []check{oneOf("roles", role, loraRoleNames())})
		}
	}
	switch {
	case c.Rank < 0 || c.Rank > 1<<16:
		return fmt.Errorf("field lora.rank: expected 0 to 65536, found %d: %w", c.Rank, ErrConfig)
	case !(c.Alpha >= 0) || !fits32(c.Alpha) || c.Rank > 0 && !fits32(c.Alpha/float64(c.Rank)):
		return fmt.Errorf("field lora.alpha: expected a positive number that fits 32 bits, divided by rank too, found %g: %w", c.Alpha, ErrConfig)
	case c.Rank == 0 && (c.Alpha != 0 || len(c.Roles) > 0):
		return fmt.Errorf("field lora.rank: expected at least 1 because alpha or roles is set, found 0: %w", ErrConfig)
	}
	return nil
}

// options are what the graph is built with; nil without LoRA.
func (c *LoRAConfig) options() *model.LoRA {
	if c.Rank == 0 {
		return nil
	}
	l := &model.LoRA{Rank: c.Rank, Alpha: cmp.Or(c.Alpha, 2*float64(c.Rank))}
	for _, name := range c.Roles {
		role, _ := loraRole(name) // validated
		l.Roles = append(l.Roles, role)
	}
	if len(l.Roles) == 0 {
		l.Roles = []graph.Role{graph.RoleQ, graph.RoleV}
	}
	return l
}

// hasRoles reports a role that no projection of the model has.
func hasRoles(m *model.Model, l *model.LoRA, parts *model.TrainParts) error {
	if l == nil {
		return nil
	}
	for _, role := range l.Roles {
		if !slices.ContainsFunc(parts.Adapters, func(d model.Adapter) bool { return d.A.Node.Leaf.Role == role }) {
			return noRoles(m, []graph.Role{role})
		}
	}
	return nil
}

func noRoles(m *model.Model, roles []graph.Role) error {
	return fmt.Errorf("field lora.roles: %s (%s) has no projection of the role %v: %w", m.Store().Path(), m.Config().Arch, roles, ErrConfig)
}

// drawAdapters gives the first matrices a random start, as PEFT does; the
// second ones are zeros, so that the model begins as it was.
func (r *runner) drawAdapters(seed uint64) error {
	for _, d := range r.parts.Adapters {
		f := make([]float32, d.A.Shape.Len(tensor.Bind{}))
		bound := 1 / math.Sqrt(float64(d.A.Shape.RowLen()))
		rng := rand.New(rand.NewPCG(seed, keyHash(d.Key)))
		for i := range f {
			f[i] = float32((2*rng.Float64() - 1) * bound)
		}
		if err := r.sess.WriteState(d.A, f); err != nil {
			return err
		}
		if err := r.sess.WriteState(d.B, make([]float32, d.B.Shape.Len(tensor.Bind{}))); err != nil {
			return err
		}
	}
	return nil
}

// merged is the weight of a projection with its adapter.
func (r *runner) merged(d model.Adapter) ([]float32, error) {
	a, b := make([]float32, d.A.Shape.Len(tensor.Bind{})), make([]float32, d.B.Shape.Len(tensor.Bind{}))
	if err := errors.Join(r.sess.ReadState(d.A, a), r.sess.ReadState(d.B, b)); err != nil {
		return nil, err
	}
	return r.model.Merged(d, a, b)
}
