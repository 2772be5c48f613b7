package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hotpath/internal/dataset"
	"hotpath/internal/format/jsonview"
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
)

// encoder turns records into sequences of ids. It is for one goroutine.
type encoder struct {
	ctx     context.Context
	spec    *sourceSpec
	scratch tokenizer.Scratch
	pairing model.PairScratch
	out     *chunk
	part    []int32
	part2   []int32
}

// Flags of a token.
const (
	flagLearn  = 1 << iota // it is a target of the loss
	flagSecond             // it belongs to the second text of a pair
)

func quotedJSON(s string) string {
	data, _ := json.Marshal(s) // a string always has an encoding
	return string(data)
}

func rawList(items []string) json.RawMessage {
	list := []byte{'['}
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	return append(list, ']')
}

// ids appends the tokens of a text.
func (e *encoder) ids(dst []int32, text string, special, parse bool) []int32 {
	return e.spec.tok.Encode(dst, text, tokenizer.Options{Special: special, ParseSpecial: parse, Done: e.ctx.Done()}, &e.scratch)
}

// sequence ends the sequence that begins at out.ids[begin]; where makes errors with
// its file and line. A long sequence is an error unless the configuration cuts it.
func (e *encoder) sequence(begin int, where func(format string, args ...any) error) error {
	n := len(e.out.ids) - begin
	if n == 0 {
		return where("no tokens, expected some text")
	}
	most := e.spec.most()
	if n > most {
		if !e.spec.truncate {
			return where("%d tokens, expected at most %d (field seq_len): shorten it, or set truncate", n, most)
		}
		e.out.ids = e.out.ids[:begin+most]
		if len(e.out.flags) > 0 {
			e.out.flags = e.out.flags[:begin+most]
		}
	}
	for i, id := range e.out.ids[begin:] {
		if id < 0 || int(id) >= e.spec.vocab {
			return where("token %d has the id %d, expected one below %d, the model's vocabulary", i, id, e.spec.vocab)
		}
	}
	e.out.seqs = append(e.out.seqs, int64(len(e.out.ids)))
	return nil
}

// example ends an example whose sequences are there.
func (e *encoder) example(value float64) {
	e.out.examples = append(e.out.examples, int64(len(e.out.seqs)))
	e.out.values = append(e.out.values, float32(value))
}

// at makes errors about a value of a line.
func at(l *dataset.Line, v jsonview.Value) func(format string, args ...any) error {
	return func(format string, args ...any) error { return l.ErrorAt(v, format, args...) }
}

// document is a text of which every token is a target. It is cut into pieces
// later, so it may be of any length.
func (e *encoder) document(l *dataset.Line) error {
	v, err := l.Text("text")
	if err != nil {
		return err
	}
	text, _ := v.Text()
	return e.text(text, true, true, at(l, v))
}

// text adds a document or a part of it. The first part gets the special tokens of the
// beginning, the last part those of the end.
func (e *encoder) text(text string, first, last bool, where func(format string, args ...any) error) error {
	begin := len(e.out.ids)
	e.out.ids = e.ids(e.out.ids, text, false, false)
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	prefix, suffix := e.spec.tok.Frame()
	if first && last && len(e.out.ids) == begin && len(prefix)+len(suffix) == 0 {
		return nil
	}
	if first && len(prefix) > 0 {
		e.part = append(append(e.part[:0], prefix...), e.out.ids[begin:]...)
		e.out.ids = append(e.out.ids[:begin], e.part...)
	}
	if last {
		e.out.ids = append(e.out.ids, suffix...)
		eos, ok := e.spec.tok.EOS()
		if n := len(e.out.ids); ok && (n == begin || e.out.ids[n-1] != eos) {
			e.out.ids = append(e.out.ids, eos)
		}
	}
	for i, id := range e.out.ids[begin:] {
		if id < 0 || int(id) >= e.spec.vocab {
			return where("token %d has the id %d, expected one below %d, the model's vocabulary", i, id, e.spec.vocab)
		}
	}
	e.out.joined = !first
	e.out.seqs = append(e.out.seqs, int64(len(e.out.ids)))
	e.example(0)
	return nil
}

