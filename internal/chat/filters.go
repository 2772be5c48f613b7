package chat

import (
	"math"
	"strconv"
	"strings"
)

// textFilter makes a filter that sees its value as a string.
func textFilter(spec string, fn func(s *state, self string, a []value) (value, error)) builtin {
	return def(spec, func(s *state, self value, a []value) (value, error) {
		str, err := s.asText(self)
		if err != nil {
			return nil, err
		}
		if err := s.work(len(str)); err != nil {
			return nil, err
		}
		return fn(s, str, a)
	})
}

// recased is a textFilter that gives a new string of about the same size.
func recased(fn func(string) string) builtin {
	return textFilter("", func(s *state, self string, _ []value) (value, error) {
		return s.mapped(self, fn)
	})
}

// filters are what can stand after a bar. The map is filled in init because
// map, select and others refer to it.
var filters map[string]builtin

func init() {
	filters = map[string]builtin{
		"trim":       textFilter("chars?", func(s *state, self string, a []value) (value, error) { return s.strip(self, a[0], true, true) }),
		"upper":      recased(toUpper),
		"lower":      recased(toLower),
		"capitalize": recased(capitalize),
		"title":      textFilter("", titleWords),
		"string":     textFilter("", func(_ *state, self string, _ []value) (value, error) { return self, nil }),
		"safe":       textFilter("", func(_ *state, self string, _ []value) (value, error) { return self, nil }),
		"escape":     textFilter("", escapeHTML),
		"e":          textFilter("", escapeHTML),
		"indent":     def("width? first? blank?", indent),
		"replace": textFilter("old new count?", func(s *state, self string, a []value) (value, error) {
			old, err := s.asText(a[0])
			if err != nil {
				return nil, err
			}
			fresh, err := s.asText(a[1])
			if err != nil {
				return nil, err
			}
			return s.replace(self, old, fresh, a[2])
		}),
		"format": func(s *state, self value, args []value, kw []keyword) (value, error) {
			str, err := s.asText(self)
			if err != nil {
				return nil, err
			}
			if len(kw) > 0 {
				return nil, s.errorf("format: named values are not supported")
			}
			return s.percent(str, &list{args, true})
		},
		"tojson":  def("ensure_ascii? indent? separators? sort_keys?", toJSON),
		"default": def("default_value? boolean?", preset),
		"d":       def("default_value? boolean?", preset),
		"int":     def("default? base?", toInt),
		"float":   def("default?", toFloat),
		"round":   def("precision? method?", round),
		"abs": def("", func(s *state, self value, _ []value) (value, error) {
			_, f, isInt, ok := number(self)
			switch {
			case !ok:
				return nil, s.unfit("abs", self)
			case isInt && f < 0:
				return s.arith("*", self, int64(-1))
			case isInt:
				return s.arith("+", self, int64(0))
			}
			return math.Abs(f), nil
		}),
		"length": def("", length), "count": def("", length),
	}
	for name, f := range sequenceFilters {
		filters[name] = f
	}
}

func length(s *state, self value, _ []value) (value, error) {
	n, ok, err := s.size(self)
	if err == nil && !ok {
		err = s.unfit("length", self)
	}
	return int64(n), err
}

func preset(_ *state, self value, a []value) (value, error) {
	_, missing := self.(undefined)
	if !missing && (a[1] == (absent{}) || !truth(a[1]) || truth(self)) {
		return self, nil
	}
	if a[0] == (absent{}) {
		return "", nil
	}
	return a[0], nil
}

