package tokenizer

import (
	"encoding/json"
	"errors"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hotpath/internal/format"
)

// splitFile is a small tokenizer.json whose pieces a pattern cuts.
func splitFile(pattern string) string {
	return `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + jsonString(pattern) + `},"behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},` +
		`"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"Ġ":2,"ĠĠ":3,"Ġa":4},"merges":["Ġ Ġ","Ġ a"]}}`
}

// TestPatterns holds patterns that no hand-written matcher knows to the reference.
func TestPatterns(t *testing.T) {
	texts := goldenTexts(t)
	var cases []struct {
		Name         string
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		CRC          []uint32
	}
	readGolden(t, "patterns.json", &cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			tok, err := FromJSON(c.Name, assemble(t, "bpe", map[string]json.RawMessage{"pre_tokenizer": c.PreTokenizer}), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := tok.steps[0].(splitStep); !ok {
				t.Fatalf("a hand-written matcher takes the pattern: %T", tok.steps[0])
			}
			var s Scratch
			bad := 0
			for i, text := range texts {
				ids := tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, &s)
				if checksum(ids) != c.CRC[i] {
					if bad++; bad <= 3 {
						t.Errorf("text %d %+.200q: ids differ from the reference's, got %v", i, text, ids)
					}
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d texts", bad, len(texts))
			}
		})
	}
}

// TestRandomPatterns holds assertions, folding and sets in all combinations to the reference.
func TestRandomPatterns(t *testing.T) {
	var cases []struct {
		Pattern, Text string
		Pieces        []string
	}
	readGolden(t, "random_patterns.json", &cases)
	refused := 0
	for _, c := range cases {
		p, err := compilePattern(c.Pattern)
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "may be empty") && !strings.Contains(err.Error(), "assertion") {
				t.Error(err)
			}
			continue
		}
		var got []string
		s := Scratch{text: []byte(c.Text), spans: [2][]span{{{0, len(c.Text)}}}}
		splitStep{p, isolated, false}.apply(&s)
		for _, m := range s.spans[0] {
			got = append(got, c.Text[m.start:m.end])
		}
		if !slices.Equal(got, c.Pieces) {
			t.Errorf("%s cuts %q into %q, expected %q", c.Pattern, c.Text, got, c.Pieces)
		}
	}
	if refused > len(cases)/10 {
		t.Errorf("%d of %d patterns are refused", refused, len(cases))
	}
}

// TestPropertiesAgree holds the two measurements of the reference's classes to each other.
func TestPropertiesAgree(t *testing.T) {
	for name, c := range map[string]class{"L": classLetter, "N": classNumber, "P": classRegexPunct, "s": classSpace} {
		set, ok := property(name)
		if !ok {
			t.Fatalf("no property %s", name)
		}
		for r := rune(0); r <= utf8.MaxRune; r++ {
			if utf8.ValidRune(r) && set.has(r) != classOf(r).is(c) {
				t.Errorf("%s: U+%04X is in one table only", name, r)
			}
		}
	}
}

func matches(t testing.TB, pattern, text string) []span {
	t.Helper()
	p, err := compilePattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return p.find([]byte(text), new(Scratch), nil)
}

