package graph

import "hotpath/internal/tensor"

// WeightDropout is the dropout of attention's weights. Which are dropped depends
// on the key's words, the salt, the token of the query in its batch, the head and
// the position of the key in its sequence, so that forward and backward pass drop
// the same ones however they are computed. The zero value drops nothing.
type WeightDropout struct {
	d     Dropout
	heads int
}

// Dropout is the choice of a key; a key of nil drops nothing.
func (a *AttentionAttr) Dropout(key []int32) WeightDropout {
	if key == nil {
		return WeightDropout{}
	}
	return WeightDropout{NewDropout(key, a.Salt), a.Heads}
}

// Any reports whether weights are dropped.
func (w *WeightDropout) Any() bool { return w.d.below > 0 }

// Kept is the share of weights that stay.
func (w *WeightDropout) Kept() float32 { return 1 / w.d.scale }

// keyBits are enough for the position of a key: no batch has as many tokens.
const keyBits = 28

func (w *WeightDropout) at(t, h, j int) int { return (t*w.heads+h)<<keyBits + j }

// Apply changes the weights of head h of the query at token t, for keys from
// position j on.
func (w *WeightDropout) Apply(weights []float32, t, h, j int) {
	if w.Any() {
		w.d.Apply(weights, weights, w.at(t, h, j))
	}
}

// Factor is what one weight is multiplied by.
func (w *WeightDropout) Factor(t, h, j int) float32 {
	one := [1]float32{1}
	w.Apply(one[:], t, h, j)
	return one[0]
}

// DropsWeights reports whether a node is attention, or its gradient, with dropout
// of its weights.
func (n *Node) DropsWeights() bool {
	_, attends := n.Attr.(AttentionAttr)
	return attends && n.In[len(n.In)-1] != nil
}

// wantKey checks the key of a dropout where there is one.
func wantKey(key *Value) error {
	if key == nil {
		return nil
	}
	return wantShape("key", key, tensor.Static(DropoutLen))
}
