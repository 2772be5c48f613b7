package hotpath

import (
	"context"
	"errors"
	"math"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
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

// TestKVBytesPerToken: Info says what a token takes in the cache that the options
// ask for, f16 by default, and this is what the engine allocates.
func TestKVBytesPerToken(t *testing.T) {
	for _, c := range []struct {
		model   string
		options Options
		kind    string
		bytes   int64 // of one value
	}{
		{"llama", Options{}, "F16", 2},
		{"llama", Options{Precision: "f32"}, "F32", 4},
		{"llama", Options{Precision: "f32", KVType: "f16"}, "F16", 2},
		{"gpt2", Options{KVType: "f32"}, "F32", 4},
	} {
		rec := profile.NewRecorder(profile.Options{})
		c.options.Profile = rec
		m := open(t, testmodels.Dir(t, c.model), c.options)
		i, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * c.bytes * int64(i.Layers*i.KVHeads*i.HeadDim); i.KVBytesPerToken != want || i.KVType != c.kind {
			t.Errorf("%s, %+v: %d bytes per token of %s, expected %d of %s", c.model, c.options.KVType, i.KVBytesPerToken, i.KVType, want, c.kind)
		}
		if _, err := m.Complete(context.Background(), "rain", GenerateOptions{MaxTokens: 1, Raw: true}); err != nil {
			t.Fatal(err)
		}
		blocks := int64(m.Stats().KVBlocks)
		for _, p := range rec.Snapshot().Plans {
			if got := p.MemoryBytes["state"]; got != blocks*64*i.KVBytesPerToken {
				t.Errorf("%s: %d blocks take %d bytes, expected %d per token", c.model, blocks, got, i.KVBytesPerToken)
			}
		}
	}
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	if i, err := m.Info(); err != nil || i.KVBytesPerToken != 0 || i.KVType != "" {
		t.Errorf("an encoder: %d bytes of %q, %v", i.KVBytesPerToken, i.KVType, err)
	}
}
