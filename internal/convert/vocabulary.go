package convert

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/format/jsonview"
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
	keys   []entry // further ones
	loose  few     // added tokens whose surroundings matter
}

// entry is a key of metadata.
type entry struct {
	key   string
	value any
}

func (v *vocabulary) addEntry(key string, value any) { v.keys = append(v.keys, entry{key, value}) }

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

// jsonTokenizer is what of a tokenizer.json matters here, as views of the file.
type jsonTokenizer struct {
	added, normalizer, preTokenizer jsonview.Value

	kind             string // of the model
	vocab, merges    jsonview.Value
	unknown          string
	unknownID        int64 // -1 where there is none
	bytes, wordStart bool  // unknown text becomes bytes; words begin with a mark
}

const maxTokens = 1 << 22

func readJSON(data []byte) (*jsonTokenizer, error) {
	doc, err := jsonview.Parse(data)
	if err != nil {
		return nil, err
	}
	get := func(v jsonview.Value, key string) jsonview.Value { found, _ := v.Get(key); return found }
	model := get(doc, "model")
	t := &jsonTokenizer{
		added: get(doc, "added_tokens"), normalizer: get(doc, "normalizer"), preTokenizer: get(doc, "pre_tokenizer"),
		vocab: get(model, "vocab"), merges: get(model, "merges"), unknownID: -1,
	}
	t.kind, _ = get(model, "type").Text()
	t.unknown, _ = get(model, "unk_token").Text()
	if id, ok := get(model, "unk_id").Int(); ok {
		t.unknownID = id
	}
	t.bytes, _ = get(model, "byte_fallback").Bool()
	t.wordStart = bytes.Contains(t.preTokenizer.Raw(), []byte("Metaspace"))
	if t.kind == "" && t.merges.Kind() != jsonview.Invalid {
		t.kind = "BPE"
	}
	return t, nil
}

// tokens are the ids, texts and scores of the model's vocabulary, one at a time:
// most of a hostile one may be beyond the rows that the model has.
func (t *jsonTokenizer) tokens(see func(id int64, token jsonview.Value, score float32)) error {
	if t.kind == "Unigram" {
		id := int64(0)
		for row := range t.vocab.Items() {
			var pair [2]jsonview.Value
			n := 0
			for v := range row.Items() {
				if n < 2 {
					pair[n] = v
				}
				n++
			}
			score, ok := pair[1].Float()
			if n < 2 || !ok || pair[0].Kind() != jsonview.String {
				return fmt.Errorf("field model.vocab: entry %d, expected a token and its score", id)
			}
			see(id, pair[0], float32(score))
			id++
		}
		return nil
	}
	if t.vocab.Kind() != jsonview.Object {
		return fmt.Errorf("field model.vocab: %s, expected an object", t.vocab.Kind())
	}
	for token, value := range t.vocab.Members() {
		id, ok := value.Int()
		if !ok || id < 0 {
			return fmt.Errorf("field model.vocab: token %.60q has the id %.30s, expected an integer of 0 or more", token.Raw(), value.Raw())
		}
		see(id, token, 0)
	}
	return nil
}

// addedTokens are the added tokens, one at a time.
func (t *jsonTokenizer) addedTokens(see func(id int64, token jsonview.Value)) error {
	for token := range t.added.Items() {
		value, _ := token.Get("id")
		id, ok := value.Int()
		if !ok || id < 0 {
			return fmt.Errorf("field added_tokens: %.60q has the id %.30s, expected an integer of 0 or more", token.Raw(), value.Raw())
		}
		see(id, token)
	}
	return nil
}

