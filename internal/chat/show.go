package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str writes a value as Python's str() shows it.
func (t *text) str(v value) error {
	if s, ok := v.(string); ok {
		return t.write(s)
	}
	if _, ok := v.(undefined); ok {
		return nil
	}
	return t.repr(v)
}

// asText is Python's str().
func (s *state) asText(v value) (string, error) {
	if str, ok := v.(string); ok {
		return str, nil
	}
	t := &text{s: s}
	err := t.str(v)
	return t.b.String(), err
}

// repr writes a value as Python's repr() shows it.
func (t *text) repr(v value) error {
	if err := t.s.deeper(); err != nil {
		return err
	}
	defer t.s.shallower()
	switch v := v.(type) {
	case nil:
		return t.write("None")
	case bool:
		if v {
			return t.write("True")
		}
		return t.write("False")
	case int64:
		return t.write(strconv.FormatInt(v, 10))
	case float64:
		return t.write(showFloat(v))
	case string:
		return t.quote(v)
	case *list:
		return t.reprList(v)
	case *dict:
		if err := t.write("{"); err != nil {
			return err
		}
		for i, key := range v.keys {
			if err := t.reprPair(i, key, v.vals[i]); err != nil {
				return err
			}
		}
		return t.write("}")
	case *view:
		if err := t.write(v.kind + "("); err != nil {
			return err
		}
		if err := t.repr(&list{items: v.items}); err != nil {
			return err
		}
		return t.write(")")
	case *numbers:
		stop := v.start + v.n*v.step
		if v.step == 1 {
			return t.write(fmt.Sprintf("range(%d, %d)", v.start, stop))
		}
		return t.write(fmt.Sprintf("range(%d, %d, %d)", v.start, stop, v.step))
	case *namespace:
		if err := t.write("<Namespace {"); err != nil {
			return err
		}
		for i, name := range v.names {
			if err := t.reprPair(i, name, v.vars[name]); err != nil {
				return err
			}
		}
		return t.write("}>")
	case undefined:
		return t.write("Undefined")
	case *macro:
		if err := t.write("<Macro "); err != nil {
			return err
		}
		if err := t.quote(v.name); err != nil {
			return err
		}
		return t.write(">")
	}
	return t.write("<" + typeName(v) + " object>")
}

func (t *text) reprList(l *list) error {
	left, right := "[", "]"
	if l.tuple {
		left, right = "(", ")"
		if len(l.items) == 1 {
			right = ",)"
		}
	}
	if err := t.write(left); err != nil {
		return err
	}
	for i, item := range l.items {
		if i > 0 {
			if err := t.write(", "); err != nil {
				return err
			}
		}
		if err := t.repr(item); err != nil {
			return err
		}
	}
	return t.write(right)
}

func (t *text) reprPair(i int, key, v value) error {
	if i > 0 {
		if err := t.write(", "); err != nil {
			return err
		}
	}
	if err := t.repr(key); err != nil {
		return err
	}
	if err := t.write(": "); err != nil {
		return err
	}
	return t.repr(v)
}

// quote writes a string as Python's repr() does. Pieces without escapes are
// written as they are.
func (t *text) quote(v string) error {
	mark := "'"
	if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
		mark = `"`
	}
	if err := t.write(mark); err != nil {
		return err
	}
	from := 0
	for i, r := range v {
		escape := ""
		switch {
		case r == '\\' || string(r) == mark:
			escape = `\` + string(r)
		case r == '\n':
			escape = `\n`
		case r == '\r':
			escape = `\r`
		case r == '\t':
			escape = `\t`
		case unicode.IsPrint(r):
			continue
		case r < 0x100:
			escape = fmt.Sprintf(`\x%02x`, r)
		case r < 0x10000:
			escape = fmt.Sprintf(`\u%04x`, r)
		default:
			escape = fmt.Sprintf(`\U%08x`, r)
		}
		if err := t.write(v[from:i] + escape); err != nil {
			return err
		}
		_, size := utf8.DecodeRuneInString(v[i:])
		from = i + size
	}
	return t.write(v[from:] + mark)
}

// showFloat is Python's repr() of a float.
func showFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// percent is format % v. Of Python's conversions it knows s, r, d, i and, with
// a precision of one digit, f.
func (s *state) percent(format string, v value) (value, error) {
	args := []value{v}
	l, isTuple := v.(*list)
	if isTuple = isTuple && l.tuple; isTuple {
		args = l.items
	}
	out := &text{s: s}
	for {
		before, after, found := strings.Cut(format, "%")
		if err := out.write(before); err != nil {
			return nil, err
		}
		if !found {
			break
		}
		precision := 6
		if len(after) > 2 && after[0] == '.' && after[1] >= '0' && after[1] <= '9' && after[2] == 'f' {
			precision, after = int(after[1]-'0'), after[2:]
		}
		if after == "" {
			return nil, s.errorf("an incomplete format")
		}
		verb := after[0]
		format = after[1:]
		if verb == '%' {
			if err := out.write("%"); err != nil {
				return nil, err
			}
			continue
		}
		if len(args) == 0 {
			return nil, s.errorf("not enough values for the format")
		}
		if err := out.verb(verb, precision, args[0]); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	if _, isDict := v.(*dict); len(args) > 0 && (!isDict || isTuple) {
		return nil, s.errorf("more values than the format shows")
	}
	return out.b.String(), nil
}

// verb writes one value of a format.
func (t *text) verb(verb byte, precision int, v value) error {
	i, f, isInt, ok := number(v)
	switch verb {
	case 's':
		return t.str(v)
	case 'r':
		return t.repr(v)
	case 'd', 'i':
		if ok && !isInt && math.Abs(f) < 1<<63 {
			i, isInt = int64(f), true
		}
		if isInt {
			return t.write(strconv.FormatInt(i, 10))
		}
		return t.s.unfit("a format's %d", v)
	case 'f':
		if ok {
			return t.write(strconv.FormatFloat(f, 'f', precision, 64))
		}
		return t.s.unfit("a format's %f", v)
	}
	return t.s.errorf("format %%%c is not supported", verb)
}
