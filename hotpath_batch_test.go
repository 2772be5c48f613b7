package hotpath

import (
	"context"
	"slices"
	"testing"

	"hotpath/internal/testmodels"
)

// Where weights are packed, a text's vector at the default precision has the
// same bits alone and among others: what a stream was cut into does not show.
func TestVectorsDoNotDependOnTheBatch(t *testing.T) {
	for _, name := range []string{"bert", "bert-odd"} {
		m := open(t, testmodels.Dir(t, name), Options{Threads: 2})
		texts := []string{"one", "a second text that is longer than the first", "three", "the fourth of five texts", "5"}
		all, err := m.Embed(context.Background(), texts, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			alone, err := m.Embed(context.Background(), []string{text}, EmbedOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(alone[0], all[i]) {
				t.Errorf("%s: %q alone is not what it is among others", name, text)
			}
		}
	}
}
