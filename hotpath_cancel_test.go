package hotpath

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// endless gives texts until nobody wants them.
func endless(yield func(string, error) bool) {
	for yield("a text", nil) {
	}
}

// Every call that can take long ends with its context, before its first step
// where it has ended already.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	bert, llama := open(t, testmodels.Dir(t, "bert"), Options{}), open(t, testmodels.Dir(t, "llama"), Options{})
	long := strings.Repeat("many words ", 100)
	for name, call := range map[string]func(ctx context.Context) error{
		"OpenContext": func(ctx context.Context) error {
			m, err := OpenContext(ctx, testmodels.Dir(t, "bert"), Options{})
			if m != nil {
				t.Error("OpenContext: a model beside the error")
			}
			return err
		},
		"Embed": func(ctx context.Context) error {
			_, err := bert.Embed(ctx, []string{long}, EmbedOptions{})
			return err
		},
		"EmbedStream": func(ctx context.Context) (last error) {
			for _, err := range bert.EmbedStream(ctx, endless, EmbedOptions{}) {
				last = err
			}
			return last
		},
		"Rerank": func(ctx context.Context) error {
			_, err := open(t, filepath.Join("internal", "model", "testdata", "encoders", "rerank-bert"), Options{}).Rerank(ctx, "query", []string{long})
			return err
		},
		"Generate": func(ctx context.Context) (last error) {
			for _, err := range llama.Generate(ctx, "text", GenerateOptions{}) {
				last = err
			}
			return last
		},
		"Score": func(ctx context.Context) error {
			_, err := llama.Score(ctx, []string{long}, ScoreOptions{})
			return err
		},
		"Perplexity": func(ctx context.Context) error {
			_, err := llama.Perplexity(ctx, long, PerplexityOptions{Ctx: 16})
			return err
		},
		"TokenizeAllContext": func(ctx context.Context) error {
			ids, err := llama.TokenizeAllContext(ctx, []string{long}, false)
			if ids != nil {
				t.Error("TokenizeAllContext: ids beside the error")
			}
			return err
		},
	} {
		if err := call(gone); !errors.Is(err, cause) {
			t.Errorf("%s: %v, expected the cause of the context's end", name, err)
		}
	}
}

// No window is begun after the context has ended.
func TestPerplexityEndsBetweenWindows(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	windows := 0
	_, err := open(t, testmodels.Dir(t, "llama"), Options{}).Perplexity(ctx, strings.Repeat("many words ", 200), PerplexityOptions{Ctx: 16, Progress: func(p Perplexity) {
		if windows = p.Windows; windows == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || windows != 2 {
		t.Errorf("Perplexity: %v after %d windows, expected to end after 2", err, windows)
	}
}
