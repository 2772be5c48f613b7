package hotpath

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

// numbered are n texts of several lengths.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("text %d%s", i, strings.Repeat(" and rain", i%7))
	}
	return out
}

func source(texts []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, t := range texts {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// settled waits until no goroutine is left that was not there before.
func settled(t *testing.T, before int) {
	t.Helper()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 1000 {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

func TestEmbedStreamKeepsOrder(t *testing.T) {
	for _, device := range devices {
		m := open(t, testmodels.Dir(t, "bert"), Options{Device: device, Threads: 2})
		texts := numbered(map[string]int{"cpu": 1000, "ref": 20, "null": 20}[device])
		want, err := m.Embed(context.Background(), texts, EmbedOptions{Dim: 8})
		if err != nil {
			t.Fatal(err)
		}
		before, n := runtime.NumGoroutine(), 0
		for e, err := range m.EmbedStream(context.Background(), source(texts), EmbedOptions{Dim: 8}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Index != n || !slices.Equal(e.Vector, want[n]) || e.Tokens == 0 || e.Chunks != 1 || e.Truncated {
				t.Fatalf("%s: answer %d is %+v, expected %v", device, n, e, want[n])
			}
			n++
		}
		if n != len(texts) {
			t.Errorf("%s: %d answers to %d texts", device, n, len(texts))
		}
		settled(t, before)
	}
}

// A text that cannot be embedded is an error in its place, and no more.
func TestEmbedStreamErrorsOfOneText(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	bad := errors.New("unreadable")
	in := func(yield func(string, error) bool) {
		_ = yield("first", nil) && yield("", bad) && yield(strings.Repeat("long ", 500), nil) && yield("last", nil)
	}
	var got []error
	for e, err := range m.EmbedStream(context.Background(), in, EmbedOptions{NoTruncate: true}) {
		if e.Index != len(got) || (err == nil) != (e.Vector != nil) {
			t.Errorf("answer %d is %+v, %v", len(got), e, err)
		}
		got = append(got, err)
	}
	var long *TooLongError
	if len(got) != 4 || got[0] != nil || !errors.Is(got[1], bad) || !errors.As(got[2], &long) || got[3] != nil {
		t.Fatalf("%v", got)
	}
	if info, _ := m.Info(); long.Index != 2 || long.Tokens != 502 || long.Max != info.MaxTokens || !errors.Is(long, ErrTooLong) {
		t.Errorf("%+v", long)
	}
	for _, err := range m.EmbedStream(context.Background(), source(numbered(3)), EmbedOptions{Dim: 1 << 20}) {
		if !errors.Is(err, ErrInput) {
			t.Errorf("too many dimensions: %v", err)
		}
	}
	panicking := func(yield func(string, error) bool) { _ = yield("one", nil); panic("no more") }
	got = nil
	for _, err := range m.EmbedStream(context.Background(), panicking, EmbedOptions{}) {
		got = append(got, err)
	}
	if len(got) != 2 || got[0] != nil || got[1] == nil || !strings.Contains(got[1].Error(), "no more") {
		t.Errorf("a source that panics: %v", got)
	}
}

// Somebody who asks one text at a time gets each answer before the next text.
func TestEmbedStreamAnswersWhatIsThere(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	questions, answers := make(chan string), make(chan int)
	go func() {
		defer close(questions)
		for i := range 5 {
			questions <- "a question"
			if got := <-answers; got != i {
				t.Errorf("answer %d to question %d", got, i)
			}
		}
	}()
	in := func(yield func(string, error) bool) {
		for q := range questions {
			if !yield(q, nil) {
				return
			}
		}
	}
	for e, err := range m.EmbedStream(context.Background(), in, EmbedOptions{}) {
		if err != nil || e.Ready != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		answers <- e.Index
	}
}

// However long the input is, what lies between source and reader is bounded,
// and a reader who leaves or cancels ends everything.
func TestEmbedStreamIsBounded(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{Threads: 2})
	before := runtime.NumGoroutine()
	var pulled atomic.Int64
	endless := func(yield func(string, error) bool) {
		for yield("rain", nil) {
			pulled.Add(1)
		}
	}
	read := int64(0)
	for range m.EmbedStream(context.Background(), endless, EmbedOptions{}) {
		read++
		if ahead := pulled.Load() - read; ahead > streamQueue+4*streamTexts {
			t.Fatalf("%d texts are between source and reader", ahead)
		}
		if read == 2000 {
			break
		}
	}
	settled(t, before)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	after := 0
	for _, err := range m.EmbedStream(ctx, endless, EmbedOptions{}) {
		if last = err; ctx.Err() != nil {
			after++
		}
		cancel()
	}
	if !errors.Is(last, context.Canceled) || after > 3*streamTexts {
		t.Errorf("cancelled: %v after %d more answers", last, after)
	}
	settled(t, before)
}

// A run that serves one caller ends with it: what is left is a few steps, not
// the rest of the texts.
func TestCancelEndsTheRun(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{Threads: 2})
	texts := numbered(20000)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := m.Embed(ctx, texts, EmbedOptions{})
		failed <- err
	}()
	for m.eng.Stats().EmbedTokens == 0 {
		time.Sleep(100 * time.Microsecond)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	done := m.eng.Stats().EmbedTokens
	if whole := int64(20000 * 5); done > whole/2 {
		t.Errorf("%d of at least %d tokens were embedded after all", done, whole)
	}
}

func TestStreamBesideClose(t *testing.T) {
	m, err := Open(testmodels.Dir(t, "bert"), Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	endless := func(yield func(string, error) bool) {
		for yield("rain", nil) {
		}
	}
	closed := make(chan error, 1)
	var last error
	once := false
	for _, err := range m.EmbedStream(context.Background(), endless, EmbedOptions{}) {
		if last = err; !once {
			once = true
			go func() { closed <- m.Close() }()
		}
	}
	if !errors.Is(last, ErrClosed) {
		t.Errorf("the stream ended with %v", last)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
