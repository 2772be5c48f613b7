package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Kinds of tokens, numbered as in GGUF.
const (
	normalToken  int32 = 1
	unknownToken int32 = 2
	controlToken int32 = 3
	userToken    int32 = 4
	unusedToken  int32 = 5
	byteToken    int32 = 6
)

// vocabulary is what becomes of a tokenizer.json.
type vocabulary struct {
	model  string // tokenizer.ggml.model
	pre    string // tokenizer.ggml.pre
	tokens []string
	kinds  []int32
	scores []float32
	merges []string
	keys   []entry  // further ones
	loose  []string // added tokens whose surroundings matter
}

// entry is a key of metadata.
type entry struct {
	key   string
	value any
}

func (v *vocabulary) add(key string, value any) { v.keys = append(v.keys, entry{key, value}) }

// write sets the keys of a vocabulary.
func (v *vocabulary) write(set func(key string, value any)) {
	const p = "tokenizer.ggml."
	set(p+"model", v.model)
	set(p+"pre", v.pre)
	set(p+"tokens", v.tokens)
	set(p+"token_type", v.kinds)
	if v.scores != nil {
		set(p+"scores", v.scores)
	}
	if v.merges != nil {
		set(p+"merges", v.merges)
	}
	for _, k := range v.keys {
		set(k.key, k.value)
	}
}

