package hotpath

import (
	"context"
	"errors"
	"math"
	"testing"

	"hotpath/internal/testmodels"
)

// A KV cache in half floats moves likelihoods by little, and one whose blocks
// do not fit the heads is refused.
func TestKVTypes(t *testing.T) {
	const text = "It was the best of times, it was the worst of times."
	nll := func(kvType string) []float32 {
		m, err := Open(testmodels.Dir(t, "llama"), Options{Precision: "f32", KVType: kvType})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s, err := m.Score(context.Background(), []string{text}, ScoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s[0].NLL
	}
	want, got := nll("f32"), nll("f16")
	same := true
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); d > 2e-2 {
			t.Errorf("token %d: %g with f16, %g with f32", i, got[i], want[i])
		}
		same = same && got[i] == want[i]
	}
	if same {
		t.Error("f16 changed nothing: is the cache in f32?")
	}
	for _, bad := range []string{"q8_0", "q4_0", "nonsense"} { // its heads have 16 values
		if m, err := Open(testmodels.Dir(t, "llama"), Options{KVType: bad}); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", bad, err)
			if err == nil {
				m.Close()
			}
		}
	}
}
