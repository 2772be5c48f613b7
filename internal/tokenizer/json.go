package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
)

// tokenizerFile is tokenizer.json. Its truncation and padding are the engine's business.
type tokenizerFile struct {
	AddedTokens   []addedTokenJSON `json:"added_tokens"`
	Normalizer    json.RawMessage
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage
	Model         json.RawMessage
}

type addedTokenJSON struct {
	ID         int64
	Content    string
	SingleWord bool `json:"single_word"`
	Lstrip     bool
	Rstrip     bool
	Normalized bool
	Special    bool
}

// model turns one piece into ids.
type model interface {
	encode(dst []int32, word []byte, s *Scratch) []int32
}

// FromJSON reads a Hugging Face tokenizer.json, and tokenizer_config.json for the roles of special
// tokens and the chat template; the latter may be nil. file names them in errors.
func FromJSON(file string, tokenizerJSON, tokenizerConfig []byte) (*Tokenizer, error) {
	var raw tokenizerFile
	if err := json.Unmarshal(tokenizerJSON, &raw); err != nil {
		return nil, fmt.Errorf("%s: not a tokenizer.json: %w", file, err)
	}
	t := new(Tokenizer)
	part, ok, err := newPart(file, "normalizer", 0, raw.Normalizer)
	if err == nil && ok {
		t.norm, err = lookup(normalizers, part)
	}
	if err != nil {
		return nil, err
	}
	part, ok, err = newPart(file, "pre_tokenizer", 0, raw.PreTokenizer)
	if err == nil && ok {
		t.steps, err = lookup(preTokenizers, part)
	}
	if err != nil {
		return nil, err
	}
	// The model reads bytes itself where spelling them is the last step: faster, and the same ids.
	byteLevel := false
	if n := len(t.steps); n > 0 && t.steps[n-1] == step(spellBytes{}) {
		t.steps, byteLevel = t.steps[:n-1], true
	}
	part, ok, err = newPart(file, "model", 0, raw.Model)
	if err == nil && !ok {
		err = fmt.Errorf("%s: model: expected an object", file)
	}
	if err != nil {
		return nil, err
	}
	if err := t.readModel(part, byteLevel, len(raw.AddedTokens)); err != nil {
		return nil, err
	}
	t.decoder = spaceDecoder{}
	part, ok, err = newPart(file, "decoder", 0, raw.Decoder)
	if err == nil && ok {
		t.decoder, err = lookup(decoders, part)
	}
	if err != nil {
		return nil, err
	}
	list, err := addTokens(file, t.vocab, raw.AddedTokens)
	if err != nil {
		return nil, err
	}
	if list, err = t.readConfig(file, tokenizerConfig, list); err != nil {
		return nil, err
	}
	if t.added, err = newAddedTokens(list, t.norm, t.vocab); err != nil {
		return nil, fmt.Errorf("%s: added_tokens: %w", file, err)
	}
	if err := t.readFrame(file, raw.PostProcessor); err != nil {
		return nil, err
	}
	return t, nil
}

// addTokens enters the added tokens into the vocabulary. One that the model has keeps the model's id; the
// others are numbered on from the end, as the reference does, which does not read their ids either.
func addTokens(file string, v *vocab, raw []addedTokenJSON) ([]addedToken, error) {
	list := make([]addedToken, 0, len(raw))
	next := int64(len(v.ids))
	for i, a := range raw {
		if a.ID < 0 || a.ID > math.MaxInt32 {
			return nil, fmt.Errorf("%s: added_tokens[%d]: %.100q has id %d, expected 0..%d", file, i, a.Content, a.ID, math.MaxInt32)
		}
		id, ok := v.id(a.Content)
		if !ok {
			id = int32(next)
			if other, taken := v.token(id); taken {
				return nil, fmt.Errorf("%s: added_tokens[%d]: %.100q would get id %d, which is that of %.100q", file, i, a.Content, id, other)
			}
			if err := v.addMore(a.Content, next); err != nil {
				return nil, fmt.Errorf("%s: added_tokens[%d]: %w", file, i, err)
			}
		}
		next = max(next, int64(id)+1)
		list = append(list, addedToken{
			content: a.Content, id: id, special: a.Special, normalized: a.Normalized,
			singleWord: a.SingleWord, lstrip: a.Lstrip, rstrip: a.Rstrip,
		})
	}
	return list, nil
}

func (t *Tokenizer) readFrame(file string, raw json.RawMessage) error {
	part, ok, err := newPart(file, "post_processor", 0, raw)
	if err != nil || !ok {
		return err
	}
	f, err := lookup(postProcessors, part)
	if err != nil {
		return err
	}
	if err := checkFrame(f, t.vocab); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	t.prefix, t.suffix = f.prefix, f.suffix
	return nil
}

// readConfig reads tokenizer_config.json: roles, and the chat template. A token that has a role is
// special even if tokenizer.json does not say so.
func (t *Tokenizer) readConfig(file string, config []byte, list []addedToken) ([]addedToken, error) {
	if len(config) == 0 {
		t.named.guess(t.vocab, roleBOS, roleEOS, rolePAD, roleUNK, roleSEP, roleCLS, roleMASK, roleEOT)
		return list, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(config, &raw); err != nil {
		return nil, fmt.Errorf("%s: tokenizer_config.json: %w", file, err)
	}
	for r := range roleCount {
		key := roleNames[r].config
		name, ok := tokenText(raw[key])
		if key == "" || !ok {
			continue
		}
		id, ok := t.vocab.id(name)
		if !ok {
			continue // named but not in the vocabulary: the model has no such token
		}
		t.named.set(r, id)
		known := false
		for i := range list {
			if list[i].id == id {
				known, list[i].special = true, true
			}
		}
		if !known {
			list = append(list, addedToken{content: name, id: id, special: true})
		}
	}
	t.named.guess(t.vocab, roleEOT)
	t.chat = chatTemplate(raw["chat_template"])
	return list, nil
}

// tokenText reads "text" or {"content": "text"}.
func tokenText(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text, true
	}
	var object struct{ Content *string }
	if json.Unmarshal(raw, &object) == nil && object.Content != nil {
		return *object.Content, true
	}
	return "", false
}

// chatTemplate reads "template" or [{"name": "default", "template": "..."}, ...].
func chatTemplate(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []struct{ Name, Template string }
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	for _, entry := range list {
		if entry.Name == "default" {
			return entry.Template
		}
	}
	return ""
}
