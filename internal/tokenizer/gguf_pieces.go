package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// SentencePiece's models as GGUF has them: tokens with scores.

// ggufByte and ggufUnused are token types: one of <0x00>..<0xFF>, and one that the model never saw.
const (
	ggufUnused = 5
	ggufByte   = 6
)

// ggufScores reads a score for each token. Scores that are no numbers are refused.
func ggufScores(m Meta, tokens []string) ([]float32, error) {
	scores, err := ggufColumn(m, "tokenizer.ggml.scores", m.Floats, "numbers", tokens)
	if err != nil {
		return nil, err
	}
	for i, score := range scores {
		if math.IsNaN(float64(score)) || math.IsInf(float64(score), 0) {
			return nil, fmt.Errorf("tokenizer.ggml.scores: entry %d is %v, expected a number", i, score)
		}
	}
	return scores, nil
}

// ggufSentencePiece reads SentencePiece-BPE (Llama 2, Gemma, Phi-3). There are no merges: two symbols are
// joined if they make a token, the best score first, so every place where a token can be cut in two is one.
func ggufSentencePiece(t *Tokenizer, m Meta, tokens []string) error {
	scores, err := ggufScores(m, tokens)
	if err != nil {
		return err
	}
	v, err := ggufVocab(tokens)
	if err != nil {
		return err
	}
	b := &bpe{vocab: v, unk: -1, fuseUnk: true, byteFallback: fallbackBytes(v)}
	if id, ok := t.named.get(roleUNK); ok {
		b.unk = id
	}
	if b.merges, err = scoredMerges(v, scores); err != nil {
		return err
	}
	b.spell(false)
	t.vocab, t.model = v, b
	space := true
	if add, ok := m.Bool("tokenizer.ggml.add_space_prefix"); ok {
		space = add
	}
	chain := normalizerChain{replace{literal(" "), metaSpace}}
	decode := decoderChain{literal(metaSpace).decoder(" "), byteFallbackDecoder{}, fuseDecoder{}}
	if space {
		chain = append(normalizerChain{prepend(metaSpace)}, chain...)
		decode = append(decode, stripDecoder{[]byte(" "), 1, 0})
	}
	t.norm, t.decoder = chain, decode
	if cut := b.breaks(); cut != nil {
		t.steps = []step{cut}
	}
	return ggufFrame(t, m, true, false, roleBOS, roleEOS)
}

// scoredMerges makes a merge of every place where a token can be cut into two others. Its rank is that of
// the token's score: equal scores have equal ranks, and then the leftmost pair is joined first.
func scoredMerges(v *vocab, scores []float32) (*pairTable, error) {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	count := 0
	cuts := func(f func(rank uint32, left, right, id int32)) error {
		rank := uint32(0)
		for n, id := range order {
			if n > 0 && scores[id] != scores[order[n-1]] {
				rank++
			}
			token := v.spelling(id)
			if len(token) > maxPiece {
				return fmt.Errorf("tokenizer.ggml.tokens: entry %d is %d bytes long, expected at most %d", id, len(token), maxPiece)
			}
			if first, ok := v.known(token); !ok || first != id {
				continue // the same token again
			}
			h := hashSeed
			for i := 1; i < len(token); i++ {
				h = hashByte(h, token[i-1])
				if !utf8.RuneStart(token[i]) {
					continue
				}
				left, ok := v.find(h, "", token[:i])
				if !ok {
					continue
				}
				if right, ok := v.known(token[i:]); ok {
					f(rank, left, right, id)
				}
			}
		}
		return nil
	}
	if err := cuts(func(uint32, int32, int32, int32) { count++ }); err != nil {
		return nil, err
	}
	p, err := newPairTable(count, count, len(v.at))
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
	}
	p.ranks = make([]uint32, 0, count)
	return p, cuts(func(rank uint32, left, right, id int32) {
		p.ranks = append(p.ranks, rank)
		p.put(left, right, id, false)
	})
}

// ggufUnigram reads Unigram (T5, XLM-R): normalized by the file's table, spaces as ▁.
func ggufUnigram(t *Tokenizer, m Meta, tokens []string) error {
	scores, err := ggufScores(m, tokens)
	if err != nil {
		return err
	}
	types, err := ggufColumn(m, "tokenizer.ggml.token_type", m.Ints, "integers", tokens)
	if err != nil {
		return err
	}
	v, err := ggufVocab(tokens)
	if err != nil {
		return err
	}
	u := &unigram{vocab: v, unk: -1, narrow: slices.Clone(scores)}
	if id, ok := t.named.get(roleUNK); ok {
		u.unk = id
	} else if i := slices.Index(types, ggufUnknown); i >= 0 {
		u.unk = int32(i)
	}
	least := math.Inf(1)
	for i, kind := range types {
		switch kind {
		case ggufControl, ggufUnknown, ggufByte:
			v.at[i] |= moreFlag // never made of text
		case ggufUserDefined:
			u.narrow[i] = 0
		case ggufUnused:
		default:
			least = min(least, float64(scores[i]))
		}
	}
	if math.IsInf(least, 0) {
		return fmt.Errorf("tokenizer.ggml.token_type: no token is normal, expected at least one")
	}
	u.unkScore = least - unkPenalty
	if u.begin, err = newBeginnings(v); err != nil {
		return fmt.Errorf("tokenizer.ggml.tokens: %w", err)
	}
	t.vocab, t.model = v, u
	var chain normalizerChain
	if n := m.Len("tokenizer.ggml.precompiled_charsmap"); n > maxCharsmap {
		return fmt.Errorf("tokenizer.ggml.precompiled_charsmap: has %d entries, expected at most %d", n, maxCharsmap)
	}
	if blob, ok := m.Ints("tokenizer.ggml.precompiled_charsmap"); ok {
		raw := make([]byte, len(blob))
		for i, b := range blob {
			raw[i] = byte(b)
		}
		table, err := newCharsmap(raw)
		if err != nil {
			return fmt.Errorf("tokenizer.ggml.precompiled_charsmap: %w", err)
		}
		if table != nil {
			chain = append(chain, *table)
		}
	} else if err := mistyped(m, "tokenizer.ggml.precompiled_charsmap", "an array of integers"); err != nil {
		return err
	}
	merge, ok := m.Bool("tokenizer.ggml.remove_extra_whitespaces")
	if merge || !ok {
		chain = append(chain, strip{right: true}, collapseSpaces{})
	}
	t.norm = chain
	spaces := metaspace{char: metaSpace, split: true}
	if add, ok := m.Bool("tokenizer.ggml.add_space_prefix"); ok && !add {
		spaces.scheme = prependNever
	}
	t.steps = []step{spaces}
	if err := growthOf(chain.growth(), t.steps).check(); err != nil {
		return fmt.Errorf("tokenizer.ggml.precompiled_charsmap: %w", err)
	}
	t.decoder = spaces.decoder()
	return ggufFrame(t, m, false, true, roleBOS, roleEOS)
}

// collapseSpaces makes one space of many.
type collapseSpaces struct{}

func (collapseSpaces) normalize(dst, src []byte, _ *Scratch) []byte {
	begun := len(dst)
	for _, c := range src {
		if n := len(dst); c != ' ' || n == begun || dst[n-1] != ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}