// readVocabulary reads tokens, kinds, scores and merges; rows is how many
// tokens the model has room for.
func readVocabulary(file string, data []byte, rows int) (*vocabulary, error) {
	bad := func(format string, args ...any) (*vocabulary, error) {
		return nil, fmt.Errorf("%s: %s: %w", file, fmt.Sprintf(format, args...), weights.ErrInvalid)
	}
	t, err := readJSON(data)
	if err != nil {
		return bad("%v", err)
	}
	if !slices.Contains([]string{"BPE", "WordPiece", "Unigram"}, t.kind) {
		return nil, fmt.Errorf("%s: field model.type: %q, expected BPE, WordPiece or Unigram: %w", file, t.kind, weights.ErrUnsupported)
	}
	most := int64(rows)
	count := func(id int64) { most = max(most, min(id, maxTokens)+1) }
	err = t.tokens(func(id int64, _ jsonview.Value, _ float32) { count(id) })
	if err == nil {
		err = t.addedTokens(func(id int64, _ jsonview.Value) { count(id) })
	}
	if err != nil {
		return bad("%v", err)
	}
	n := int(most)
	if n > maxTokens || n > rows && rows > 0 {
		// Tokens beyond the table are never seen by the model.
		if n = rows; n > maxTokens {
			return bad("%d tokens, expected at most %d", n, maxTokens)
		}
	}
	v := &vocabulary{pre: "default", tokens: make([]string, n), kinds: make([]int32, n)}
	for id := range v.tokens {
		v.tokens[id], v.kinds[id] = fmt.Sprintf("[PAD%d]", id), unusedToken
	}
	if t.kind == "Unigram" {
		v.scores = make([]float32, n)
		for id := range v.scores {
			v.scores[id] = noScore
		}
	}
	// Neither can fail a second time.
	_ = t.tokens(func(id int64, token jsonview.Value, score float32) {
		if id >= int64(n) {
			return
		}
		v.tokens[id], _ = token.Text()
		v.kinds[id] = normalToken
		if v.scores != nil {
			v.scores[id] = score
		}
	})
	_ = t.addedTokens(func(id int64, token jsonview.Value) {
		if id < int64(n) {
			v.addToken(id, token)
		}
	})
	switch {
	case t.kind == "WordPiece":
		v.wordPiece(t)
	case t.kind == "Unigram":
		return v, v.unigram(t)
	case t.bytes || t.wordStart:
		err = v.sentencePiece(t)
	default:
		err = v.byteLevel(t)
	}
	if err != nil {
		return bad("field model.merges: %v", err)
	}
	return v, nil
}

// addToken puts an added token into its row.
func (v *vocabulary) addToken(id int64, token jsonview.Value) {
	flag := func(key string) bool {
		value, _ := token.Get(key)
		is, _ := value.Bool()
		return is
	}
	content, _ := token.Get("content")
	v.tokens[id], _ = content.Text()
	v.kinds[id] = userToken
	if flag("special") {
		v.kinds[id] = controlToken
	}
	if flag("lstrip") || flag("rstrip") || flag("single_word") {
		v.loose.addName(v.tokens[id])
	}
}

// byteLevel keeps the merges of tokens that the table has. Of equal ones the last
// counts in tokenizer.json and the first in GGUF files, so only the last stays.
func (v *vocabulary) byteLevel(t *jsonTokenizer) error {
	v.model = "gpt2"
	known := make(map[string]bool, len(v.tokens))
	for _, token := range v.tokens {
		known[token] = true
	}
	ranks := map[string]int{}
	err := t.eachMerge(func(rank int, left, right []byte) {
		if known[string(left)] && known[string(right)] && known[string(left)+string(right)] {
			ranks[string(left)+" "+string(right)] = rank
		}
	})
	v.merges = slices.SortedFunc(maps.Keys(ranks), func(a, b string) int { return cmp.Compare(ranks[a], ranks[b]) })
	if v.merges == nil {
		v.merges = []string{} // an empty list is a key of the file, none is not
	}
	return err
}

// carry takes over the tokens that only tokenizer_config.json adds, and gives
// those that it adds beyond the model's table.
func (v *vocabulary) carry(own *tokenizer.Tokenizer) (lost few) {
	for id := range own.Size() {
		token, ok := own.Token(int32(id))
		switch {
		case !ok || id < len(v.kinds) && v.kinds[id] != unusedToken:
		case id >= len(v.kinds):
			lost.addName(token)
		default:
			v.tokens[id], v.kinds[id] = token, userToken
			if own.IsSpecial(int32(id)) {
				v.kinds[id] = controlToken
			} else if v.model == "bert" {
				v.tokens[id] = "▁" + token
			}
			if own.Stretches(int32(id)) {
				v.loose.addName(token)
			}
		}
	}
	return lost
}

