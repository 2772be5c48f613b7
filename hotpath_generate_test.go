package hotpath

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

// A longer text takes more room now and then, and nothing for each token.
func TestCompleteAllocatesSeldom(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"), Options{Threads: 2})
	allocs := func(tokens int) float64 {
		return testing.AllocsPerRun(3, func() {
			c, err := m.Complete(context.Background(), "A stitch in time", GenerateOptions{MaxTokens: tokens, Raw: true, IgnoreEOS: true})
			if err != nil || c.CompletionTokens != tokens || c.Text == "" {
				t.Fatalf("%d tokens, %v", c.CompletionTokens, err)
			}
		})
	}
	if few, many := allocs(8), allocs(72); many-few > 24 {
		t.Errorf("%v allocations for 8 tokens, %v for 72", few, many)
	}
}

func TestGenerateTexts(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Decoders(t)) {
		r := testmodels.Load(t, name)
		for _, device := range devices {
			t.Run(name+"/"+device, func(t *testing.T) {
				m := open(t, testmodels.Dir(t, name), Options{Device: device, Precision: "f32", Threads: 2})
				for i, c := range r.Cases[:3] {
					got, err := m.Complete(context.Background(), c.Text, GenerateOptions{MaxTokens: len(c.Greedy), Raw: true, IgnoreEOS: true})
					if err != nil {
						t.Fatal(err)
					}
					for k, id := range got.IDs {
						if c.Margins[k] < 1e-3 {
							break
						}
						if int(id) != c.Greedy[k] {
							t.Errorf("text %d: %v, expected %v", i, got.IDs, c.Greedy)
							break
						}
					}
					if got.FinishReason != "length" || got.CompletionTokens != len(c.Greedy) || got.PromptTokens != len(c.IDs) || got.Timing.Prefill <= 0 {
						t.Errorf("text %d: %+v", i, got)
					}
					if want := m.tok.Decode(got.IDs, true); got.Text != want {
						t.Errorf("text %d: %q, expected %q", i, got.Text, want)
					}
				}
			})
		}
	}
}

// What came before a completion was cut short is part of the answer.
func TestCompleteCutShort(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"), Options{Device: "ref"})
	for wait := time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		c, err := m.Complete(ctx, "once upon", GenerateOptions{Raw: true, IgnoreEOS: true})
		cancel()
		if err == nil {
			t.Fatal("the context was full before it could be cut short")
		}
		if len(c.IDs) < 2 {
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || c.CompletionTokens != len(c.IDs) || c.Text == "" || c.FinishReason != "" {
			t.Errorf("%d tokens and then %v, but the completion is %+v", len(c.IDs), err, c)
		}
		return
	}
}

func TestStopStrings(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"), Options{})
	ctx := context.Background()
	o := GenerateOptions{MaxTokens: 40, Raw: true, IgnoreEOS: true}
	whole, err := m.Complete(ctx, "A stitch in time", o)
	if err != nil {
		t.Fatal(err)
	}
	runes := []rune(whole.Text)
	word := string(runes[len(runes)/2 : len(runes)/2+5])
	o.Stop = []string{word}
	var streamed strings.Builder
	var c Completion
	o.Completion = &c
	for tok, err := range m.Generate(ctx, "A stitch in time", o) {
		if err != nil {
			t.Fatal(err)
		}
		streamed.WriteString(tok.Text)
	}
	want, _, _ := strings.Cut(whole.Text, word)
	if streamed.String() != want || c.Text != want || c.FinishReason != "stop" {
		t.Errorf("%q (%q, %s), expected %q", streamed.String(), c.Text, c.FinishReason, want)
	}
	// Leaving the loop early is no error and hurts nobody.
	for range m.Generate(ctx, "A stitch", GenerateOptions{Raw: true}) {
		break
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Complete(cancelled, "A stitch", GenerateOptions{Raw: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := m.Complete(ctx, "x", GenerateOptions{Temperature: -1}); !errors.Is(err, ErrInput) {
		t.Errorf("temperature -1: %v", err)
	}
}
