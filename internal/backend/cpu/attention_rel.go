package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
)

// scoreBias is a bias on scores by the distance of a key from its query, or by
// the position of the key.
type scoreBias struct {
	rel   mat // [Heads,2*reach+1]; absent where there is none
	reach int

	attr   *graph.AttentionAttr
	slopes []float32 // of ALiBi, [Heads]; nil where there is none
}

func (r *scoreBias) present() bool { return r.slopes != nil || r.rel.present() }

// alibi prepares the slopes of ALiBi.
func (k *attention) alibi() {
	if !k.Alibi {
		return
	}
	k.bias.attr = &k.AttentionAttr
	for h := range k.Heads {
		k.bias.slopes = append(k.bias.slopes, k.AlibiSlope(h))
	}
}

func bindAttentionRel(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.Out[0], n.In[4], n.Out[1])
	k := &attention{AttentionAttr: n.Attr.(graph.AttentionAttr), q: ms[0], k: keys{mat: ms[1]}, v: keys{mat: ms[2]}, out: ms[3], lse: ms[5], qStart: b.i32(n.In[3]), drop: b.optionalI32(n.In[5]),
		bias: scoreBias{rel: ms[4], reach: graph.RelReach(ms[4].cols)}}
	k.reserve(b, b.plan.Max.T)
	return k, nil
}

// addBias adds the biases to the scores of keys from on, for a query of head h at
// pos. Biases of distances within reach are a row; larger distances use the ends
// of that row.
func (r *scoreBias) addBias(scores []float32, h, pos, from int) {
	if r.slopes != nil {
		for i := range scores {
			scores[i] += r.attr.AlibiBias(r.slopes[h], from+i)
		}
	}
	if !r.rel.present() {
		return
	}
	row := r.rel.row(h)
	near := min(max(pos-r.reach-from, 0), len(scores))
	far := min(max(pos+r.reach+1-from, near), len(scores))
	for i := range scores[:near] {
		scores[i] += row[0]
	}
	if near < far {
		at := from + near - pos + r.reach
		vec.Add(scores[near:far], scores[near:far], row[at:at+far-near])
	}
	for i := far; i < len(scores); i++ {
		scores[i] += row[2*r.reach]
	}
}