// answer writes a marked text: tokens of its answers are targets.
func (e *encoder) answer(m marked, special bool, where func(format string, args ...any) error) error {
	begin := len(e.out.ids)
	e.out.ids = e.ids(e.out.ids, m.text, special, true)
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	if eos, ok := e.spec.tok.EOS(); ok && special && len(e.out.ids) > begin && e.out.ids[len(e.out.ids)-1] != eos {
		e.out.ids = append(e.out.ids, eos)
	}
	for len(e.out.flags) < len(e.out.ids) {
		e.out.flags = append(e.out.flags, 0)
	}
	learns := 0
	for _, span := range m.answers {
		from, to := e.place(begin, m.text[:span[0]], special), len(e.out.ids)
		if span[1] < len(m.text) {
			to = e.place(begin, m.text[:span[1]], special)
		}
		for i := from; i < to; i++ {
			e.out.flags[i] |= flagLearn
			learns++
		}
	}
	if err := e.sequence(begin, where); err != nil {
		return err
	}
	for _, f := range e.out.flags[begin+1:] { // the first token is never a target
		if f&flagLearn != 0 {
			return nil
		}
	}
	if learns > 0 {
		return where("the answer lies behind the first %d tokens (field seq_len), so there is nothing to learn", e.spec.most())
	}
	return where("the answer has no tokens")
}

// place is where a beginning of the text ends in its ids: as far as its own ids
// are those of the whole.
func (e *encoder) place(begin int, text string, special bool) int {
	e.part2 = e.ids(e.part2[:0], text, special, true)
	whole, n := e.out.ids[begin:], 0
	for n < len(e.part2) && n < len(whole) && e.part2[n] == whole[n] {
		n++
	}
	return begin + n
}

func (e *encoder) chat(l *dataset.Line) error {
	list, _ := l.Object.Get("messages")
	messages, err := messagesOf(l, "messages", list)
	if err != nil {
		return err
	}
	if !hasAnswer(messages) {
		return l.ErrorAt(list, "field \"messages\": no message of role \"assistant\", expected an answer to learn")
	}
	return e.conversation(l, list, messages)
}

// conversation is an example of one conversation.
func (e *encoder) conversation(l *dataset.Line, v jsonview.Value, messages []message) error {
	if err := e.said(l, v, messages); err != nil {
		return err
	}
	e.example(0)
	return nil
}

// said writes one conversation by the model's template.
func (e *encoder) said(l *dataset.Line, v jsonview.Value, messages []message) error {
	if e.spec.speaker == nil {
		return l.ErrorAt(v, "messages, but the model has no chat template: expected \"text\", or a model with one")
	}
	m, err := e.spec.speaker.conversation(e.ctx, messages)
	if err != nil {
		return l.ErrorAt(v, "%v", err)
	}
	return e.answer(m, false, at(l, v))
}

// alpaca are the words around instructions of models without a template.
const (
	alpacaInput = "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.\n\n### Instruction:\n%s\n\n### Input:\n%s\n\n### Response:\n"
	alpacaPlain = "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\n%s\n\n### Response:\n"
)

func (e *encoder) instruction(l *dataset.Line) error {
	texts, err := e.fields(l, "instruction", "output")
	if err != nil {
		return err
	}
	input, err := optional(l, "input")
	if err != nil {
		return err
	}
	if e.spec.speaker != nil {
		ask := texts[0]
		if input != "" {
			ask += "\n\n" + input
		}
		return e.conversation(l, l.Object, []message{newMessage("user", ask), newMessage("assistant", texts[1])})
	}
	prompt := fmt.Sprintf(alpacaPlain, texts[0])
	if input != "" {
		prompt = fmt.Sprintf(alpacaInput, texts[0], input)
	}
	return e.completed(l, prompt, texts[1])
}

func (e *encoder) completion(l *dataset.Line) error {
	texts, err := e.fields(l, "prompt", "completion")
	if err != nil {
		return err
	}
	if e.spec.speaker != nil {
		return e.conversation(l, l.Object, []message{newMessage("user", texts[0]), newMessage("assistant", texts[1])})
	}
	return e.completed(l, texts[0], texts[1])
}

