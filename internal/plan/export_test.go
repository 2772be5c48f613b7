package plan

// CostKinds is how many kinds of steps a bucket's costs are computed for.
func CostKinds(s *Session, bucket int) int { return len(s.slots[0].plans[0][bucket].costs.kinds) }
