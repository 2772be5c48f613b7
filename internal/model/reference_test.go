package model

import (
	"context"
	"math"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

var _ plan.Source = (*Model)(nil)

// open opens a model for the length of a test.
func open(t testing.TB, path string) *Model {
	t.Helper()
	st, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	m, err := Open(st)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// session compiles a graph for the reference backend.
func session(t testing.TB, m *Model, g *graph.Graph) *plan.Session {
	t.Helper()
	return sessionOn(t, ref.New(), m, g)
}

func sessionOn(t testing.TB, be plan.Backend, m *Model, g *graph.Graph) *plan.Session {
	t.Helper()
	p, err := plan.Compile(t.Name(), g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func run(t testing.TB, s *plan.Session, b tensor.Bind) {
	t.Helper()
	if err := s.Run(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// batch puts whole sequences into tokens, pos and q_start.
func batch(s *plan.Session, p *Ports, seqs [][]int) (tokens int) {
	for i, ids := range seqs {
		s.I32(p.QStart)[i] = int32(tokens)
		for j, id := range ids {
			s.I32(p.Tokens)[tokens], s.I32(p.Pos)[tokens] = int32(id), int32(j)
			if p.Length != nil {
				s.I32(p.Length)[tokens] = int32(len(ids))
			}
			tokens++
		}
	}
	s.I32(p.QStart)[len(seqs)] = int32(tokens)
	return tokens
}

func total(seqs [][]int) (n int) {
	for _, ids := range seqs {
		n += len(ids)
	}
	return n
}

// embedAll embeds sequences as one ragged batch.
func embedAll(t testing.TB, m *Model, seqs [][]int, o EmbedOptions) [][]float32 {
	t.Helper()
	return embedOn(t, ref.New(), m, seqs, o)
}

func embedOn(t testing.TB, be plan.Backend, m *Model, seqs [][]int, o EmbedOptions) [][]float32 {
	t.Helper()
	most := tensor.Bind{T: total(seqs), S: len(seqs)}
	g, p, err := m.BuildEmbed(most, o)
	if err != nil {
		t.Fatal(err)
	}
	s := sessionOn(t, be, m, g)
	batch(s, p, seqs)
	run(t, s, most)
	out := make([][]float32, len(seqs))
	for i := range out {
		out[i] = s.F32(p.Embedding)[i*m.cfg.EmbedDim : (i+1)*m.cfg.EmbedDim]
	}
	return out
}

// scoreAll scores sequences side by side over a KV cache, piece by piece: each
// run takes up to step tokens of every sequence.
func scoreAll(t testing.TB, m *Model, seqs [][]int, step int) [][]float64 {
	t.Helper()
	return scoreOn(t, ref.New(), m, seqs, step)
}

func scoreOn(t testing.TB, be plan.Backend, m *Model, seqs [][]int, step int) [][]float64 {
	t.Helper()
	perSeq := 1
	for _, ids := range seqs {
		perSeq = max(perSeq, (len(ids)+graph.KVBlock-1)/graph.KVBlock)
	}
	kv := KVLayout{Blocks: perSeq * len(seqs), MaxBlocksPerSeq: perSeq}
	rows := min(step*len(seqs), total(seqs))
	g, p, err := m.BuildScore(tensor.Bind{T: rows, S: len(seqs), R: rows}, kv)
	if err != nil {
		t.Fatal(err)
	}
	s, out := sessionOn(t, be, m, g), make([][]float64, len(seqs))
	for i := range seqs {
		for j := range perSeq {
			// Blocks of a sequence lie apart, so that a wrong table shows.
			s.I32(p.BlockTable)[i*perSeq+j] = int32(j*len(seqs) + i)
		}
	}
	for from := 0; from < perSeq*graph.KVBlock; from += step {
		n, nrows := 0, 0
		for i, ids := range seqs {
			s.I32(p.QStart)[i] = int32(n)
			for j := from; j < min(from+step, len(ids)); j++ {
				s.I32(p.Tokens)[n], s.I32(p.Pos)[n] = int32(ids[j]), int32(j)
				if p.Length != nil {
					s.I32(p.Length)[n] = int32(len(ids))
				}
				block := s.I32(p.BlockTable)[i*perSeq+j/graph.KVBlock]
				s.I32(p.Slots)[n] = block*graph.KVBlock + int32(j%graph.KVBlock)
				if j+1 < len(ids) {
					s.I32(p.Rows)[nrows], s.I32(p.Targets)[nrows] = int32(n), int32(ids[j+1])
					nrows++
				}
				n++
			}
			s.I32(p.KVLen)[i] = int32(min(from+step, len(ids)))
		}
		s.I32(p.QStart)[len(seqs)] = int32(n)
		if n == 0 {
			break
		}
		run(t, s, tensor.Bind{T: n, S: len(seqs), R: nrows})
		r := 0
		for i, ids := range seqs {
			for j := from; j < min(from+step, len(ids)-1); j++ {
				out[i] = append(out[i], float64(s.F32(p.NLL)[r]))
				r++
			}
		}
	}
	return out
}

func idsOf(r testmodels.Reference) [][]int {
	seqs := make([][]int, len(r.Cases))
	for i, c := range r.Cases {
		seqs[i] = c.IDs
	}
	return seqs
}

// Every decoder fixture: likelihoods as transformers has them, prefilled at
// once and in pieces of 7 tokens.
func TestScoresMatchTransformers(t *testing.T) {
	for _, name := range testmodels.Decoders(t) {
		t.Run(name, func(t *testing.T) {
			m, want := openFixture(t, name)
			for _, step := range []int{7, 1 << 10} {
				got, worst := scoreAll(t, m, idsOf(want), step), 0.0
				for i, c := range want.Cases {
					if len(got[i]) != len(c.NLL) {
						t.Fatalf("case %d: %d answers, want %d", i, len(got[i]), len(c.NLL))
					}
					for j, x := range c.NLL {
						worst = max(worst, math.Abs(x-got[i][j]))
					}
				}
				if !(worst <= 2e-5) {
					t.Errorf("pieces of %d: nll off by %.2e", step, worst)
				}
				t.Logf("pieces of %d: worst difference of nll %.1e", step, worst)
			}
		})
	}
}

// Every encoder fixture, in one ragged batch and under every pooling.
func TestEmbeddingsMatchTransformers(t *testing.T) {
	for _, name := range testmodels.Encoders(t) {
		t.Run(name, func(t *testing.T) {
			m, want := openFixture(t, name)
			if got := m.Config().Pooling.String(); got != want.Pooling {
				t.Errorf("pooling %s, want %s", got, want.Pooling)
			}
			if !m.Config().Normalize || m.Config().MaxSeq != want.MaxTokens {
				t.Errorf("normalize %v, %d tokens, want true, %d", m.Config().Normalize, m.Config().MaxSeq, want.MaxTokens)
			}
			got := embedAll(t, m, idsOf(want), EmbedOptions{m.Config().Pooling, true})
			for i, c := range want.Cases {
				sameVector(t, c.Text, got[i], c.Embedding, 1)
			}
			for _, kind := range []graph.PoolKind{graph.PoolMean, graph.PoolCLS, graph.PoolLast} {
				got := embedAll(t, m, idsOf(want), EmbedOptions{Pooling: kind})
				for i, c := range want.Cases {
					sameVector(t, kind.String()+" of "+c.Text, got[i], c.Pooled[kind.String()], c.Norms[kind.String()])
				}
			}
		})
	}
}

// openFixture opens "llama" or "gguf/llama-f32" with its reference.
func openFixture(t *testing.T, name string) (*Model, testmodels.Reference) {
	return open(t, testmodels.Dir(t, name)), testmodels.Load(t, name)
}

// sameVector compares direction and length; want has the direction only.
func sameVector(t *testing.T, what string, got, want []float32, length float64) {
	t.Helper()
	var dot, norm, unit float64
	for i, x := range got {
		y := float64(want[i])
		dot, norm, unit = dot+float64(x)*y, norm+float64(x)*float64(x), unit+y*y
	}
	norm = math.Sqrt(norm)
	if cos := dot / norm / math.Sqrt(unit); !(cos >= 0.9999999) {
		t.Errorf("%.30q: cosine %.8f", what, cos)
	}
	if !(math.Abs(norm/length-1) <= 1e-5) {
		t.Errorf("%.30q: length %g, want %g", what, norm, length)
	}
}

// Token by token over the KV cache, the best token is that of the reference.
func TestGreedyMatchesTransformers(t *testing.T) {
	for _, name := range testmodels.Decoders(t) {
		m, want := openFixture(t, name)
		g, p, err := m.BuildGenerate(tensor.Bind{T: 128, S: 1, R: 1}, KVLayout{Blocks: 4, MaxBlocksPerSeq: 4})
		if err != nil {
			t.Fatal(err)
		}
		s := session(t, m, g)
		for j, block := range []int32{2, 0, 3, 1} {
			s.I32(p.BlockTable)[j] = block
		}
		for _, c := range want.Cases {
			if len(c.IDs) > 100 {
				continue
			}
			ids, past := c.IDs, 0
			for k, next := range c.Greedy {
				n := batch(s, p, [][]int{ids})
				for j := range ids {
					s.I32(p.Pos)[j] = int32(past + j)
					s.I32(p.Slots)[j] = s.I32(p.BlockTable)[(past+j)/graph.KVBlock]*graph.KVBlock + int32((past+j)%graph.KVBlock)
				}
				past += n
				s.I32(p.KVLen)[0], s.I32(p.Rows)[0] = int32(past), int32(n-1)
				run(t, s, tensor.Bind{T: n, S: 1, R: 1})
				if c.Margins[k] < 1e-3 {
					break // rounding may decide
				}
				if got := argmax(s.F32(p.Logits)[:m.cfg.Vocab]); got != next {
					t.Fatalf("%s: %.20q: token %d is %d, want %d", name, c.Text, k, got, next)
				}
				ids = []int{next}
			}
		}
	}
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
