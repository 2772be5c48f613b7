// Package chat runs the chat templates of model files: an interpreter of the
// part of Jinja that Hugging Face chat templates use, with the settings that
// transformers gives it (trim_blocks, lstrip_blocks, loop controls, immutable
// lists and dicts).
//
// A template comes from a model's file and is hostile until shown otherwise,
// so everything it does has a limit (see the constants below): source, nesting,
// macro depth, steps, time, bytes made, bytes written. Whoever passes a limit gets
// an error with the template's name and line. No input makes this package
// panic.
//
// What is left out on purpose: reading other templates (include, import,
// extends), recursive loops, integers beyond 64 bits, and Jinja's Markup type:
// safe and escape give plain strings.
//
// The package imports nothing of ours; hotpath imports it.
package chat

import (
	"context"
	"fmt"
	"time"
)

// What one template may use up. Of steps, bytes made and bytes written there is
// more for each byte of the variables, so that long conversations pass: see
// limits.
const (
	maxSource  = 256 << 10 // bytes of source
	maxNesting = 100       // blocks, expressions and values within each other
	maxMacros  = 32        // macro calls within each other
	maxSteps   = 2_000_000 // expressions, statements, items and assignments, plus one per workBytes of text looked at
	maxTime    = 30 * time.Second
	maxMade    = 16 << 20 // bytes of strings, lists and dicts made
	maxOutput  = 4 << 20  // bytes written
	maxRange   = 100_000  // numbers of one range, as in Jinja's sandbox
	maxMessage = 4 << 10  // bytes of a template's own error message
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name string
	body []stmt
	now  func() time.Time
}

// Parse reads a template. Its errors begin with the name and the line.
func Parse(name, source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%s: %d bytes of source, expected at most %d", name, len(source), maxSource)
	}
	body, err := parse(name, source)
	if err != nil {
		return nil, err
	}
	return &Template{name: name, body: body, now: time.Now}, nil
}

// Render runs the template. Variables are strings, numbers, booleans, nil,
// slices and maps with string keys of these, or json.RawMessage, which keeps
// the order of its objects' members; a Go map's are sorted.
func (t *Template) Render(ctx context.Context, variables map[string]any) (string, error) {
	root := &scope{vars: make(map[string]value, len(variables))}
	input := 0
	for name, v := range variables {
		input += bytesOf(v)
		converted, err := fromGo(v, 0)
		if err != nil {
			return "", fmt.Errorf("%s: variable %s: %w", t.name, name, err)
		}
		root.vars[name] = converted
	}
	out := t.begin(ctx, input)
	if _, err := out.s.execAll(t.body, root, out); err != nil {
		return "", err
	}
	return out.b.String(), nil
}

// limits are the budgets of one rendering.
type limits struct{ steps, made, output int }

// limitsOf gives the budgets for variables of so many bytes: each byte may be
// looked at 64 times, copied 16 times and written 4 times.
func limitsOf(input int) limits {
	return limits{steps: maxSteps + input, made: maxMade + 16*input, output: maxOutput + 4*input}
}

// begin makes the output of a new rendering with variables of so many bytes.
func (t *Template) begin(ctx context.Context, input int) *text {
	s := &state{ctx: ctx, name: t.name, now: t.now, began: t.now(), line: 1, limits: limitsOf(input)}
	return &text{s: s, output: true}
}
