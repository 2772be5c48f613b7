package profile

// MainOp is the op that most of a step's work is: what a fused step counts as in
// comparisons and studies. Time within it cannot be told apart, so a row is never
// divided.
func (s *Step) MainOp() string {
	op, most := s.Op, -1.0
	for _, n := range s.Nodes {
		if n.Share > most {
			op, most = n.Op, n.Share
		}
	}
	return op
}
