package engine

import (
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/profile"
)

// A pause holds for programs that are compiled during it too: a warm-up that is
// their first use stays out of the books.
func TestPauseBeforeCompiling(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	e := open(t, "llama", ref.New(), Options{Recorder: rec})
	req := Request{Prompt: []int32{1, 2, 3, 4}, MaxTokens: 3}
	runs := func() (n int64) {
		for _, p := range rec.Snapshot().Plans {
			n += p.Ledger.Runs
		}
		return n
	}
	e.Pause(true)
	generate(t, e, req)
	hold(e.generator) // the loop may still be at the end of its last step
	if n := runs(); n != 0 {
		t.Errorf("%d runs recorded during a pause that began before anything was compiled", n)
	}
	e.generator.mu.Lock()
	e.generator.looping = false
	e.generator.mu.Unlock()
	e.Pause(false)
	generate(t, e, req)
	hold(e.generator)
	if n := runs(); n != 3 {
		t.Errorf("%d runs recorded, expected a prefill and 2 decodes", n)
	}
}

// A run of one request is that request's, and one of several says how much is
// whose: exports label their samples with it.
func TestRunsSayWhoseTheyAre(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	e := open(t, "llama", ref.New(), Options{Recorder: rec})
	_, alone := generate(t, e, Request{Prompt: []int32{1, 2, 3, 4}, MaxTokens: 2})
	hold(e.generator)
	var streams []*Stream
	for range 2 {
		s, err := e.Generate(t.Context(), Request{Prompt: []int32{5, 6, 7}, MaxTokens: 2})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	e.generator.mu.Lock()
	e.generator.looping = false
	e.generator.mu.Unlock()
	_, last := generate(t, e, Request{Prompt: []int32{8, 9}, MaxTokens: 2}) // wakes the loop
	for _, s := range streams {
		collect(t, s)
	}
	hold(e.generator)
	one, several := 0, 0
	for _, r := range rec.Snapshot().Runs {
		switch {
		case r.Request == alone.name && len(r.Shares) == 1 && r.Shares[0].Request == alone.name:
			one++
		case r.Request == "" && len(r.Shares) == 3 && r.Shares[2].Request == last.name:
			several++
		default:
			t.Errorf("a run of %q and of %v", r.Request, r.Shares)
		}
	}
	if one != 2 || several != 2 {
		t.Errorf("%d runs of one request and %d of three, expected 2 and 2", one, several)
	}
}
