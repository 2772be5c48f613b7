package chat

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

// counted are constructs whose work grows with n. The steps of a rendering
// must grow by at least each per unit of n, or neither the step limit nor a
// canceled context would stop the template.
var counted = []struct {
	name   string
	source func(n int) string
	each   float64
}{
	{"items that a for's if rejects", looped("{% for i in range(N) if false %}{% endfor %}"), 2},
	{"items of a list that a for's if rejects", looped("{% for i in [0] * N if i %}{% endfor %}"), 2},
	{"characters that a for's if rejects", looped("{% for c in 'a' * N if not c %}{% endfor %}"), 2},
	{"length of a loop with if", looped("{% for i in range(N) if i > N - 3 %}{{ loop.length }}{% endfor %}"), 3},
	{"loop without body", looped("{% for i in range(N) %}{% endfor %}"), 1},
	{"constants", repeated("{% if ", "0 or ", "1 %}{% endif %}"), 1},
	{"and", repeated("{% if ", "1 and ", "1 %}{% endif %}"), 1},
	{"not of constants", repeated("{% if ", "not 1 or ", "1 %}{% endif %}"), 2},
	{"signs", repeated("{% if ", "-0 or ", "1 %}{% endif %}"), 2},
	{"conditions", repeated("{% if ", "(0 if 0 else 0) or ", "1 %}{% endif %}"), 3},
	{"conditions without else", repeated("{% if ", "(1 if 0) or ", "1 %}{% endif %}"), 2},
	{"elif", repeated("{% if 0 %}", "{% elif 0 %}", "{% endif %}"), 1},
	{"sums", repeated("{% if 1", "+1", " %}{% endif %}"), 2},
	{"sums of strings", repeated("{% if 'a'", "+'a'", " %}{% endif %}"), 1},
	{"concatenation", repeated("{% if 'a'", "~'a'", " %}{% endif %}"), 2},
	{"comparisons", repeated("{% if 1", " <= 1", " %}{% endif %}"), 2},
	{"lists of constants", repeated("{% if [1", ",1", "] %}{% endif %}"), 1},
	{"dicts of constants", repeated("{% if {1:1", ",1:1", "} %}{% endif %}"), 2},
	{"filters", repeated("{% if 1", "|abs", " %}{% endif %}"), 1},
	{"assignments", repeated("", "{% set a = 1 %}", ""), 3},
	{"assignments to a tuple", repeated("{% set ", "a,", " = [1] * N %}"), 1},
	{"with", repeated("{% with a=1", ",a=1", " %}{% endwith %}"), 2},
	{"macro definitions", repeated("", "{% macro f() %}{% endmacro %}", ""), 2},
	{"macro without arguments", looped("{% macro f() %}{% endmacro %}{% for i in range(N) %}{% if f() %}{% endif %}{% endfor %}"), 5},
	{"parameters without a default", repeated("{% macro f(a", ",a", ") %}{% endmacro %}{{ f() }}"), 1},
	{"parameters with a default", repeated("{% macro f(a=1", ",a=1", ") %}{% endmacro %}{{ f() }}"), 1},
	{"arguments", repeated("{% macro f() %}{{ varargs|length }}{% endmacro %}{{ f(1", ",1", ") }}"), 1},
	{"spread arguments", looped("{% macro f() %}{{ varargs|length }}{% endmacro %}{{ f(*([1] * N)) }}"), 0.5},
	{"named arguments", numbered("{{ dict(", "a%=1,", ") }}"), 2},
	{"search of a parameter", numbered("{% macro f(", "a%=1,", "z=1) %}{% endmacro %}{{ f(z=1) }}"), 2.1},
	{"long names", repeated("{% set x", "x", " = 1 %}"), 1. / workBytes},
	{"long names that are looked up", repeated("{{ x", "x", " }}"), 1. / workBytes},
	{"long names of fields", repeated("{% set m = {} %}{{ m.x", "x", " }}"), 1. / workBytes},
	{"long names of a namespace's fields", repeated("{% set m = namespace() %}{% set m.x", "x", " = 1 %}"), 1. / workBytes},
	{"long named arguments", repeated("{{ dict(x", "x", "=1) }}"), 1. / workBytes},
	{"captured text", repeated("{% set a %}", "x", "{% endset %}"), 1. / workBytes},
	{"filtered blocks", repeated("{% filter trim %}", "{{ 'x' }}", "{% endfilter %}"), 3},
	{"text", repeated("", "x", ""), 1. / workBytes},
	{"range as a list", looped("{% if range(N)|list %}{% endif %}"), 1},
	{"repeated string", looped("{% if 'a' * N %}{% endif %}"), 1. / workBytes},
	{"repeated list", looped("{% if [1] * N %}{% endif %}"), itemBytes / workBytes},
	{"in a string", looped("{% set s = 'a' * 100000 %}{% if 'b' in s[:N] %}{% endif %}"), 1. / workBytes},
	{"in a list", looped("{% set l = [1] * 10000 %}{% if 2 in l[:N] %}{% endif %}"), 2},
	{"in a range", looped("{% if -1 in range(N) %}{% endif %}"), 2},
	{"comparison of strings", looped("{% set s = 'a' * N %}{% set t = 'a' * N %}{% if s == t %}{% endif %}"), 3. / workBytes},
	{"sameas of strings", looped("{% set s = 'a' * N %}{% set t = 'a' * N %}{% if s is sameas t %}{% endif %}"), 3. / workBytes},
	{"comparison of lists", looped("{% set l = [1] * 10000 %}{% if l[:N] == l[:N] %}{% endif %}"), 1},
	{"order of lists", looped("{% set l = [1] * 10000 %}{% if l[:N] < l[:N] %}{% endif %}"), 1},
	{"slice with a step", looped("{% set l = [1] * 10000 %}{% if l[:N:2] %}{% endif %}"), .5 * itemBytes / workBytes},
	{"slice of a string", looped("{% if ('a' * N)[1:2] %}{% endif %}"), 2. / workBytes},
	{"slice of a string with a step", looped("{% if ('a' * N)[::2] %}{% endif %}"), 1},
	{"index of a string", looped("{% if ('a' * N)[0] %}{% endif %}"), 2. / workBytes},
	{"join", looped("{% set l = ['a'] * 10000 %}{% if l[:N]|join %}{% endif %}"), 2},
	{"join of a string", looped("{% set l = ['a'] * 10000 %}{% if ''.join(l[:N]) %}{% endif %}"), 1},
	{"replace", looped("{% set s = 'a' * 10000 %}{% if s[:N]|replace('b', '') %}{% endif %}"), 1. / workBytes},
	{"sort", looped("{% set l = range(10000)|list %}{% if l[:N]|sort %}{% endif %}"), 1},
	{"sort by attribute", looped("{% set l = [[1]] * 10000 %}{% if l[:N]|sort(attribute=0) %}{% endif %}"), 1},
	{"dictsort", numbered("{% if {", "'%':1,", "}|dictsort %}{% endif %}"), 3},
	{"unique", looped("{% set l = [1] * 10000 %}{% if l[:N]|unique %}{% endif %}"), 1},
	{"max", looped("{% set l = [1] * 10000 %}{% if l[:N]|max %}{% endif %}"), 1},
	{"sum", looped("{% set l = [1] * 10000 %}{% if l[:N]|sum %}{% endif %}"), 1},
	{"reverse", looped("{% set l = [1] * 10000 %}{% if l[:N]|reverse %}{% endif %}"), 2. * itemBytes / workBytes},
	{"map", looped("{% set l = [1] * 10000 %}{% if l[:N]|map('abs') %}{% endif %}"), 1},
	{"map of an attribute", looped("{% set l = [1] * 10000 %}{% if l[:N]|map(attribute='a') %}{% endif %}"), 1},
	{"select", looped("{% set l = [0] * 10000 %}{% if l[:N]|select %}{% endif %}"), 1},
	{"selectattr", looped("{% set l = [0] * 10000 %}{% if l[:N]|selectattr('a') %}{% endif %}"), 1},
	{"count", looped("{% set l = [0] * 10000 %}{% if l[:N].count(1) %}{% endif %}"), 1},
	{"items of a dict", numbered("{% if {", "'%':1,", "}.items() %}{% endif %}"), 3},
	{"int of spaces", looped("{% set s = ' ' * 100000 %}{% if s[:N]|int %}{% endif %}"), 1. / workBytes},
	{"float of spaces", looped("{% set s = ' ' * 100000 %}{% if s[:N]|float %}{% endif %}"), 1. / workBytes},
	{"trim", looped("{% set s = ' ' * 100000 %}{% if s[:N]|trim %}{% endif %}"), 1. / workBytes},
	{"length", looped("{% set s = ' ' * 100000 %}{% if s[:N]|length %}{% endif %}"), 1. / workBytes},
	{"is filter", looped("{% set s = ' ' * 100000 %}{% if s[:N] is filter %}{% endif %}"), 1. / workBytes},
	{"upper", looped("{% set s = 'a' * 100000 %}{% if s[:N]|upper %}{% endif %}"), 1. / workBytes},
	{"split", looped("{% set s = 'a ' * 10000 %}{% if s[:N].split() %}{% endif %}"), .5},
	{"splitlines", looped("{% set s = 'a\\n' * 10000 %}{% if s[:N].splitlines() %}{% endif %}"), .5},
	{"startswith of a tuple", repeated("{% if ''.startswith(('a'", ",'a'", ")) %}{% endif %}"), 2},
	{"format of text", repeated("{% if '%s", "%%", "' % 1 %}{% endif %}"), 2},
	{"format method", repeated("{% if '", "{{", "'.format() %}{% endif %}"), 1},
	{"tojson", looped("{% set l = [0] * 10000 %}{% if l[:N]|tojson %}{% endif %}"), 2},
	{"indented tojson", looped("{% set l = [0] * 10000 %}{% if l[:N]|tojson(indent='') %}{% endif %}"), 3},
	{"text of a list", looped("{% set l = [0] * 10000 %}{% if l[:N]|string %}{% endif %}"), 2},
	{"changed", looped("{% set l = [0] * 10000 %}{% for i in [1, 2] %}{% if loop.changed(l[:N]) %}{% endif %}{% endfor %}"), 1},
	{"recursion", looped("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(N // 100) }}"), 0.1},
}

