package tokenizer

import (
	"fmt"
	"math"
)

// model turns one piece into ids.
type model interface {
	encode(dst []int32, word []byte, s *Scratch) []int32
	growth() growth
}

// FromJSON reads a Hugging Face tokenizer.json, and tokenizer_config.json for the roles of special
// tokens and the chat template; the latter may be nil. file names them in errors. Both are only looked at:
// neither must stay in memory. Truncation and padding are the engine's business.
func FromJSON(file string, tokenizerJSON, tokenizerConfig []byte) (*Tokenizer, error) {
	if err := checkJSON(tokenizerJSON); err != nil {
		return nil, fmt.Errorf("%s: not a tokenizer.json: %w", file, err)
	}
	raw := pick(tokenizerJSON, "normalizer", "pre_tokenizer", "model", "decoder", "added_tokens", "post_processor")
	cut, total, err := readCutter(file, raw[0], raw[1])
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{norm: cut.norm, steps: cut.steps, marksFirst: cut.marksFirst}
	part, ok, err := newPart(file, "model", 0, raw[2])
	if err == nil && !ok {
		err = fmt.Errorf("%s: model: expected an object", file)
	}
	if err != nil {
		return nil, err
	}
	own, extra := ownTokens(file, raw[4]), configTokens(file, tokenizerConfig)
	more, err := countAdded(own)
	if err != nil {
		return nil, err
	}
	others, err := countAdded(extra)
	if err != nil {
		return nil, err
	}
	more.tokens += others.tokens
	more.bytes += others.bytes
	if err := t.readModel(part, cut.Bytes, more); err != nil {
		return nil, err
	}
	if err := part.within(total.then(t.model.growth())); err != nil {
		return nil, err
	}
	t.decoder = spaceDecoder{}
	part, ok, err = newPart(file, "decoder", 0, raw[3])
	if err == nil && ok {
		if t.decoder, err = lookup(decoders, part); err == nil {
			err = part.within(t.decoder.growth())
		}
	}
	if err != nil {
		return nil, err
	}
	next := int64(t.vocab.count)
	list, err := addTokens(own, t.vocab, more.tokens, &next)
	if err != nil {
		return nil, err
	}
	also, err := addTokens(extra, t.vocab, others.tokens, &next)
	if err != nil {
		return nil, err
	}
	list = appendNew(list, also)
	if list, err = t.readConfig(file, tokenizerConfig, list); err != nil {
		return nil, err
	}
	if t.added, err = newAddedTokens(list, t.norm, t.vocab); err != nil {
		return nil, fmt.Errorf("%s: added_tokens: %w", file, err)
	}
	if err := t.readFrame(file, raw[5]); err != nil {
		return nil, err
	}
	return t, nil
}

// countAdded tells what the added tokens need if the model knows none of them.
func countAdded(list tokenList) (more room, err error) {
	err = list(func(name tokenName, t *tokenFields) error {
		content := t[1]
		if len(content) == 0 || content[0] != '"' {
			return fmt.Errorf("%v: expected an object with content", name)
		}
		more.reserve(stringLength(content))
		return nil
	})
	return more, err
}

// addedFields are the fields of an added token, after its id and content, each with its flag.
var addedFields = []struct {
	name string
	flag addedFlags
}{
	{"single_word", addedSingleWord}, {"lstrip", addedLstrip}, {"rstrip", addedRstrip},
	{"normalized", addedNormalized}, {"special", addedSpecial},
}

// addTokens enters the added tokens into the vocabulary. One that the model has keeps the model's id; the
// others are numbered on from *from, as the reference does, which does not read their ids either.
func addTokens(tokens tokenList, v *vocab, count int, from *int64) ([]addedToken, error) {
	list := make([]addedToken, 0, count)
	next := *from
	var buf []byte
	err := tokens(func(name tokenName, fields *tokenFields) error {
		buf = appendString(buf[:0], fields[1])
		if _, ok := asID(fields[0]); !ok && !isNull(fields[0]) {
			return fmt.Errorf("%v: %.100q has id %.20s, expected 0..%d", name, buf, fields[0], math.MaxInt32)
		}
		if len(buf) == 0 {
			return nil
		}
		id, ok := v.find(hashBytes(hashSeed, buf), "", buf)
		if !ok {
			id = int32(next)
			if other, taken := v.token(id); taken {
				return fmt.Errorf("%v: %.100q would get id %d, which is that of %.100q", name, buf, id, other)
			}
			if err := v.addMore(buf, next); err != nil {
				return fmt.Errorf("%v: %w", name, err)
			}
		}
		next = max(next, int64(id)+1)
		t := addedToken{id: id}
		for n, field := range addedFields {
			switch value := fields[2+n]; {
			case string(value) == "true":
				t.flags |= field.flag
			case !isNull(value) && string(value) != "false":
				return fmt.Errorf("%v.%s: expected true or false", name, field.name)
			}
		}
		list = append(list, t)
		return nil
	})
	*from = next
	return list, err
}

func (t *Tokenizer) readFrame(file string, raw []byte) error {
	part, ok, err := newPart(file, "post_processor", 0, raw)
	if err != nil || !ok {
		return err
	}
	p, err := lookup(postProcessors, part)
	if err != nil {
		return err
	}
	if t.prefix, t.suffix, err = p.frame(part); err != nil {
		return err
	}
	if err := checkIDs(t.vocab, t.prefix, t.suffix); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// readConfig reads tokenizer_config.json: roles, and the chat template. A token that has a role is
// special even if tokenizer.json does not say so.
func (t *Tokenizer) readConfig(file string, config []byte, list []addedToken) ([]addedToken, error) {
	if len(config) == 0 {
		t.named.guess(t.vocab, roleBOS, roleEOS, rolePAD, roleUNK, roleSEP, roleCLS, roleMASK, roleEOT)
		return list, nil
	}
	if err := checkJSON(config); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile(file), err)
	}
	keys := make([]string, 0, roleCount+1)
	for r := range roleCount {
		keys = append(keys, roleNames[r].config)
	}
	values := pick(config, append(keys, "chat_template")...)
	for r := range roleCount {
		name, ok := tokenText(values[r])
		if keys[r] == "" || !ok {
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
				known = true
				list[i].flags |= addedSpecial
			}
		}
		if !known {
			list = append(list, addedToken{id: id, flags: addedSpecial})
		}
	}
	t.named.guess(t.vocab, roleEOT)
	t.chat = chatTemplate(values[roleCount])
	return list, nil
}

// tokenText reads "text" or {"content": "text"}.
func tokenText(raw []byte) (string, bool) {
	if len(raw) > 0 && raw[0] == '{' {
		raw = pick(raw, "content")[0]
	}
	return asText(raw, maxName)
}

// chatTemplate reads "template" or [{"name": "default", "template": "..."}, ...].
func chatTemplate(raw []byte) (template string) {
	template, _ = asText(raw, len(raw))
	eachItem(raw, func(_ int, entry []byte) error {
		fields := pick(entry, "name", "template")
		if name, ok := asText(fields[0], maxName); ok && name == "default" {
			template, _ = asText(fields[1], len(fields[1]))
		}
		return nil
	})
	return template
}
