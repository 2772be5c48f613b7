package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"hotpath/internal/format/gguf"
	"hotpath/internal/format/jsonview"
	"hotpath/internal/term"
	"hotpath/internal/weights"
)

// Metadata is for reading: longer values are cut.
const (
	maxItems = 8
	maxChars = 80
)

// metaEntry is one key of the file's own description.
type metaEntry struct {
	Key   string `json:"key"`
	Type  string `json:"type,omitempty"`
	Count int    `json:"count,omitempty"` // of an array, before it was cut
	Value any    `json:"value"`           // the first items of an array
}

func ggufMetadata(f *gguf.File) []metaEntry {
	out := []metaEntry{}
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		e := metaEntry{Key: key, Type: v.Type().String()}
		if v.Type() == gguf.Array {
			e.Type, e.Count = "array of "+v.Elem().String(), v.Len()
			e.Value = firstItems(v)
		} else {
			e.Value = scalar(v)
		}
		out = append(out, e)
	}
	return out
}

func firstItems(v gguf.Value) []any {
	out := []any{}
	for item := range v.Items() {
		if len(out) == maxItems {
			break
		}
		if item.Type() == gguf.Array {
			out = append(out, fmt.Sprintf("array of %d", item.Len()))
			continue
		}
		out = append(out, scalar(item))
	}
	return out
}

// scalar is a value that JSON can hold: files may contain NaN.
func scalar(v gguf.Value) any {
	if s, ok := v.Text(); ok {
		return s
	}
	x := v.Any()
	if _, err := json.Marshal(x); err != nil {
		return fmt.Sprint(x)
	}
	return x
}

func configMetadata(c *weights.Config) []metaEntry {
	out := []metaEntry{}
	for _, key := range c.Keys() {
		raw, _ := c.Raw(key)
		e := metaEntry{Key: key, Value: raw}
		// A list may be long: no more of it is decoded than is shown.
		if v, err := jsonview.Parse(raw); err == nil && v.Kind() == jsonview.Array {
			first := []json.RawMessage{}
			for item := range v.Items() {
				if len(first) == maxItems {
					break
				}
				first = append(first, item.Raw())
			}
			e.Count, e.Value = v.Len(), first
		}
		out = append(out, e)
	}
	return out
}

func (e metaEntry) line() string {
	value, ok := e.Value.(string)
	if !ok {
		var b strings.Builder
		if err := encodeJSON(&b, e.Value); err != nil {
			return err.Error()
		}
		value = b.String()
	}
	text := excerpt(value, maxChars)
	if e.Count > maxItems {
		text = strings.TrimSuffix(text, "]") + fmt.Sprintf(", … %d in all", e.Count)
	}
	return text
}

// print writes the report for people.
func (in *inspection) print(w io.Writer, tensors bool) error {
	rows := [][2]string{{"file", in.Path}, {"format", in.Format}}
	if d := in.Config; d != nil {
		rows = append(rows, d.rows()...)
	} else {
		rows = append(rows, [2]string{"architecture", in.Arch})
		rows = append(append(rows, in.Vocabulary.rows()...), [2]string{"cannot run", oneLine(in.Unsupported)})
	}
	rows = append(rows, [2]string{"tensors", fmt.Sprintf("%d, %s elements, %s", len(in.Tensors), amount(in.Elements), size(in.Bytes))})
	for _, t := range in.Types {
		line := fmt.Sprintf("%d, %s elements", t.Tensors, amount(t.Elements))
		if t.Bytes > 0 {
			line += ", " + size(t.Bytes)
		}
		rows = append(rows, [2]string{"  " + t.Type, line})
	}
	if err := table(w, append(rows, in.unread()...)); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\nmetadata\n")
	for _, e := range in.Metadata {
		fmt.Fprintf(&b, "  %-40s %s\n", term.Printable(e.Key), e.line())
	}
	if tensors {
		b.WriteString("\ntensors\n")
		for _, t := range in.Tensors {
			fmt.Fprintf(&b, "  %-40s %-5s %v\n", term.Printable(t.Name), term.Printable(t.Type), t.Dims)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unread names the tensors that hotpath does not read.
func (in *inspection) unread() (rows [][2]string) {
	n := 0
	for _, t := range in.Tensors {
		if !t.Unread {
			continue
		}
		if n++; n <= maxItems {
			rows = append(rows, [2]string{"  not read", fmt.Sprintf("%s, %s %v", excerpt(t.Name, maxChars), t.Type, t.Dims)})
		}
	}
	if n > maxItems {
		rows = append(rows, [2]string{"", fmt.Sprintf("… %d in all, of which --tensors and --format json have every one", n)})
	}
	return rows
}

func (d *description) rows() [][2]string {
	var uses []string
	if d.Embeds {
		uses = append(uses, "embed ("+d.Pooling+" pooling)")
	}
	if d.Generates {
		uses = append(uses, "generate, score, train")
	}
	if d.Chats {
		uses = append(uses, "chat")
	}
	flops := "unknown"
	if d.Cost.FLOPs > 0 {
		flops = amount(d.Cost.FLOPs)
	}
	per := fmt.Sprintf("%s FLOP, and %s a token of context", flops, amount(d.Cost.AttentionFLOPs))
	if d.Cost.KVBytes > 0 {
		per += fmt.Sprintf("; %s of KV cache in %s", size(d.Cost.KVBytes), strings.ToLower(d.Cost.KVType))
	}
	return append([][2]string{
		{"architecture", d.Arch},
		{"name", d.Name},
		{"for", strings.Join(uses, ", ")},
		{"parameters", amount(d.Parameters)},
		{"layers", fmt.Sprintf("%d of width %d, feed-forward %d", d.Layers, d.Dim, d.FFN)},
		{"heads", fmt.Sprintf("%d of %d, %d for keys and values", d.Heads, d.HeadDim, d.KVHeads)},
		{"vocabulary", fmt.Sprint(d.Vocab)},
		{"tokens", fmt.Sprintf("at most %d", d.MaxTokens)},
		{"a token costs", per},
	}, d.Compute.rows()...)
}