// completed is an example of a prompt and what follows it.
func (e *encoder) completed(l *dataset.Line, prompt, answer string) error {
	whole := prompt + answer
	if err := e.answer(marked{whole, [][2]int{{len(prompt), len(whole)}}}, true, at(l, l.Object)); err != nil {
		return err
	}
	e.example(0)
	return nil
}

// preference is two conversations, or two texts, which go on from one prompt.
func (e *encoder) preference(l *dataset.Line) error {
	prompt, hasPrompt := l.Object.Get("prompt")
	for _, name := range []string{"chosen", "rejected"} {
		v, _ := l.Object.Get(name)
		var before []message
		if hasPrompt && prompt.Kind() == jsonview.Array {
			var err error
			if before, err = messagesOf(l, "prompt", prompt); err != nil {
				return err
			}
		}
		text, isText := v.Text()
		switch asked, plain := prompt.Text(); {
		case !isText:
			messages, err := messagesOf(l, name, v)
			if err == nil && !hasAnswer(messages) {
				err = l.ErrorAt(v, "field %q: no message of role \"assistant\", expected an answer", name)
			}
			if err == nil && plain {
				before = []message{newMessage("user", asked)}
			}
			if err == nil {
				err = e.last(l, v, append(before, messages...))
			}
			if err != nil {
				return err
			}
		case hasPrompt && !plain && before == nil:
			return l.ErrorAt(prompt, "field \"prompt\": expected a string or a list of messages, found %s", prompt.Kind())
		case e.spec.speaker != nil && hasPrompt:
			if plain {
				before = []message{newMessage("user", asked)}
			}
			if err := e.last(l, v, append(before, newMessage("assistant", text))); err != nil {
				return err
			}
		default:
			start := asked
			if !hasPrompt {
				start = e.shared(l)
				text = text[len(start):]
			}
			if err := e.answer(marked{start + text, [][2]int{{len(start), len(start) + len(text)}}}, true, at(l, v)); err != nil {
				return err
			}
		}
	}
	if n := len(e.out.seqs); slices.Equal(e.span(n-2), e.span(n-1)) {
		return l.ErrorAt(l.Object, "fields \"chosen\" and \"rejected\" have the same tokens, expected different answers")
	}
	e.example(0)
	return nil
}

// span is the tokens of a sequence.
func (e *encoder) span(i int) []int32 {
	from := int64(0)
	if i > 0 {
		from = e.out.seqs[i-1]
	}
	return e.out.ids[from:e.out.seqs[i]]
}

// last writes a conversation of which only the last answer is learnt.
func (e *encoder) last(l *dataset.Line, v jsonview.Value, messages []message) error {
	if e.spec.speaker == nil {
		return l.ErrorAt(v, "messages, but the model has no chat template: expected strings, or a model with one")
	}
	m, err := e.spec.speaker.conversation(e.ctx, messages)
	if err != nil {
		return l.ErrorAt(v, "%v", err)
	}
	m.answers = m.answers[len(m.answers)-1:]
	return e.answer(m, false, at(l, v))
}

// shared is the common beginning of a chosen and a rejected text without a prompt. It
// ends after the last complete line or word that both have.
func (e *encoder) shared(l *dataset.Line) string {
	a, _ := l.Object.Get("chosen")
	b, _ := l.Object.Get("rejected")
	one, _ := a.Text()
	two, _ := b.Text()
	n := 0
	for n < len(one) && n < len(two) && one[n] == two[n] {
		n++
	}
	for n > 0 && one[n-1] != ' ' && one[n-1] != '\n' {
		n--
	}
	return one[:n]
}

// fields are strings that an object must have.
func (e *encoder) fields(l *dataset.Line, names ...string) ([]string, error) {
	texts := make([]string, len(names))
	for i, name := range names {
		v, err := l.Text(name)
		if err != nil {
			return nil, err
		}
		texts[i], _ = v.Text()
	}
	return texts, nil
}

// optional is a string that an object may have.
func optional(l *dataset.Line, name string) (string, error) {
	v, ok := l.Object.Get(name)
	if !ok || v.Kind() == jsonview.Null {
		return "", nil
	}
	text, isText := v.Text()
	if !isText {
		return "", l.ErrorAt(v, "field %q: expected a string, found %s", name, v.Kind())
	}
	return text, nil
}
