package shapes

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// WriteText makes a tokenizer of a vocabulary of words and a text of random ones, as
// tokenizer.json and data.txt: what training from random weights needs.
func WriteText(folder string, vocab, words int) error {
	ids := make(map[string]int, vocab)
	for i := range vocab {
		ids["w"+strconv.Itoa(i)] = i
	}
	file, err := json.Marshal(map[string]any{
		"model":         map[string]any{"type": "WordLevel", "unk_token": "w0", "vocab": ids},
		"pre_tokenizer": map[string]any{"type": "WhitespaceSplit"},
	})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for range words {
		text = append(strconv.AppendInt(append(text, 'w'), int64(r.IntN(vocab)), 10), ' ')
	}
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), file, 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "data.txt"), text, 0o666)
}
