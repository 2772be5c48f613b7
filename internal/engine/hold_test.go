package engine

import (
	"context"
	"testing"

	"hotpath/internal/sample"
	"hotpath/internal/testmodels"
)

// TestHeldGenerationsBeginTogether: in the order in which they started, and a release
// too many starts nothing twice.
func TestHeldGenerationsBeginTogether(t *testing.T) {
	e := openAt(t, testmodels.Dir(t, "llama"), Options{})
	release, again := e.HoldGenerations(), e.HoldGenerations()
	var streams []*Stream
	for i := range 5 {
		s, err := e.Generate(context.Background(), Request{Prompt: []int32{2, 3, int32(4 + i)}, MaxTokens: 3, Sample: sample.Params{}})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	release()
	release()
	if g := e.generator; g.looping || len(g.arrived) != 5 {
		t.Fatalf("looping: %t, %d wait, expected 5 that wait for the second release", g.looping, len(g.arrived))
	}
	before := e.Stats()
	again()
	for i, s := range streams {
		if ids := collect(t, s); len(ids) != 3 || s.Err() != nil {
			t.Errorf("stream %d: %v, %v", i, ids, s.Err())
		}
	}
	if steps := e.Stats().Steps - before.Steps; steps != 3 {
		t.Errorf("%d steps for 5 answers of 3 tokens, expected 3", steps)
	}
}