// eachMerge reads merges in either form, pairs or texts with a space, one at a
// time.
func (t *jsonTokenizer) eachMerge(see func(rank int, left, right []byte)) error {
	if k := t.merges.Kind(); k != jsonview.Array && k != jsonview.Null {
		return fmt.Errorf("%s, expected a list", k)
	}
	rank := 0
	var buf []byte
	for m := range t.merges.Items() {
		buf = buf[:0]
		cut, ok := 0, false
		if m.Kind() == jsonview.String {
			buf = m.AppendText(buf)
			cut = bytes.IndexByte(buf, ' ')
			if ok = cut >= 0; ok {
				buf = slices.Delete(buf, cut, cut+1)
			}
		} else {
			n := 0
			for part := range m.Items() {
				if ok = part.Kind() == jsonview.String && n < 2; !ok {
					break
				}
				buf = part.AppendText(buf)
				if n++; n == 1 {
					cut = len(buf)
				}
			}
			ok = ok && n == 2
		}
		if !ok {
			return fmt.Errorf("merge %d is %.60s, expected two tokens", rank, m.Raw())
		}
		see(rank, buf[:cut:cut], buf[cut:])
		rank++
	}
	return nil
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
	lowercase, _ := t.normalizer.Get("lowercase")
	if lower, ok := lowercase.Bool(); ok {
		v.addEntry("tokenizer.ggml.normalizer.lowercase", lower)
	}
}

// sentencePiece gives tokens scores in place of merges: the sooner two tokens
// merge, the higher the score of what they become.
func (v *vocabulary) sentencePiece(t *jsonTokenizer) error {
	v.model = "llama"
	v.scores = make([]float32, len(v.tokens))
	ids := make(map[string]int, len(v.tokens))
	for id, token := range v.tokens {
		ids[token] = id
		v.scores[id] = noScore
		switch {
		case token == t.unknown && token != "":
			v.kinds[id] = unknownToken
		case isByte(token) && v.kinds[id] == normalToken:
			v.kinds[id] = byteToken
		}
	}
	seen := map[int]bool{}
	err := t.eachMerge(func(rank int, left, right []byte) {
		if id, ok := ids[string(left)+string(right)]; ok && !seen[id] {
			v.scores[id], seen[id] = -float32(rank), true
		}
	})
	prefix := bytes.Contains(t.normalizer.Raw(), []byte(`"Prepend"`)) || bytes.Contains(t.preTokenizer.Raw(), []byte(`"Metaspace"`)) && !t.neverPrepends()
	v.addEntry("tokenizer.ggml.add_space_prefix", prefix)
	return err
}

// neverPrepends reports whether texts begin without a mark of a word.
func (t *jsonTokenizer) neverPrepends() bool {
	return bytes.Contains(bytes.ReplaceAll(t.preTokenizer.Raw(), []byte(" "), nil), []byte(`"prepend_scheme":"never"`))
}

// noScore is the score of a token that no merge makes.
const noScore = -1e4

// isByte recognises a token such as <0x0A>.
func isByte(s string) bool {
	return len(s) == 6 && strings.HasPrefix(s, "<0x") && s[5] == '>' && strings.Trim(s[3:5], "0123456789ABCDEF") == ""
}

// unigram keeps the table of replaced characters beside the scores.
func (v *vocabulary) unigram(t *jsonTokenizer) error {
	v.model = "t5"
	if id := t.unknownID; id >= 0 && id < int64(len(v.kinds)) {
		v.kinds[id] = unknownToken
	}
	var charsmap string
	trims := false
	visitObjects(t.normalizer, func(o jsonview.Value) {
		if m, ok := o.Get("precompiled_charsmap"); ok {
			charsmap, _ = m.Text()
		}
		if p, _ := o.Get("pattern"); bytes.Contains(p.Raw(), []byte(" {2,}")) {
			trims = true
		}
	})
	if charsmap != "" {
		b, err := base64.StdEncoding.DecodeString(charsmap)
		if err != nil {
			return fmt.Errorf("field normalizer.precompiled_charsmap: %v: %w", err, weights.ErrInvalid)
		}
		v.addEntry("tokenizer.ggml.precompiled_charsmap", b)
	}
	v.addEntry("tokenizer.ggml.add_space_prefix", !t.neverPrepends())
	v.addEntry("tokenizer.ggml.remove_extra_whitespaces", trims || bytes.Contains(t.preTokenizer.Raw(), []byte("WhitespaceSplit")))
	return nil
}

// visitObjects calls f for an object and those in its lists, normalizers of a
// sequence among them.
func visitObjects(v jsonview.Value, f func(jsonview.Value)) {
	if v.Kind() != jsonview.Object {
		return
	}
	f(v)
	for _, member := range v.Members() {
		for item := range member.Items() {
			visitObjects(item, f)
		}
	}
}
