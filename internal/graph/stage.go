package graph

// Stage is the part of a training step that a node belongs to, for profiles.
type Stage uint8

const (
	NoStage        Stage = iota // not of a training graph
	StageForward                // up to the last weight
	StageLoss                   // from there to the loss
	StageBackward               // gradients
	StageRecompute              // what the forward part did not keep for them
	StageOptimizer              // norm, clipping and updates
)

func (s Stage) String() string {
	return [...]string{"", "forward", "loss", "backward", "recompute", "optimizer"}[s]
}

// SetStages divides the nodes up to the loss into forward and loss: a node is of
// the loss if it reads no weight and all its readers are of the loss.
func SetStages(nodes []*Node, loss *Value) {
	ofLoss := map[*Node]bool{}
	others := map[*Node]bool{} // read by a node that is not of the loss
	for i := loss.Node.ID; i >= 0; i-- {
		n := nodes[i]
		n.Stage = StageForward
		weights := false
		for _, v := range n.In {
			weights = weights || v != nil && v.Node.Leaf != nil && v.Node.Leaf.Kind != InputLeaf
		}
		if n == loss.Node || ofLoss[n] && !others[n] && !weights {
			n.Stage = StageLoss
		}
		for _, v := range n.In {
			if v == nil {
				continue
			}
			if n.Stage == StageLoss {
				ofLoss[v.Node] = true
			} else {
				others[v.Node] = true
			}
		}
	}
}
