package hotpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/convert"
	"hotpath/internal/quant"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

const smolTemplate = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`

func TestChatTemplates(t *testing.T) {
	for _, c := range []struct{ name, template, want, err string }{
		{"smollm2", smolTemplate,
			"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
				"<|im_start|>user\nHi <b> & \"you\"<|im_end|>\n<|im_start|>assistant\n", ""},
		{"blocks are trimmed", "{%- for m in messages %}\n    {%- if m.role == 'user' %}\n[{{ m.content | trim }}]\n    {%- endif %}\n{%- endfor %}\n{{ bos_token }}{{ eos_token }}",
			"[Hi <b> & \"you\"]<s></s>", ""},
		{"variables and filters", "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }} {{ messages | length }} {{ messages[-1]['role'] | upper }}",
			"1 1 USER", ""},
		{"exception", "{{ raise_exception('only pairs are allowed') }}", "", "only pairs are allowed"},
		{"syntax", "{% for %}", "", "chat template: line 1: \"%}\", expected a name"},
		{"other files", "{% include '/etc/hostname' %}", "", "no such tag"},
		{"whole messages", "{{ messages | tojson }}", `[{"role": "user", "content": "Hi <b> & \"you\""}]`, ""},
		{"no tools", "{{ tools is none }}", "True", ""},
		{"long", "{% for i in range(9000) %}{{ 'xxxxxxxx' * 100 }}{% endfor %}", "", "writes more than"},
		{"long string", "{{ 'a' * 100000000000 }}", "", "makes more than"},
		{"endless", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "", "calls nested more than"},
	} {
		var got string
		tmpl, err := newChatTemplate(c.template, "<s>", "</s>")
		if err == nil {
			got, err = tmpl.render(context.Background(), []Message{{"user", "Hi <b> & \"you\""}})
		}
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "panic")):
			t.Errorf("%s: %v, expected %q", c.name, err, c.err)
		case c.err == "" && got != c.want:
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

func TestRealChatModel(t *testing.T) {
	m := open(t, testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf"), Options{Ctx: 256})
	text, err := m.ChatPrompt([]Message{{"user", "What is the capital of France?"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
		"<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
	if text != want {
		t.Errorf("%q, expected %q", text, want)
	}
	c, err := m.Complete(context.Background(), "What is the capital of France?", GenerateOptions{MaxTokens: 24})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.Text, "Paris") || c.FinishReason != "stop" {
		t.Errorf("%+v", c)
	}
}

// A template in a file of its own, where transformers writes it now, comes
// before that of tokenizer_config.json, and goes into what is converted.
func TestChatTemplateOfItsOwnFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer_config.json", `{"chat_template":"old {{ messages[0]['content'] }}"}`)
	for _, c := range []struct{ file, want string }{{"", "old hi"}, {"<{{ messages[0]['content'] }}>", "<hi>"}} {
		if c.file != "" {
			write("chat_template.jinja", c.file)
		}
		m := open(t, dir, Options{})
		if got, err := m.ChatPrompt([]Message{{"user", "hi"}}); err != nil || got != c.want {
			t.Errorf("%q: %v, expected %q", got, err, c.want)
		}
	}
	st, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	mix, err := quant.ParseMix("F32")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := convert.Directory(t.Context(), st, file, mix, quant.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, file, Options{}).ChatPrompt([]Message{{"user", "hi"}}); err != nil || got != "<hi>" {
		t.Errorf("converted: %q, %v", got, err)
	}
	write("chat_template.jinja", "\xff")
	if _, err := Open(dir, Options{}); !errors.Is(err, weights.ErrInvalid) {
		t.Errorf("no UTF-8: %v", err)
	}
}