// TestLongLine cuts lines that are many blocks long, and a walk that looks further than it takes at every
// place.
func TestLongLine(t *testing.T) {
	line := strings.Repeat("five é words, 北京 12 ", 12<<20/27)
	found := matches(t, `\s(?=\S)`, line)
	if want := strings.Count(strings.TrimRight(line, " "), " "); len(found) != want {
		t.Errorf("%d matches of %d", len(found), want)
	}
	for _, m := range found {
		if line[m.start:m.end] != " " {
			t.Fatalf("%d to %d is %q", m.start, m.end, line[m.start:m.end])
		}
	}
	spaces, as := strings.Repeat(" ", 1<<20), strings.Repeat("a", 1<<20)
	for _, c := range []struct {
		pattern, text string
		first         span
		count         int
	}{
		{llama3Pattern, spaces, span{0, 1 << 20}, 1},
		{llama3Pattern, spaces + "x", span{0, 1<<20 - 1}, 2},
		{`\s+(?=\S)`, spaces, span{}, 0},
		{`\s*[\r\n]+|\s`, spaces, span{0, 1}, 1 << 20},
		{`\s(?=\s*x)`, spaces + "x", span{0, 1}, 1 << 20},
		{`(a+)+$`, as, span{0, 1 << 20}, 1},
		{`(a+)+$`, as + "b", span{}, 0},
		{`(?:a|aa)+b|a`, as, span{0, 1}, 1 << 20},
		{`a*?b`, as, span{}, 0},
	} {
		found := matches(t, c.pattern, c.text)
		if len(found) != c.count || c.count > 0 && found[0] != c.first {
			t.Errorf("%s: %d matches in %.3q... (%d bytes), expected %d with %v first", c.pattern, len(found), c.text, len(c.text), c.count, c.first)
		}
	}
}

// TestPatternsLikeRegexp holds the matcher to another one where both know the syntax, on random patterns and
// texts that fill several blocks.
func TestPatternsLikeRegexp(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	var expression func(depth int) string
	expression = func(depth int) string {
		atoms := []string{"a", "b", "é", "[ab]", "[^a]", ".", `\A`, `\z`, "(?:aé|b)"}
		switch n := r.Intn(8); {
		case depth == 0 || n == 0:
			return atoms[r.Intn(len(atoms))]
		case n < 3:
			return expression(depth-1) + expression(depth-1)
		case n < 5:
			return "(?:" + expression(depth-1) + "|" + expression(depth-1) + ")"
		}
		return "(?:" + expression(depth-1) + ")" + []string{"*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"}[r.Intn(9)]
	}
	compared := 0
	for range 3000 {
		pattern := expression(4)
		p, err := compilePattern(pattern)
		if err != nil {
			continue // a loop of nothing
		}
		other := regexp.MustCompile(pattern)
		var text strings.Builder
		for range r.Intn(30) {
			text.WriteString([]string{"a", "b", "é", "\n", "aab"}[r.Intn(5)])
		}
		subject := []byte(text.String())
		var want []span
		for _, m := range other.FindAllIndex(subject, -1) {
			want = append(want, span{m[0], m[1]})
		}
		got := p.find(subject, new(Scratch), nil)
		if !slices.Equal(got, want) {
			t.Errorf("%s in %q: %v, expected %v", pattern, subject, got, want)
		}
		f := finding{pattern: p, text: subject, s: new(patternScratch), size: 5}
		if got := f.all(nil); !slices.Equal(got, want) {
			t.Errorf("%s in %q, in blocks of 5 bytes: %v, expected %v", pattern, subject, got, want)
		}
		compared++
	}
	if compared < 2000 {
		t.Errorf("%d of 3000 patterns were compared", compared)
	}
}

