package chat

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// jsonStyle is how tojson writes.
type jsonStyle struct {
	ascii       bool // everything else escaped
	pretty      bool // a line for every item
	indent      string
	comma       string
	colon       string
	sortMembers bool
}

// toJSON is the tojson filter as transformers defines it: json.dumps with its
// own defaults, but ensure_ascii off.
func toJSON(s *state, v value, a []value) (value, error) {
	style := jsonStyle{comma: ", ", colon: ": ", ascii: a[0] != absent{} && truth(a[0]), sortMembers: a[3] != absent{} && truth(a[3])}
	switch indent := a[1].(type) {
	case absent, nil:
	case string:
		style.pretty, style.indent = true, indent
	default:
		n, _, isInt, _ := number(indent)
		if !isInt {
			return nil, s.unfit("tojson's indent", indent)
		}
		spaces, err := s.repeat(" ", n)
		if err != nil {
			return nil, err
		}
		style.pretty, style.indent = true, spaces.(string)
	}
	if style.pretty {
		style.comma = ","
	}
	if l, ok := a[2].(*list); ok {
		if len(l.items) != 2 {
			return nil, s.errorf("tojson: %d separators, expected 2", len(l.items))
		}
		comma, ok1 := l.items[0].(string)
		colon, ok2 := l.items[1].(string)
		if !ok1 || !ok2 {
			return nil, s.errorf("tojson: the separators are not strings")
		}
		style.comma, style.colon = comma, colon
	} else if a[2] != nil && a[2] != (absent{}) {
		return nil, s.unfit("tojson's separators", a[2])
	}
	out := &text{s: s}
	err := out.json(v, &style, 0)
	return out.b.String(), err
}

func (t *text) json(v value, style *jsonStyle, depth int) error {
	if err := t.s.deeper(); err != nil {
		return err
	}
	defer t.s.shallower()
	switch v := v.(type) {
	case nil:
		return t.write("null")
	case bool:
		return t.write(fmt.Sprint(v))
	case int64:
		return t.repr(v)
	case float64:
		return t.write(jsonFloat(v))
	case string:
		return t.jsonString(v, style.ascii)
	case *list:
		return t.jsonItems("[", "]", len(v.items), style, depth, func(i int) error {
			return t.json(v.items[i], style, depth+1)
		})
	case *dict:
		return t.jsonDict(v, style, depth)
	}
	return t.s.errorf("tojson does not take %s", typeName(v))
}

func (t *text) jsonDict(d *dict, style *jsonStyle, depth int) error {
	if err := t.s.allocItems(2 * len(d.keys)); err != nil {
		return err
	}
	names := make([]string, len(d.keys))
	order := make([]int, len(d.keys))
	for i, key := range d.keys {
		order[i] = i
		switch key := key.(type) {
		case string:
			names[i] = key
		case nil:
			names[i] = "null"
		case bool:
			names[i] = fmt.Sprint(key)
		case int64:
			names[i] = fmt.Sprint(key)
		case float64:
			names[i] = jsonFloat(key)
		default:
			return t.s.errorf("tojson does not take %s for a key", typeName(key))
		}
	}
	if style.sortMembers {
		var failed error
		slices.SortStableFunc(order, func(a, b int) int {
			if failed != nil {
				return 0
			}
			var o int
			o, failed = t.s.order(d.keys[a], d.keys[b])
			return o
		})
		if failed != nil {
			return failed
		}
	}
	return t.jsonItems("{", "}", len(order), style, depth, func(i int) error {
		if err := t.jsonString(names[order[i]], style.ascii); err != nil {
			return err
		}
		if err := t.write(style.colon); err != nil {
			return err
		}
		return t.json(d.vals[order[i]], style, depth+1)
	})
}

// jsonItems writes brackets and what stands in them.
func (t *text) jsonItems(left, right string, n int, style *jsonStyle, depth int, item func(int) error) error {
	if n == 0 {
		return t.write(left + right)
	}
	if err := t.write(left); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := t.write(style.comma); err != nil {
				return err
			}
		}
		if err := t.newLine(style, depth+1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if err := t.newLine(style, depth); err != nil {
		return err
	}
	return t.write(right)
}

func (t *text) newLine(style *jsonStyle, depth int) error {
	if !style.pretty {
		return nil
	}
	if err := t.write("\n"); err != nil {
		return err
	}
	for range depth {
		if err := t.write(style.indent); err != nil {
			return err
		}
	}
	return nil
}

// jsonEscapes are the short ones.
var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func (t *text) jsonString(v string, ascii bool) error {
	if err := t.write(`"`); err != nil {
		return err
	}
	from := 0
	for i, r := range v {
		escape, ok := jsonEscapes[r]
		size := 1
		if !ok {
			if r >= ' ' && (r < 0x7f || !ascii) || r == 0x7f {
				continue
			}
			escape = fmt.Sprintf(`\u%04x`, r)
			if size = len(string(r)); r >= 0x10000 {
				high, low := utf16.EncodeRune(r)
				escape = fmt.Sprintf(`\u%04x\u%04x`, high, low)
			} else if r == 0xfffd && !strings.HasPrefix(v[i:], "\ufffd") {
				size = 1 // an invalid byte
			}
		}
		if err := t.write(v[from:i] + escape); err != nil {
			return err
		}
		from = i + size
	}
	return t.write(v[from:] + `"`)
}

func jsonFloat(f float64) string {
	switch s := showFloat(f); s {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	case "nan":
		return "NaN"
	default:
		return s
	}
}
