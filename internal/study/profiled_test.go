package study

import (
	"context"
	"testing"

	"hotpath/internal/builtin"
)

// The books of a profiling run have its iterations alone: neither the warm-up nor
// the unrecorded twins are in runs, scopes or requests.
func TestProfileRunCountsItsIterations(t *testing.T) {
	const iterations, tokens = 2, 8
	name := builtin.Default(builtin.Generator)
	if name == "" {
		t.Skip("the program has no model that generates")
	}
	r, err := ProfileRun(context.Background(), ProfileOptions{Options: Options{Model: name}, Work: "generate", Iterations: iterations, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int64{}
	for _, s := range r.Profile.Scopes {
		calls[s.Name] += s.Calls
	}
	for scope, want := range map[string]int64{"iteration": iterations, "sample": iterations * tokens, "batch": iterations * tokens, "compile": 1} {
		if calls[scope] != want {
			t.Errorf("scope %s has %d calls, expected %d", scope, calls[scope], want)
		}
	}
	if q := r.Profile.Requests; q == nil || q.Duration.Count != iterations || q.OutputTokens != iterations*tokens {
		t.Errorf("requests: %+v, expected %d with %d tokens each", q, iterations, tokens)
	}
	if n := r.Profile.Ledger.Runs; n != iterations*tokens {
		t.Errorf("%d runs, expected one per token: %d", n, iterations*tokens)
	}
}

// A profiling run keeps keys and values as a generating command does: in half precision
// unless f32 is asked for.
func TestProfileRunKeepsKeysInHalfPrecision(t *testing.T) {
	name := builtin.Default(builtin.Generator)
	if name == "" {
		t.Skip("the program has no model that generates")
	}
	state := func(precision string) (bytes int64) {
		o := ProfileOptions{Options: Options{Model: name, Precision: precision}, Work: "generate", Iterations: 1, Tokens: 2}
		r, err := ProfileRun(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Profile.Plans {
			bytes = max(bytes, p.MemoryBytes["state"])
		}
		return bytes
	}
	if half, whole := state("auto"), state("f32"); half == 0 || whole != 2*half {
		t.Errorf("%d bytes of state with precision auto, expected half of the %d with f32", half, whole)
	}
}