// titleWords is the title filter, which begins words at other places than
// the title method.
func titleWords(st *state, s string, _ []value) (value, error) {
	if err := st.alloc(len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for s != "" {
		if err := st.step(); err != nil { // a word is a step: case rules cost more than bytes
			return nil, err
		}
		isGap := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
		word := strings.IndexFunc(s, func(r rune) bool { return !isGap(r) })
		if word < 0 {
			word = len(s)
		}
		b.WriteString(s[:word])
		s = s[word:]
		end := strings.IndexFunc(s, isGap)
		if end < 0 {
			end = len(s)
		}
		first := runeOffset(s[:end], 1)
		b.WriteString(toUpper(s[:first]) + toLower(s[first:end]))
		s = s[end:]
	}
	return b.String(), nil
}

var htmlEscapes = []string{"&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;"}

func escapeHTML(s *state, self string, _ []value) (value, error) {
	var v value = self
	for i := 0; i < len(htmlEscapes); i += 2 {
		var err error
		if v, err = s.replace(v.(string), htmlEscapes[i], htmlEscapes[i+1], absent{}); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func indent(s *state, self value, a []value) (value, error) {
	str, err := s.wantText("indent", self)
	if err != nil {
		return nil, err
	}
	var by value = "    "
	switch width := a[0].(type) {
	case absent:
	case string:
		by = width
	default:
		n, _, isInt, _ := number(width)
		if !isInt {
			return nil, s.unfit("indent", width)
		}
		if by, err = s.repeat(" ", n); err != nil {
			return nil, err
		}
	}
	first, blank := a[1] != absent{} && truth(a[1]), a[2] != absent{} && truth(a[2])
	if err := s.alloc(len(str) + 1); err != nil {
		return nil, err
	}
	if err := s.work(len(str)); err != nil {
		return nil, err
	}
	lines, err := s.lines(str+"\n", false)
	if err != nil {
		return nil, err
	}
	out := &text{s: s}
	for i, line := range lines {
		if i > 0 {
			if err := out.write("\n"); err != nil {
				return nil, err
			}
		}
		if i == 0 && first || i > 0 && (blank || line != "") {
			if err := out.str(by); err != nil {
				return nil, err
			}
		}
		if err := out.str(line); err != nil {
			return nil, err
		}
	}
	return out.b.String(), nil
}

// toInt is the int filter: what is no number gives the default.
func toInt(s *state, self value, a []value) (value, error) {
	var other value = int64(0)
	if a[0] != (absent{}) {
		other = a[0]
	}
	base := int64(10)
	if a[1] != (absent{}) {
		n, _, isInt, _ := number(a[1])
		if !isInt || n != 0 && (n < 2 || n > 36) {
			return other, nil
		}
		base = n
	}
	switch v := self.(type) {
	case undefined:
		return nil, s.errorf("%s", v)
	case string:
		if err := s.work(len(v)); err != nil {
			return nil, err
		}
		trimmed := strings.ToLower(strings.TrimFunc(short(v), isSpace))
		bare := trimmed
		if prefix := map[int64]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
			bare = strings.Replace(trimmed, prefix, "", 1)
		}
		if plausible(bare) {
			n, err := strconv.ParseInt(strings.ReplaceAll(bare, "_", ""), int(base), 64)
			if err == nil {
				return n, nil
			}
		}
	}
	_, f, isInt, ok := number(self)
	if isInt {
		return s.arith("+", self, int64(0))
	}
	if str, isText := self.(string); isText {
		f, ok = parseFloat(str)
	}
	if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return other, nil
	}
	return int64(f), nil
}

// plausible says whether underscores stand between digits only.
func plausible(s string) bool {
	return !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") && !strings.Contains(s, "__")
}

// parseFloat reads what Python's float() does.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if len(s) > 400 || strings.ContainsAny(s, "xXpP") || !plausible(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toFloat(s *state, self value, a []value) (value, error) {
	if u, ok := self.(undefined); ok {
		return nil, s.errorf("%s", u)
	}
	_, f, _, ok := number(self)
	if str, isText := self.(string); isText {
		if err := s.work(len(str)); err != nil {
			return nil, err
		}
		f, ok = parseFloat(str)
	}
	switch {
	case ok:
		return f, nil
	case a[0] != absent{}:
		return a[0], nil
	}
	return 0.0, nil
}

func round(s *state, self value, a []value) (value, error) {
	_, f, isInt, ok := number(self)
	if !ok {
		return nil, s.unfit("round", self)
	}
	digits := int64(0)
	if a[0] != (absent{}) {
		n, _, whole, _ := number(a[0])
		if !whole {
			return nil, s.unfit("round's precision", a[0])
		}
		digits = n
	}
	if digits < -300 || digits > 300 {
		return nil, s.errorf("round to %d digits, expected at most 300", digits)
	}
	switch a[1] {
	case absent{}, "common":
	case "ceil":
		return math.Ceil(f*math.Pow10(int(digits))) / math.Pow10(int(digits)), nil
	case "floor":
		return math.Floor(f*math.Pow10(int(digits))) / math.Pow10(int(digits)), nil
	default:
		return nil, s.errorf("round: expected common, ceil or floor")
	}
	if isInt && digits >= 0 {
		return s.arith("+", self, int64(0))
	}
	if digits < 0 {
		rounded := math.RoundToEven(f/math.Pow10(int(-digits))) * math.Pow10(int(-digits))
		if isInt && math.Abs(rounded) < 1<<63 {
			return int64(rounded), nil
		}
		return rounded, nil
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return f, nil
	}
	// The decimal form rounds the exact value, as Python does.
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
	if err != nil {
		return nil, s.errorf("round: %w", err)
	}
	return rounded, nil
}
