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
