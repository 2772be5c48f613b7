package optest

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"hotpath/internal/graph"
)

// TestKeptOperands: benches that share operands have those that they would draw and
// quantize alone, also after a case has changed its own.
func TestKeptOperands(t *testing.T) {
	shared := kept
	defer func() { kept = shared }()
	byName := func(v, w *graph.Value) int { return int(v.ID) - int(w.ID) }
	for some := range slices.Chunk(Cases(), 5) {
		c := some[0]
		kept = nil
		alone, _, err := Forward(c, binds[1])
		if err != nil {
			t.Fatal(err)
		}
		kept = shared
		for range 2 {
			b, _, err := Forward(c, binds[1])
			if err != nil {
				t.Fatal(err)
			}
			want, got := slices.SortedFunc(maps.Keys(alone.floats), byName), slices.SortedFunc(maps.Keys(b.floats), byName)
			if len(got) != len(want) || len(b.files) != len(alone.files) {
				t.Fatalf("%s: %d operands and %d weights, expected %d and %d", c.Name, len(got), len(b.files), len(want), len(alone.files))
			}
			for i, v := range got {
				if !slices.Equal(b.floats[v], alone.floats[want[i]]) {
					t.Errorf("%s: operand %d differs", c.Name, i)
				}
				clear(b.floats[v])
			}
			for key, w := range b.files {
				if !bytes.Equal(w.Data, alone.files[key].Data) {
					t.Errorf("%s: weight %s differs", c.Name, key)
				}
			}
		}
	}
}
