package hotpath

import (
	"context"
	"encoding/json"
	"fmt"

	"hotpath/internal/chat"
	"hotpath/internal/engine"
)

// chatTemplate is a model's template, ready to run.
type chatTemplate struct {
	t        *chat.Template
	bos, eos string
}

// newChatTemplate parses a template as Hugging Face does. The limits that
// package chat sets hold a hostile one.
func newChatTemplate(source, bos, eos string) (*chatTemplate, error) {
	t, err := chat.Parse("chat template", source)
	if err != nil {
		return nil, err
	}
	return &chatTemplate{t, bos, eos}, nil
}

// render writes a conversation out, ready for the assistant's turn.
func (c *chatTemplate) render(ctx context.Context, messages []Message) (string, error) {
	// As JSON, so that a template that shows whole messages sees the role
	// first, as it was written.
	list, err := json.Marshal(messages)
	if err != nil {
		return "", err
	}
	// transformers gives its templates tools and documents even where there
	// are none, and some compare them with none.
	return c.t.Render(ctx, map[string]any{
		"messages": json.RawMessage(list), "tools": nil, "documents": nil, "add_generation_prompt": true,
		"bos_token": c.bos, "eos_token": c.eos,
	})
}

// ChatPrompt writes a conversation as the model's chat template does, ready
// for the model's answer.
func (m *Model) ChatPrompt(messages []Message) (string, error) {
	return m.chatPrompt(context.Background(), messages)
}

// chatPrompt is ChatPrompt until ctx ends.
func (m *Model) chatPrompt(ctx context.Context, messages []Message) (_ string, err error) {
	defer engine.Guard(&err)
	if err := m.opened(); err != nil {
		return "", err
	}
	m.templateOnce.Do(func() {
		defer engine.Guard(&m.templateErr)
		source := m.tok.ChatTemplate()
		if source == "" {
			m.templateErr = fmt.Errorf("%s: no chat template: %w", m.store.Path(), ErrUnsupported)
			return
		}
		name := func(id int32, ok bool) string {
			if !ok {
				return ""
			}
			return m.Token(id)
		}
		m.template, m.templateErr = newChatTemplate(source, name(m.tok.BOS()), name(m.tok.EOS()))
		if m.templateErr != nil {
			m.templateErr = fmt.Errorf("%s: %w: %w", m.store.Path(), m.templateErr, ErrInvalid)
		}
	})
	if m.templateErr != nil {
		return "", m.templateErr
	}
	text, err := m.template.render(ctx, messages)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.store.Path(), err)
	}
	return text, nil
}
