package plan_test

import (
	"context"
	"slices"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// byRows is a reference backend that notes which plans ran.
type byRows struct {
	plan.Backend
	ran []*plan.Plan
}

type byRowsExec struct {
	plan.Exec
	be *byRows
	p  *plan.Plan
}

func (b *byRows) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := b.Backend.Bind(p, m, o)
	return byRowsExec{x, b, p}, err
}

func (x byRowsExec) Enqueue(ctx context.Context, bind tensor.Bind, run *profile.Run) error {
	x.be.ran = append(x.be.ran, x.p)
	return x.Exec.Enqueue(ctx, bind, run)
}

// TestRunsAskForABucket: a run gets the smallest bucket that it fits, or that of
// as many tokens as it asks for; the next one is as before.
func TestRunsAskForABucket(t *testing.T) {
	b := graph.NewBuilder(tensor.Bind{T: 100, S: 4, R: 4})
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	y := b.Add("y", x, x)
	g, err := b.Freeze(y)
	if err != nil {
		t.Fatal(err)
	}
	be := &byRows{Backend: ref.New()}
	p, err := plan.Compile("test", g, be, []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 64, S: 4, R: 4}, g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mins []int
	for _, pl := range p.Plans {
		mins = append(mins, pl.Min.T)
	}
	if !slices.Equal(mins, []int{1, 2, 65}) {
		t.Fatalf("buckets are from %d tokens on, expected 1, 2 and 65", mins)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(be, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct{ tokens, least, want int }{
		{1, 0, 0}, {1, 1, 0}, {1, 2, 1}, {1, 64, 1}, {1, 65, 2}, {1, 100, 2}, {1, 5000, 2}, {5, 1, 1}, {5, 70, 2}, {5, 0, 1}, {80, 3, 2},
	} {
		for i := range c.tokens * 8 {
			s.F32(x)[i] = float32(i)
		}
		s.AtLeast(c.least)
		if err := s.Run(t.Context(), tensor.Bind{T: c.tokens, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Index(p.Plans, be.ran[len(be.ran)-1]); got != c.want || s.Class(max(c.tokens, c.least)) != c.want {
			t.Errorf("%d tokens, at least %d: bucket %d, class %d, expected %d", c.tokens, c.least, got, s.Class(max(c.tokens, c.least)), c.want)
		}
		for i := range c.tokens * 8 {
			if s.F32(y)[i] != float32(2*i) {
				t.Fatalf("%d tokens, at least %d: element %d is %g", c.tokens, c.least, i, s.F32(y)[i])
			}
		}
	}
}
