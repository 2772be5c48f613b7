package train

import (
	"context"
	"fmt"
	"strings"

	"hotpath/internal/chat"
	"hotpath/internal/dataset"
	"hotpath/internal/format/jsonview"
	"hotpath/internal/tokenizer"
)

// speaker writes conversations as the model's chat template does.
type speaker struct {
	template *chat.Template
	bos, eos string
}

// newSpeaker is nil where the model has no template.
func newSpeaker(t *tokenizer.Tokenizer) (*speaker, error) {
	source := t.ChatTemplate()
	if source == "" {
		return nil, nil
	}
	parsed, err := chat.Parse("chat template", source)
	if err != nil {
		return nil, err
	}
	name := func(id int32, ok bool) string {
		s, _ := t.Token(id)
		if !ok {
			return ""
		}
		return s
	}
	return &speaker{parsed, name(t.BOS()), name(t.EOS())}, nil
}

// render writes messages, each an object in JSON.
func (s *speaker) render(ctx context.Context, messages []string, prompt bool) (string, error) {
	return s.template.Render(ctx, map[string]any{
		"messages": rawList(messages), "tools": nil, "documents": nil, "add_generation_prompt": prompt,
		"bos_token": s.bos, "eos_token": s.eos,
	})
}

// marked is a text with the parts of it that are answers.
type marked struct {
	text    string
	answers [][2]int // rising byte ranges
}

// conversation writes messages and marks what the assistant says, the end of
// its turn included: what follows the prompt for it. A template that writes
// earlier turns differently once others follow lets only the last answer be
// told from its prompt.
func (s *speaker) conversation(ctx context.Context, messages []message) (marked, error) {
	raw := make([]string, len(messages))
	for i, m := range messages {
		raw[i] = m.raw
	}
	whole, err := s.render(ctx, raw, false)
	if err != nil {
		return marked{}, err
	}
	m := marked{text: whole}
	for i, turn := range messages {
		if turn.role != "assistant" {
			continue
		}
		prompt, err := s.render(ctx, raw[:i], true)
		if err != nil {
			return m, err
		}
		end := whole
		if i < len(messages)-1 {
			if end, err = s.render(ctx, raw[:i+1], false); err != nil {
				return m, err
			}
		}
		if strings.HasPrefix(whole, prompt) && strings.HasPrefix(whole, end) && len(prompt) < len(end) {
			m.answers = append(m.answers, [2]int{len(prompt), len(end)})
		}
	}
	if len(m.answers) == 0 {
		return m, fmt.Errorf("the chat template writes no answer of the assistant after its prompt")
	}
	return m, nil
}

// message is one turn.
type message struct{ role, raw string }

func newMessage(role, content string) message {
	return message{role, fmt.Sprintf(`{"role":%s,"content":%s}`, quotedJSON(role), quotedJSON(content))}
}

// messagesOf reads a list of messages with role and content.
func messagesOf(l *dataset.Line, field string, list jsonview.Value) ([]message, error) {
	if list.Kind() != jsonview.Array {
		return nil, l.ErrorAt(list, "field %q: expected a list of messages, found %s", field, list.Kind())
	}
	var messages []message
	for item := range list.Items() {
		role, ok := item.Get("role")
		name, isText := role.Text()
		if !ok || !isText {
			hint := ""
			if near, _ := item.Get("from"); near.Kind() == jsonview.String {
				hint = ` (did you mean "role" for "from"?)`
			}
			return nil, l.ErrorAt(item, "field %q: expected objects with \"role\" and \"content\"%s", field, hint)
		}
		if _, ok := item.Get("content"); !ok {
			return nil, l.ErrorAt(item, "field %q: a message of role %.40q, expected \"content\"", field, name)
		}
		messages = append(messages, message{name, string(item.Raw())})
	}
	return messages, nil
}

func hasAnswer(messages []message) bool {
	for _, m := range messages {
		if m.role == "assistant" {
			return true
		}
	}
	return false
}
