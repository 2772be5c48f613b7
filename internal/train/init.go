package train

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
)

// initDeviation is that of random weights, as GPT-2 began the habit.
const initDeviation = 0.02

// randomize gives every parameter a random start: biases zero, norms one,
// projections into the residual stream smaller the more of them there are.
// Each has a stream of its own, so that no parameter's start depends on
// another's size.
func (r *runner) randomize(seed uint64, layers int) error {
	return r.draw(seed, layers, func(model.Param) bool { return true })
}

// freshen initializes the parameters that no file has with random numbers.
func (r *runner) freshen(seed uint64, layers int) error {
	return r.draw(seed, layers, func(p model.Param) bool { return p.Fresh })
}

func (r *runner) draw(seed uint64, layers int, which func(model.Param) bool) error {
	offsets := normOffsets(r.sess.Program().Graph)
	adapters := map[*graph.Value]bool{}
	for _, d := range r.parts.Adapters {
		adapters[d.A], adapters[d.B] = true, true
	}
	room := r.room()
	for _, p := range r.parts.Params {
		if !which(p) || adapters[p.Value] {
			continue
		}
		f := room[:p.Value.Shape.Len(tensor.Bind{})]
		switch p.Role {
		case graph.RoleBias:
			clear(f)
		case graph.RoleNorm:
			for i := range f {
				f[i] = 1 - offsets[p.Value]
			}
		default:
			normal(f, deviation(p, layers), seed, p.Key)
		}
		if err := r.sess.WriteState(p.Value, f); err != nil {
			return err
		}
	}
	return r.drawAdapters(seed)
}

// room is space for any one parameter.
func (r *runner) room() []float32 {
	most := 0
	for _, p := range r.parts.Params {
		most = max(most, p.Value.Shape.Len(tensor.Bind{}))
	}
	return make([]float32, most)
}

// reader gives parameters and moments, each until the next one is read: where they
// lie, or copied where the host cannot reach them.
func (r *runner) reader() func(v *graph.Value) ([]float32, error) {
	var buf []float32
	return func(v *graph.Value) ([]float32, error) {
		if f := r.sess.State(v); f != nil {
			return f, nil
		}
		if buf == nil {
			buf = r.room()
		}
		f := buf[:v.Shape.Len(tensor.Bind{})]
		return f, r.sess.ReadState(v, f)
	}
}

func deviation(p model.Param, layers int) float64 {
	if p.Role == graph.RoleO || p.Role == graph.RoleDown {
		return initDeviation / math.Sqrt(2*float64(layers))
	}
	return initDeviation
}

func normal(f []float32, deviation float64, seed uint64, key string) {
	rng := rand.New(rand.NewPCG(seed, keyHash(key)))
	for i := range f {
		f[i] = float32(rng.NormFloat64() * deviation)
	}
}

// keyHash tells the random streams of parameters apart.
func keyHash(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	return h.Sum64()
}

// normOffsets are the constants that norms add to their weights. The initial weight
// is 1 minus the offset, so that the norm multiplies by 1.
func normOffsets(g *graph.Graph) map[*graph.Value]float32 {
	offsets := map[*graph.Value]float32{}
	for _, n := range g.Nodes {
		if n.Op != graph.OpNorm {
			continue
		}
		if w := n.In[1].Node; w.Op == graph.OpShift {
			offsets[w.In[0]] = w.Attr.(graph.ShiftAttr).C
		}
	}
	return offsets
}
