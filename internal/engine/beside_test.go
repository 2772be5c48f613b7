package engine

import (
	"errors"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/testmodels"
)

// TestEnginesShareWeights: an engine beside another, with other workers, packs nothing
// again, gives the same vectors, and leaves the weights to the others when it closes, in
// whatever order. One of another model or backend is refused.
func TestEnginesShareWeights(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	first := open(t, "bert", be, Options{})
	ids := [][]int32{{1, 2, 3, 4, 5}}
	embed := func(e *Engine) []float32 {
		t.Helper()
		v := make([]float32, e.cfg.EmbedDim)
		if err := e.EmbedIDs(t.Context(), ids, v, e.pooling()); err != nil {
			t.Fatal(err)
		}
		return v
	}
	want := embed(first)
	bytes := first.WeightBytes()
	second, err := Open(first.model, be, Options{Workers: 1, Beside: first})
	if err != nil {
		t.Fatal(err)
	}
	if second.weights != first.weights {
		t.Error("the second engine has weights of its own")
	}
	if got := embed(second); !slices.Equal(got, want) {
		t.Error("the vectors differ")
	}
	if n := first.WeightBytes(); n != bytes || bytes == 0 {
		t.Errorf("%d bytes of weights, %d with one engine", n, bytes)
	}
	third, err := Open(first.model, be, Options{Workers: 2, Beside: first})
	if err != nil {
		t.Fatal(err)
	}
	if got := embed(third); !slices.Equal(got, want) {
		t.Error("the vectors of the third engine differ")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if n := first.WeightBytes(); n != bytes {
		t.Errorf("%d of %d bytes of weights are left when the second engine has closed", n, bytes)
	}
	if got := embed(first); !slices.Equal(got, want) {
		t.Error("the vectors differ when the second engine has closed")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := embed(third); !slices.Equal(got, want) {
		t.Error("the vectors differ when the first engine has closed")
	}
	if err := third.Close(); err != nil || third.WeightBytes() != 0 {
		t.Errorf("%v, %d bytes of weights when the last engine has closed", err, third.WeightBytes())
	}
	other := open(t, testmodels.Directories(testmodels.Encoders(t))[1], be, Options{})
	if _, err := Open(other.model, be, Options{Beside: first}); !errors.Is(err, ErrInput) {
		t.Errorf("beside an engine of another model: %v", err)
	}
	elsewhere, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, err := Open(first.model, elsewhere, Options{Beside: first}); !errors.Is(err, ErrInput) {
		t.Errorf("beside an engine of another backend: %v", err)
	}
}