func looped(source string) func(int) string {
	return func(n int) string { return strings.ReplaceAll(source, "N", strconv.Itoa(n)) }
}

func repeated(before, part, after string) func(int) string {
	return func(n int) string {
		return before + strings.Repeat(part, n) + strings.ReplaceAll(after, "N", strconv.Itoa(n))
	}
}

// numbered is repeated with the part's number in place of %.
func numbered(before, part, after string) func(int) string {
	return func(n int) string {
		var b strings.Builder
		b.WriteString(before)
		for i := range n {
			b.WriteString(strings.ReplaceAll(part, "%", strconv.Itoa(i)))
		}
		return b.String() + after
	}
}

// stepsOf renders a template and counts its steps.
func stepsOf(t *testing.T, source string) int {
	t.Helper()
	tmpl, err := Parse("t", source)
	if err != nil {
		t.Fatalf("%.80s: %v", source, err)
	}
	out := tmpl.begin(context.Background(), 0)
	if _, err := out.s.execAll(tmpl.body, &scope{}, out); err != nil {
		t.Fatalf("%.80s: %v", source, err)
	}
	return out.s.steps
}

func TestEveryConstructTakesSteps(t *testing.T) {
	for _, c := range counted {
		t.Run(c.name, func(t *testing.T) {
			const few, many = 1024, 3072 // multiples of workBytes, so that nothing is lost to rounding
			grown := stepsOf(t, c.source(many)) - stepsOf(t, c.source(few))
			if per := float64(grown) / (many - few); per < c.each {
				t.Errorf("%.3f steps per unit, expected at least %.3f", per, c.each)
			}
		})
	}
}

