package profile

// MainOp is the op with most of a step's work. Comparisons and studies count a
// fused step as this op, because the time of its parts cannot be separated.
func (s *Step) MainOp() string {
	op, most := s.Op, -1.0
	for _, n := range s.Nodes {
		if n.Share > most {
			op, most = n.Op, n.Share
		}
	}
	return op
}
