// Package precision measures what the compute classes of a backend do to the
// answers of a model: the cosine against f32 of the vectors of some texts, and the
// speed. It also lists which class each product of a model takes.
//
// It imports plan, model, calib and machine; hotpath imports it.
package precision

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"hotpath/internal/calib"
	"hotpath/internal/graph"
	"hotpath/internal/machine"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Use is how products with weights of one role are computed.
type Use struct {
	Role   string // q, k, v, o, gate, up, down, embedding, head, router, other; attention has no weights
	DType  string // as the file has them; "" for attention
	Class  string // f32, bf16, i16g32 or i8g32
	Params int64
}

// Rows is more rows than kernels for few rows take: a graph of this size shows the
// classes of large runs.
const Rows = 512

// Uses lists the compute classes of the products of a graph, in the order in which
// a token meets them: those of a plan for as many rows as the graph has. No weight
// is touched.
func Uses(g *graph.Graph, be plan.Backend) ([]Use, error) {
	prog, err := plan.Compile("info", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		return nil, err
	}
	var out []Use
	for _, s := range prog.Plans[0].Steps {
		for k, n := range s.Nodes {
			u := Use{Class: s.Class(k)}
			switch n.Op {
			case graph.OpAttention, graph.OpAttentionKV, graph.OpAttentionRel:
				u.Role = "attention"
			case graph.OpLinear, graph.OpGroupedLinear:
				w := n.In[1]
				if w.Node.Leaf == nil || w.Node.Leaf.Kind != graph.WeightLeaf {
					continue
				}
				u.Role, u.DType, u.Params = w.Node.Leaf.Role.String(), w.DType.String(), int64(w.Shape.Len(tensor.Bind{}))
			default:
				continue
			}
			if i := slices.IndexFunc(out, func(o Use) bool { return o.Role == u.Role && o.DType == u.DType && o.Class == u.Class }); i >= 0 {
				out[i].Params += u.Params
			} else {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// Main is the class that most weights are multiplied in.
func Main(uses []Use) string {
	share := map[string]int64{}
	best := machine.F32
	for _, u := range uses {
		if share[u.Class] += u.Params; share[u.Class] > share[best] {
			best = u.Class
		}
	}
	return best
}

// Candidates are the classes that auto could take instead of its own: for encoders
// only, because what is next to nothing in a vector is several per cent of a
// likelihood.
func Candidates(st *weights.Store, c *model.Config) ([]string, error) {
	if c.CanGenerate || !c.CanEmbed || c.Delicate {
		return nil, nil
	}
	for _, name := range st.Names() {
		t, err := st.Get(name)
		if err != nil && !errors.Is(err, weights.ErrUnsupported) {
			return nil, err
		}
		if err == nil && machine.TakesInt8(t.DType) {
			return []string{machine.I8G32}, nil
		}
	}
	return nil, nil
}

// Embed gives the vectors of texts by one model.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// speedTurns are the turns that two classes take.
const speedTurns = 5

// Compare holds the vectors of a class against those of exact, and its speed
// against that of base, in turns.
func Compare(ctx context.Context, class string, exact, base, embed Embed) (calib.Class, error) {
	c := calib.Class{Name: class, Worst: 1}
	want, err := exact(ctx, Texts)
	if err != nil {
		return c, err
	}
	got, err := embed(ctx, Texts)
	if err != nil {
		return c, err
	}
	for i := range got {
		cos := cosine(got[i], want[i])
		c.Mean += cos / float64(len(got))
		c.Worst = min(c.Worst, cos)
	}
	var ratios []float64
	for range speedTurns {
		var took [2]float64
		for k, f := range []Embed{base, embed} {
			start := time.Now()
			if _, err := f(ctx, Texts); err != nil {
				return c, err
			}
			took[k] = time.Since(start).Seconds()
		}
		ratios = append(ratios, took[0]/took[1])
	}
	c.Speed = stats.Median(ratios)
	return c, nil
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
