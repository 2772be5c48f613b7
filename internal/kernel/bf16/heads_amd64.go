package bf16

// score is the scores of heads, [head][query][NR].
func (h *Heads) score(heads, n int) {
	dp := padK(h.head.Dim)
	_, _, _ = h.q[heads*n*dp-1], h.keys[heads*NR*dp-1], h.scores[heads*n*NR-1]
	h.args = tileArgs{
		cfg: &configs[n], a: &h.q[0], b: &h.keys[0], b2: &h.keys[512], c: &h.scores[0],
		strideA: kStep * 2, stepA: n * kStep * 2, strideC: NR * 4, steps: dp / kStep,
		blocks: heads, nextA: n * dp * 2, nextB: NR * dp * 2, nextC: n * NR * 4, job: &idle,
	}
	tileAlong(&h.args, n)
}

// weigh is the values of heads by their probabilities, [head][query][padK(Dim)].
func (h *Heads) weigh(heads, n int) {
	dp := padK(h.head.Dim)
	_, _, _ = h.probs[heads*n*NR-1], h.vals[heads*NR*dp-1], h.out[heads*n*dp-1]
	for d := 0; d < dp; d += NR {
		h.args = tileArgs{
			cfg: &configs[n], a: &h.probs[0], b: &h.vals[d*NR], b2: &h.vals[d*NR+512], c: &h.out[d],
			strideA: NR * 2, strideC: dp * 4, steps: 1,
			blocks: heads, nextA: n * NR * 2, nextB: NR * dp * 2, nextC: n * dp * 4, job: &idle,
		}
		tileAlong(&h.args, n)
	}
}