// refusedPatterns holds what must not be guessed at, and a word of each reason.
var refusedPatterns = []struct{ pattern, want string }{
	{`(`, "no )"}, {`)`, "without a matching ("}, {`[a`, "no ]"}, {`[]`, "empty set"}, {`*a`, "nothing to repeat"}, {`a\`, "after the last"},
	{`(a)\1`, "escape"}, {`(?<x>a)\k<x>`, "group"}, {`(?>a+)b`, "group"}, {`(?#c)`, "group"}, {`(*FAIL)`, "group"}, {`(?s:.)`, "group"}, {`a(?i)b|c`, "group"},
	{`a{`, "count"}, {`a{}`, "count"}, {`a{x}`, "count"}, {`a{+1}`, "count"}, {`a{3,2}`, "count"}, {`a{501}`, "count"}, {`a{99999999999999999999}`, "count"},
	{`(a*)*`, "may be empty"}, {`(?:a|\b)+`, "may be empty"}, {`(?:)*`, "may be empty"}, {`(?=a)*`, "assertion"},
	{`(?<=ab)c`, "lookbehind"}, {`(?<!a+)c`, "lookbehind"}, {`(?<=a|bc)`, "lookbehind"},
	{`(?i:é)`, "ASCII"}, {`(?i:\p{L})`, "ASCII"}, {`(?i:[^a])`, "negated set"}, {`(?i:ss)`, "single character"}, {`(?i:(?:s)t)`, "single character"}, {`(?i:f{2})`, "single character"},
	{`\p{Klingon}`, "escape"}, {`\p{L`, "escape"}, {`\pL`, "escape"}, {`\h`, "escape"}, {`\X`, "escape"}, {`\K`, "escape"}, {`\Z`, "escape"}, {`\012`, "escape"}, {`\é`, "escape"},
	{`\xff`, "escape"}, {`\x{110000}`, "escape"}, {`\x{d800}`, "escape"}, {`\u12`, "escape"}, {`\x{`, "escape"},
	{`[[:alpha:]]`, "set"}, {`[a-z&&b]`, "set"}, {`[z-a]`, "range"}, {`[\d-z]`, "range"}, {`[a-\d]`, "range"}, {`[a-[b]]`, "range"}, {`[\b]`, "escape"},
	{strings.Repeat("(", 60) + strings.Repeat(")", 60), "nested more than"}, {strings.Repeat("[", 60) + "a" + strings.Repeat("]", 60), "nested more than"},
	{`(?:a{100}){100}`, "states"}, {strings.Repeat("(?:", 40) + "a" + strings.Repeat("){500}", 40), "states"}, {strings.Repeat("(?:", 40) + "a" + strings.Repeat("){0,500}", 40), "states"},
	{strings.Repeat("a", 5000), "at most 4096"}, {strings.Repeat("a", 513), "states"}, {strings.Repeat("(?:a|b)", 300), "states"},
}

func TestRefusedPatterns(t *testing.T) {
	for _, c := range refusedPatterns {
		_, err := FromJSON("some/tokenizer.json", []byte(splitFile(c.pattern)), nil)
		if !errors.Is(err, format.ErrUnsupported) {
			t.Errorf("%.60s: error %v, expected ErrUnsupported", c.pattern, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "some/tokenizer.json: pre_tokenizer.pretokenizers[0].pattern: regular expression \"") || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
			t.Errorf("%.60s: %v, expected file, field, pattern and %q", c.pattern, err, c.want)
		}
	}
	// A part that matches nothing costs nothing, however often it is repeated.
	if got := matches(t, strings.Repeat("(?:", 40)+strings.Repeat("){500}", 40)+"a", "ba"); !slices.Equal(got, []span{{1, 2}}) {
		t.Errorf("an empty part many times: %v", got)
	}
}

func FuzzPattern(f *testing.F) {
	for _, c := range refusedPatterns {
		f.Add(c.pattern, "a text")
	}
	for _, pattern := range []string{gpt2Pattern, llama3Pattern, `(?<=[a-z])(?=\p{Lu})`, `^a|(?:b??c{1,3})+?$|\b`, `(?i:[k-s]|'re)\x{e9}`} {
		f.Add(pattern, "It's 12345  words,\n\n andMore é")
	}
	f.Fuzz(func(t *testing.T, text, subject string) {
		p, err := compilePattern(text)
		if err != nil {
			if !errors.Is(err, format.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		valid := appendValid(nil, subject)
		if len(valid) > 1000 {
			return
		}
		found := p.find(valid, new(Scratch), nil)
		blocks := finding{pattern: p, text: valid, s: new(patternScratch), size: 7}
		if again := blocks.all(nil); !slices.Equal(found, again) {
			t.Fatalf("%v, in small blocks %v", found, again)
		}
		end := 0
		for _, m := range found {
			if m.start < end || m.end < m.start || m.end > len(valid) || !utf8.Valid(valid[m.start:m.end]) {
				t.Fatalf("%v in %q", found, valid)
			}
			end = m.end
		}
	})
}