// jsonTokenizer is what of a tokenizer.json matters here.
type jsonTokenizer struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
		Left    bool   `json:"lstrip"`
		Right   bool   `json:"rstrip"`
		Word    bool   `json:"single_word"`
	} `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		UnkToken     string          `json:"unk_token"`
		UnkID        *int            `json:"unk_id"`
		ByteFallback bool            `json:"byte_fallback"`
	} `json:"model"`
}

const maxTokens = 1 << 22

// readVocabulary reads tokens, kinds, scores and merges; rows is how many
// tokens the model has room for.
func readVocabulary(file string, data []byte, rows int) (*vocabulary, error) {
	bad := func(format string, args ...any) (*vocabulary, error) {
		return nil, fmt.Errorf("%s: %s: %w", file, fmt.Sprintf(format, args...), weights.ErrInvalid)
	}
	var t jsonTokenizer
	if err := json.Unmarshal(data, &t); err != nil {
		return bad("%v", err)
	}
	if t.Model.Type == "" && t.Model.Merges != nil {
		t.Model.Type = "BPE"
	}
	v := &vocabulary{pre: "default"}
	ids := map[int]string{}
	var scores map[int]float32
	switch t.Model.Type {
	case "BPE", "WordPiece":
		var vocab map[string]int
		if err := json.Unmarshal(t.Model.Vocab, &vocab); err != nil {
			return bad("field model.vocab: %v", err)
		}
		for token, id := range vocab {
			ids[id] = token
		}
	case "Unigram":
		var vocab [][2]json.RawMessage
		if err := json.Unmarshal(t.Model.Vocab, &vocab); err != nil {
			return bad("field model.vocab: %v", err)
		}
		scores = map[int]float32{}
		for id, row := range vocab {
			var token string
			var score float64
			if json.Unmarshal(row[0], &token) != nil || json.Unmarshal(row[1], &score) != nil {
				return bad("field model.vocab: entry %d, expected a token and its score", id)
			}
			ids[id], scores[id] = token, float32(score)
		}
	default:
		return nil, fmt.Errorf("%s: field model.type: %q, expected BPE, WordPiece or Unigram: %w", file, t.Model.Type, weights.ErrUnsupported)
	}
	n := rows
	for id := range ids {
		n = max(n, id+1)
	}
	for _, a := range t.AddedTokens {
		n = max(n, a.ID+1)
	}
	if n > maxTokens || n > rows && rows > 0 {
		// Tokens beyond the table are never seen by the model.
		if n = rows; n > maxTokens {
			return bad("%d tokens, expected at most %d", n, maxTokens)
		}
	}
	v.tokens, v.kinds = make([]string, n), make([]int32, n)
	for id := range v.tokens {
		v.tokens[id], v.kinds[id] = fmt.Sprintf("[PAD%d]", id), unusedToken
	}
	for id, token := range ids {
		if id < 0 {
			return bad("field model.vocab: token %q has the id %d", token, id)
		}
		if id < n {
			v.tokens[id], v.kinds[id] = token, normalToken
		}
	}
	for _, a := range t.AddedTokens {
		if a.ID < 0 {
			return bad("field added_tokens: token %q has the id %d", a.Content, a.ID)
		}
		if a.ID < n {
			v.tokens[a.ID], v.kinds[a.ID] = a.Content, userToken
			if a.Left || a.Right || a.Word {
				v.loose = append(v.loose, a.Content)
			}
			if a.Special {
				v.kinds[a.ID] = controlToken
			}
		}
	}
	switch {
	case t.Model.Type == "WordPiece":
		v.wordPiece(&t)
	case t.Model.Type == "Unigram":
		return v, v.unigram(&t, scores)
	case t.Model.ByteFallback || strings.Contains(string(t.PreTokenizer), "Metaspace"):
		merges, err := readMerges(t.Model.Merges)
		if err != nil {
			return bad("field model.merges: %v", err)
		}
		v.sentencePiece(&t, merges)
	default:
		merges, err := readMerges(t.Model.Merges)
		if err != nil {
			return bad("field model.merges: %v", err)
		}
		v.model, v.merges = "gpt2", []string{}
		known := make(map[string]bool, n)
		for _, token := range v.tokens {
			known[token] = true
		}
		for _, m := range merges { // without those of tokens beyond the table
			if known[m[0]] && known[m[1]] && known[m[0]+m[1]] {
				v.merges = append(v.merges, m[0]+" "+m[1])
			}
		}
	}
	return v, nil
}

// carry takes over the tokens that only tokenizer_config.json adds, and gives
// those that it adds beyond the model's table.
func (v *vocabulary) carry(own *tokenizer.Tokenizer) (lost []string) {
	for id := range own.Size() {
		token, ok := own.Token(int32(id))
		switch {
		case !ok || id < len(v.kinds) && v.kinds[id] != unusedToken:
		case id >= len(v.kinds):
			lost = append(lost, token)
		default:
			v.tokens[id], v.kinds[id] = token, userToken
			if own.IsSpecial(int32(id)) {
				v.kinds[id] = controlToken
			} else if v.model == "bert" {
				v.tokens[id] = "▁" + token
			}
			if own.Stretches(int32(id)) {
				v.loose = append(v.loose, token)
			}
		}
	}
	return lost
}

// readMerges reads merges in either form: pairs, or texts with a space.
func readMerges(data json.RawMessage) ([][2]string, error) {
	var pairs [][2]string
	if json.Unmarshal(data, &pairs) == nil {
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return nil, err
	}
	for i, line := range lines {
		a, b, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("merge %d is %q, expected two tokens", i, line)
		}
		pairs = append(pairs, [2]string{a, b})
	}
	return pairs, nil
}

// wordPiece marks the beginnings of words, which GGUF does in place of their
// continuations.
func (v *vocabulary) wordPiece(t *jsonTokenizer) {
	v.model = "bert"
	for id, token := range v.tokens {
		if v.kinds[id] == controlToken || v.kinds[id] == unusedToken {
			continue
		}
		if rest, ok := strings.CutPrefix(token, "##"); ok {
			v.tokens[id] = rest
		} else {
			v.tokens[id] = "▁" + token
		}
	}
	var n struct {
		Lowercase *bool `json:"lowercase"`
	}
	if json.Unmarshal(t.Normalizer, &n) == nil && n.Lowercase != nil {
		v.add("tokenizer.ggml.normalizer.lowercase", *n.Lowercase)
	}
}

// sentencePiece gives tokens scores in place of merges: the sooner two tokens
// merge, the higher the score of what they become.
func (v *vocabulary) sentencePiece(t *jsonTokenizer, merges [][2]string) {
	v.model = "llama"
	v.scores = make([]float32, len(v.tokens))
	ids := make(map[string]int, len(v.tokens))
	for id, token := range v.tokens {
		ids[token] = id
		v.scores[id] = -1e4
		switch {
		case token == t.Model.UnkToken && token != "":
			v.kinds[id] = unknownToken
		case isByte(token) && v.kinds[id] == normalToken:
			v.kinds[id] = byteToken
		}
	}
	seen := map[int]bool{}
	for rank, m := range merges {
		if id, ok := ids[m[0]+m[1]]; ok && !seen[id] {
			v.scores[id], seen[id] = -float32(rank), true
		}
	}
	prefix := strings.Contains(string(t.Normalizer), `"Prepend"`) ||
		strings.Contains(string(t.PreTokenizer), `"Metaspace"`) && !strings.Contains(strings.ReplaceAll(string(t.PreTokenizer), " ", ""), `"prepend_scheme":"never"`)
	v.add("tokenizer.ggml.add_space_prefix", prefix)
}

// isByte recognises a token such as <0x0A>.
func isByte(s string) bool {
	return len(s) == 6 && strings.HasPrefix(s, "<0x") && s[5] == '>' && strings.Trim(s[3:5], "0123456789ABCDEF") == ""
}

// unigram keeps scores and the table of replaced characters.
func (v *vocabulary) unigram(t *jsonTokenizer, scores map[int]float32) error {
	v.model = "t5"
	v.scores = make([]float32, len(v.tokens))
	for id := range v.scores {
		v.scores[id] = -1e4
		if s, ok := scores[id]; ok {
			v.scores[id] = s
		}
		if t.Model.UnkID != nil && id == *t.Model.UnkID {
			v.kinds[id] = unknownToken
		}
	}
	var charsmap string
	trims := false
	visitObjects(t.Normalizer, func(o map[string]json.RawMessage) {
		if raw, ok := o["precompiled_charsmap"]; ok {
			_ = json.Unmarshal(raw, &charsmap)
		}
		if p := string(o["pattern"]); strings.Contains(p, " {2,}") {
			trims = true
		}
	})
	if charsmap != "" {
		b, err := base64.StdEncoding.DecodeString(charsmap)
		if err != nil {
			return fmt.Errorf("field normalizer.precompiled_charsmap: %v: %w", err, weights.ErrInvalid)
		}
		v.add("tokenizer.ggml.precompiled_charsmap", b)
	}
	spaced := !strings.Contains(strings.ReplaceAll(string(t.PreTokenizer), " ", ""), `"prepend_scheme":"never"`)
	v.add("tokenizer.ggml.add_space_prefix", spaced)
	v.add("tokenizer.ggml.remove_extra_whitespaces", trims || strings.Contains(string(t.PreTokenizer), "WhitespaceSplit"))
	return nil
}

// visitObjects calls f for an object and those in its lists, normalizers of a
// sequence among them.
func visitObjects(data json.RawMessage, f func(map[string]json.RawMessage)) {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) != nil {
		return
	}
	f(o)
	for _, raw := range o {
		var list []json.RawMessage
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) && json.Unmarshal(raw, &list) == nil {
			for _, item := range list {
				visitObjects(item, f)
			}
		}
	}
}
