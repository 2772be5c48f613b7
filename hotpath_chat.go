package hotpath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// chatTemplate is a model's Jinja template, ready to run.
type chatTemplate struct {
	t        *exec.Template
	bos, eos string
}

// templateName is how errors call the template.
const templateName = "chat template"

// maxRendered bounds the output of a template beyond its input, because a
// model's file is hostile until checked.
const maxRendered = 1 << 20

// onlyTemplate is a loader that knows one template, so that a model's file
// cannot read others.
type onlyTemplate string

func (l onlyTemplate) Read(path string) (io.Reader, error) {
	if path != templateName {
		return nil, fmt.Errorf("%q: templates cannot read other files", path)
	}
	return strings.NewReader(string(l)), nil
}

func (l onlyTemplate) Resolve(path string) (string, error) { return path, nil }

func (l onlyTemplate) Inherit(string) (loaders.Loader, error) { return l, nil }

// newChatTemplate parses a template as Hugging Face does.
func newChatTemplate(source, bos, eos string) (c *chatTemplate, err error) {
	defer guard(&err)
	cfg := config.New()
	cfg.TrimBlocks, cfg.LeftStripBlocks = true, true
	env := &exec.Environment{
		Context:           exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables),
		Filters:           builtins.Filters,
		Tests:             builtins.Tests,
		ControlStructures: builtins.ControlStructures,
		Methods:           builtins.Methods,
	}
	env.Context.Set("raise_exception", func(message string) (string, error) { return "", errors.New(message) })
	env.Context.Set("strftime_now", strftimeNow)
	t, err := exec.NewTemplate(templateName, cfg, onlyTemplate(source), env)
	if err != nil {
		return nil, err
	}
	return &chatTemplate{t, bos, eos}, nil
}

// messageList is what templates see as messages. The template engine's own
// index does not find messages[-1] of a single one.
type messageList []map[string]any

// GetItem is messages[key].
func (l messageList) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return exec.AsValue(nil), false
	}
	return exec.AsValue(l[i]), true
}

// render writes a conversation out, ready for the assistant's turn.
func (c *chatTemplate) render(messages []Message) (text string, err error) {
	defer guard(&err)
	list := make(messageList, len(messages))
	limit := maxRendered
	for i, msg := range messages {
		list[i] = map[string]any{"role": msg.Role, "content": msg.Content}
		limit += 4 * (len(msg.Role) + len(msg.Content))
	}
	out := &boundedBuffer{limit: limit}
	err = c.t.Execute(out, exec.NewContext(map[string]any{
		"messages": list, "add_generation_prompt": true, "bos_token": c.bos, "eos_token": c.eos,
	}))
	if err == nil {
		err = out.err // which the template engine does not pass on
	}
	return out.String(), err
}

// boundedBuffer keeps at most limit bytes.
type boundedBuffer struct {
	bytes.Buffer
	limit int
	err   error // there were more
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		b.err = fmt.Errorf("it writes more than %d bytes", b.limit)
		return 0, b.err
	}
	return b.Buffer.Write(p)
}

// WriteString hides Buffer's own, which knows no limit.
func (b *boundedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// ChatPrompt writes a conversation as the model's chat template does, ready
// for the model's answer.
func (m *Model) ChatPrompt(messages []Message) (string, error) {
	m.templateOnce.Do(func() {
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
			m.templateErr = fmt.Errorf("%s: chat template: %w: %w", m.store.Path(), m.templateErr, ErrInvalid)
		}
	})
	if m.templateErr != nil {
		return "", m.templateErr
	}
	text, err := m.template.render(messages)
	if err != nil {
		return "", fmt.Errorf("%s: chat template: %w", m.store.Path(), err)
	}
	return text, nil
}

// strftimeNow is what templates that write the date use.
func strftimeNow(format string) string {
	now, out := time.Now(), strings.Builder{}
	verbs := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'H': "15", 'M': "04", 'S': "05"}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		if layout, ok := verbs[format[i]]; ok {
			out.WriteString(now.Format(layout))
		} else {
			out.WriteByte(format[i])
		}
	}
	return out.String()
}