// TestShortTemplatesEnd has templates that fit into a line and would run for
// hours if what they do took no steps.
func TestShortTemplatesEnd(t *testing.T) {
	for _, source := range []string{
		"{% for a in range(99999) if false %}{% endfor %}" + strings.Repeat("{% for a in range(99999) if 0 %}{% endfor %}", 50),
		"{% set r = range(99999) %}{% for a in r %}{% for b in r if 0 %}{% endfor %}{% endfor %}",
		"{% set r = range(99999) %}{% for a in r if r|list|length == 0 %}{% endfor %}",
		"{% set l = [0] * 99999 %}{% for a in l if l is sameas(l) and l|last %}{% endfor %}",
	} {
		tmpl, err := Parse("t", source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%.80s: %v, expected that it takes too many steps", source, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		out := tmpl.begin(ctx, 0)
		if _, err := out.s.execAll(tmpl.body, &scope{}, out); !errors.Is(err, context.Canceled) {
			t.Errorf("%.80s: %v, expected that it was canceled", source, err)
		}
		// One look apart, unless a single operation is larger.
		if out.s.steps > 100*lookEvery {
			t.Errorf("%.80s: canceled after %d steps", source, out.s.steps)
		}
	}
}

// TestRenderStopsWithItsClock gives a template a clock that runs by a second
// at each look.
func TestRenderStopsWithItsClock(t *testing.T) {
	tmpl, err := Parse("t", "{% for i in range(100000) %}\n{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	tmpl.now = func() time.Time {
		looks++
		return time.Unix(int64(looks), 0)
	}
	if _, err := tmpl.Render(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "longer than 30s") {
		t.Errorf("%v, expected that it takes too long", err)
	}
	if most := int(maxTime/time.Second) + 2; looks > most {
		t.Errorf("%d looks at the clock, expected at most %d", looks, most)
	}
}

// TestLongConversations holds that a long text has room, and that the room ends
// where a template makes more of it than its share.
func TestLongConversations(t *testing.T) {
	long := strings.Repeat("a conversation of many words ", 200_000) // 6 MB
	variables := map[string]any{"messages": []map[string]any{{"role": "user", "content": long}}}
	for source, want := range map[string]string{
		"{% for m in messages %}{{ '<' + m.role + '>' + m.content|trim + '</s>' }}{% endfor %}":                               "",
		"{% for m in messages %}{% for i in range(9) %}{{ m.content }}{% endfor %}{% endfor %}":                               "line 1: the template writes more than 27394364 bytes",
		"{% for i in range(99) %}{% set x = messages[0].content ~ i %}{% endfor %}":                                           "line 1: the template makes more than",
		"{% for i in range(999) %}{% if 'b' in messages[0].content and 'z#' in messages[0].content %}{% endif %}{% endfor %}": "line 1: the template takes more than",
	} {
		tmpl, err := Parse("t", source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(context.Background(), variables)
		switch {
		case want == "" && (err != nil || len(got) < len(long)-1):
			t.Errorf("%s: %d bytes, %v", source, len(got), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, expected %q", source, err, want)
		}
	}
}
