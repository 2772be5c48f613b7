package bf16

// deepest is the K beyond which few rows of A fill L2. Panels would then pass by
// once for each few rows; instead rows are multiplied a part of K at a time.
const deepest = 4096

// deep reports whether rows of t are multiplied a part of K at a time.
func (t *Task) deep(rows int) bool {
	b, ok := t.B.(*Packed)
	return ok && b.K == t.K && t.Rounded == nil && t.K > deepest && rows > chunkMost(padK(t.K))
}

// runDeep is Run for products that are deep. Sums begin with what C was after the
// part before, so that the bits are those of a product in one part.
func runDeep(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	b := t.B.(*Packed)
	size := NR * padK(t.K)
	s.of = nil // what a holds is of parts
	for m := m0; m < m1; m += mc {
		rows := min(mc, m1-m)
		depth := max(kStep, len(s.a)/((rows+MR-1)/MR*MR)/kStep*kStep)
		for k := 0; k < t.K; k += depth {
			part := Task{M: rows, N: t.N, K: min(depth, t.K-k), A: t.A[m*t.LDA+k:], LDA: t.LDA, C: t.C[m*t.LDC:], LDC: t.LDC, Bias: t.Bias, Accumulate: t.Accumulate}
			if k > 0 {
				part.Bias, part.Accumulate = nil, true
			}
			Round(s.a, part.A, part.LDA, rows, part.K)
			whole := max(p0, min(p1, t.N/NR))
			partTiles(&part, b.Data[k*NR:], size, rows, p0, whole, s)
			for p := whole; p < p1; p++ {
				edgeTiles(&part, s.a, b.Data[p*size+k*NR:], 0, rows, p, s)
			}
		}
	}
}
