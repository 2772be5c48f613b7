package hotpath

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/engine"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// PerplexityOptions say how a text is cut into windows.
type PerplexityOptions struct {
	Ctx int // tokens of a window; 0 means 512
	// Stride is by how many tokens a window is further on than the one before.
	// 0 means that windows do not overlap and that the second half of each is
	// scored; otherwise every token is scored once, in the first window that
	// has it.
	Stride  int
	Windows int // at most so many; 0 means all that the text has
	// Progress, if not nil, is called for each window; short ones are scored
	// some at a time.
	Progress func(Perplexity)
}

// Perplexity is how well a model predicts a long text.
type Perplexity struct {
	PPL     float64 // exp of the mean of -log p of the tokens scored
	Tokens  int     // in the windows
	Scored  int     // of them
	Windows int     // so far
	Of      int     // windows in all
	Ctx     int
}

// Perplexity measures how well the model predicts a text that is longer than a
// window. Windows begin with the token that the model's texts begin with, where
// it has one; special tokens that the text spells are text. The result has the
// same bits at any number of threads. A text shorter than a window is ErrInput.
func (m *Model) Perplexity(ctx context.Context, text string, o PerplexityOptions) (out Perplexity, err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return out, err
	}
	if !m.cfg.CanGenerate {
		return out, fmt.Errorf("%w: %s models compute no likelihoods", ErrUnsupported, m.cfg.Arch)
	}
	if o.Ctx == 0 {
		o.Ctx = 512
	}
	if o.Ctx < 4 || o.Stride < 0 || o.Stride >= o.Ctx {
		return out, fmt.Errorf("%w: windows of %d tokens with stride %d, expected at least 4 tokens and a smaller stride", ErrInput, o.Ctx, o.Stride)
	}
	if o.Windows < 0 {
		return out, fmt.Errorf("%w: %d windows, expected 0 or more", ErrInput, o.Windows)
	}
	ctx = m.recorded(ctx)
	_, end := profile.Scope(ctx, "tokenize")
	ids := m.tok.Encode(nil, text, tokenizer.Options{Special: true, Done: ctx.Done()}, new(tokenizer.Scratch))
	begin, hasBegin := m.beginning()
	end()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if len(ids) < o.Ctx {
		return out, fmt.Errorf("%w: %d tokens, expected at least a window of %d", ErrInput, len(ids), o.Ctx)
	}
	windows := windowsOf(len(ids), o.Ctx, o.Stride)
	if o.Windows > 0 {
		windows = windows[:min(o.Windows, len(windows))]
	}
	out = Perplexity{Ctx: o.Ctx, Of: len(windows), PPL: math.NaN()}
	var sum float64
	batch := max(1, perplexityTokens/o.Ctx)
	for len(windows) > 0 {
		some := windows[:min(batch, len(windows))]
		windows = windows[len(some):]
		seqs, first := make([][]int32, len(some)), make([]int, len(some))
		for i, w := range some {
			seqs[i], first[i] = slices.Clone(ids[w.begin:w.end]), w.score
			if hasBegin {
				seqs[i][0] = begin
			}
		}
		nll, err := m.eng.ScoreTails(ctx, seqs, first)
		if err != nil {
			return out, err
		}
		for i, tail := range nll {
			if ctx.Err() != nil { // by Progress
				return out, context.Cause(ctx)
			}
			for _, v := range tail {
				sum += float64(v)
			}
			out.Tokens += len(seqs[i])
			out.Scored += len(tail)
			out.Windows++
			out.PPL = math.Exp(sum / float64(out.Scored))
			if o.Progress != nil {
				o.Progress(out)
			}
		}
	}
	return out, nil
}

// perplexityTokens are scored together, where windows are shorter: enough to
// fill runs of the model, and little to wait for between two calls of Progress.
const perplexityTokens = 2048

// beginning is the token that the tokenizer puts before a text, if it does.
func (m *Model) beginning() (int32, bool) {
	const text = "a"
	plain := m.tok.Encode(nil, text, tokenizer.Options{}, nil)
	whole := m.tok.Encode(nil, text, tokenizer.Options{Special: true}, nil)
	if len(plain) == 0 || len(whole) <= len(plain) || slices.Equal(whole[:len(plain)], plain) {
		return 0, false
	}
	return whole[0], true
}

// stretch is one window of a text, and the first of its tokens that is scored.
type stretch struct{ begin, end, score int }

// windowsOf cuts n tokens into windows.
func windowsOf(n, size, stride int) (out []stretch) {
	if stride == 0 {
		for at := 0; at+size <= n; at += size {
			// The logits of the second half predict all of it but its first token.
			out = append(out, stretch{at, at + size, size/2 + 1})
		}
		return out
	}
	for at, scored := 0, 1; scored < n; at += stride { // nothing predicts the first token
		end := min(at+size, n)
		out = append(out, stretch{at, end, scored - at})
		scored = end
	}
	return out
}
