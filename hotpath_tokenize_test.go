package hotpath_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

// Many texts at once, from several goroutines, have the ids that each has
// alone, and no answer is written over by a later one.
func TestTokenizeAll(t *testing.T) {
	tok, err := hotpath.OpenTokenizer(testmodels.Dir(t, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{""}
	for i := range 2000 {
		texts = append(texts, fmt.Sprintf("text %d: %s", i, strings.Repeat("the king of france ", i%7)))
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for _, special := range []bool{true, false} {
				all := tok.TokenizeAll(texts, special)
				tok.TokenizeAll(texts[:10], special)
				if len(all) != len(texts) {
					t.Errorf("%d answers for %d texts", len(all), len(texts))
					return
				}
				for i, text := range texts {
					if want := tok.Tokenize(text, special); !slices.Equal(all[i], want) || all[i] == nil {
						t.Errorf("%q: %v, alone %v", text, all[i], want)
						return
					}
				}
			}
		})
	}
	group.Wait()
}
