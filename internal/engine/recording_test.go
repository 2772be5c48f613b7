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

// Requests that are alike take as many FLOPs each, whoever they share their runs
// with: prompts beside tokens that decode are counted by what each token attends to,
// and logits by who gets some.
func TestEqualRequestsCostTheSame(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	e := open(t, "llama", ref.New(), Options{Recorder: rec, NoPrefix: true})
	req := Request{Prompt: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, MaxTokens: 8}
	var streams []*Stream
	for range 4 {
		s, err := e.Generate(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Next(); !ok { // it decodes before the next one comes
			t.Fatal(s.Err())
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		collect(t, s)
	}
	hold(e.generator)
	p := rec.Snapshot()
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	parts := p.Requests.Parts
	if len(parts) != 4 {
		t.Fatalf("%d requests, expected 4", len(parts))
	}
	var all float64
	for _, r := range parts {
		if off := r.FLOPs/parts[0].FLOPs - 1; off > 1e-9 || off < -1e-9 {
			t.Errorf("%s took %.0f FLOPs, %s %.0f", r.Request, r.FLOPs, parts[0].Request, parts[0].FLOPs)
		}
		all += r.FLOPs
	}
	var counted float64
	for i := range p.Plans {
		for _, st := range p.Plans[i].Stats {
			counted += float64(st.FLOPs)
		}
	}
	if all < 0.999999*counted || all > 1.000001*counted {
		t.Errorf("requests took %.0f FLOPs together, the runs %.0f", all, counted)
	}
}

// The time to the first token is the caller's, with what it was spent for.
func TestFirstTokenIsTheCallers(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	e := open(t, "llama", ref.New(), Options{Recorder: rec})
	called := profile.Now()
	req := Request{Prompt: []int32{1, 2, 3, 4}, MaxTokens: 3, Called: called, Tokenized: called + 1000}
	generate(t, e, req)
	hold(e.generator)
	q := rec.Snapshot().Requests
	if len(q.Kept) != 1 {
		t.Fatalf("%d requests", len(q.Kept))
	}
	r := q.Kept[0]
	if r.Start != called || r.Tokenize != 1000 || r.Compile <= 0 || r.Queue < 0 || r.FirstToken-r.Start < r.Tokenize+r.Compile+r.Queue+r.Hand {
		t.Errorf("%+v, expected what the first token waited for, from %d on", r, called)
	}
	if q.FirstToken.Sum != r.FirstToken-r.Start || q.Compile.Sum != r.Compile || q.Prefill.Count != 1 {
		t.Errorf("%+v", q)
	}
}
