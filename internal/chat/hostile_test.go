package chat

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// hostile are templates that use up what they can. Each ends with an error
// about a limit.
var hostile = []struct{ name, source, want string }{
	{"recursive macro", "{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", "line 1: macro f: calls nested more than"},
	{"two macros", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "calls nested more than"},
	{"caller", "{% macro f() %}{{ caller() }}{% call f() %}x{% endcall %}{% endmacro %}{% call f() %}x{% endcall %}", "calls nested more than"},
	{"parentheses", "{{ " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) + " }}", "line 1: blocks and expressions nested more than"},
	{"lists", "{{ " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + " }}", "nested more than"},
	{"dicts", "{{ " + strings.Repeat("{1:", 60_000) + "1" + strings.Repeat("}", 60_000) + " }}", "nested more than"},
	{"not", "{{ " + strings.Repeat("not ", 60_000) + "1 }}", "nested more than"},
	{"minus", "{{ " + strings.Repeat("- ", 100_000) + "1 }}", "nested more than"},
	{"else", "{{ " + strings.Repeat("1 if 0 else ", 20_000) + "1 }}", "nested more than"},
	{"indexes", "{{ x" + strings.Repeat("[x", 80_000) + strings.Repeat("]", 80_000) + " }}", "nested more than"},
	{"calls", "{{ " + strings.Repeat("x(", 80_000) + strings.Repeat(")", 80_000) + " }}", "nested more than"},
	{"ifs", strings.Repeat("{% if 1 %}", 20_000), "nested more than"},
	{"fors", strings.Repeat("{% for a in b %}", 15_000), "nested more than"},
	{"targets", "{% set " + strings.Repeat("(", 100_000) + "a" + strings.Repeat(")", 100_000) + " = 1 %}", "nested more than"},
	{"tests", "{{ " + strings.Repeat("1 is eq (", 25_000) + "1 }}", "unexpected"},
	{"long string", "a\nb\n{{ 'a' * 100000000000 }}", "line 3: the template makes more than"},
	{"long string of large numbers", "{{ 'ab' * 9223372036854775807 }}", "makes more than"},
	{"long list", "{{ [1] * 100000000000 }}", "makes more than"},
	{"long list of large numbers", "{{ [1, 2, 3] * 9223372036854775807 }}", "makes more than"},
	{"range", "{% for i in range(100000000000) %}{% endfor %}", "range of 100000000000 numbers"},
	{"range of everything", "{{ range(-9223372036854775807, 9223372036854775807)|list }}", "expected at most"},
	{"loops", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "steps"},
	{"doubling", "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "makes more than"},
	{"doubling with ~", "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "makes more than"},
	{"doubling lists", "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "makes more than"},
	{"doubling blocks", "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}", "makes more than"},
	{"output", "{% for i in range(100000) %}{{ 'x' * 100 }}{% endfor %}", "writes more than"},
	{"replace", "{{ ('a' * 10000)|replace('a', 'b' * 10000) }}", "makes more than"},
	{"join", "{{ ('x' * 100000).join(['a'] * 100000) }}", "makes more than"},
	{"join filter", "{{ ('a' * 100000)|join('x' * 100000) }}", "makes more than"},
	{"indent", "{{ 'a\\nb'|indent(100000000000) }}", "makes more than"},
	{"indent many", "{{ ('a\\n' * 10000)|indent(10000) }}", "makes more than"},
	{"tojson indent", "{{ [1, 2]|tojson(indent=100000000000) }}", "makes more than"},
	{"tojson of shared lists", "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}", "more than"},
	{"show shared lists", "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}", "more than"},
	{"compare shared lists", "{% set a = namespace(s=[1], t=[1]) %}{% for i in range(60) %}{% set a.s = [a.s, a.s] %}{% set a.t = [a.t, a.t] %}{% endfor %}{{ a.s == a.t }}", "steps"},
	{"deep value", "{% set ns = namespace(s=[]) %}{% for i in range(50000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}", "values or filters nested more than"},
	{"deep comparison", "{% set a = namespace(s=[], t=[]) %}{% for i in range(50000) %}{% set a.s = [a.s] %}{% set a.t = [a.t] %}{% endfor %}{{ a.s == a.t }}", "nested more than"},
	{"deep order", "{% set a = namespace(s=[], t=[1]) %}{% for i in range(50000) %}{% set a.s = [a.s] %}{% set a.t = [a.t] %}{% endfor %}{{ a.s < a.t }}", "nested more than"},
	{"deep key", "{% set a = namespace(s=()) %}{% for i in range(50000) %}{% set a.s = (a.s,) %}{% endfor %}{{ {a.s: 1} }}", "nested more than"},
	{"deep tojson", "{% set a = namespace(s=()) %}{% for i in range(50000) %}{% set a.s = (a.s,) %}{% endfor %}{{ a.s|tojson }}", "nested more than"},
	{"shared key", "{% set ns = namespace(s=(1,)) %}{% for i in range(60) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} }}", "more than"},
	{"namespace in itself", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "nested more than"},
	{"map of map", "{{ 'a'|map(" + strings.Repeat("'map',", 20_000) + "'map')|list }}", "nested more than"},
	{"map of map in a list", "{% set m = ['map'] * 100000 %}{{ 'a'|map(*m)|list }}", "nested more than"},
	{"looking again and again", "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{{ 'b' in s }}{% endfor %}", "steps"},
	{"comparing again and again", "{% set s = 'a' * 4000000 %}{% set t = 'a' * 4000000 %}{% for i in range(100000) %}{% if s != t %}{% endif %}{% endfor %}", "steps"},
	{"trimming again and again", "{% set s = ' ' * 8000000 %}{% for i in range(100000) %}{{ s|trim }}{% endfor %}", "steps"},
	{"indexing again and again", "{% set s = 'é' * 4000000 %}{% for i in range(100000) %}{{ s[-1] }}{% endfor %}", "steps"},
	{"slicing again and again", "{% set s = 'é' * 4000000 %}{% for i in range(100000) %}{{ s[5:6] }}{% endfor %}", "steps"},
	{"sorting", "{% set l = range(100000)|list %}{% for i in range(100) %}{{ (l|sort)[0] }}{% endfor %}", "more than"},
	{"attribute path", "{{ [1]|map(attribute='a.' * 4000000)|list }}", "has no attribute"},
	{"power", "{{ 9 ** 9 ** 9 }}", "beyond 64 bits"},
	{"large number", "{{ 99999999999999999999 }}", "beyond 64 bits"},
	{"smallest number", "{{ (-9223372036854775807 - 1) // -1 }}", "beyond 64 bits"},
	{"format width", "{{ '%1000000000d' % 1 }}", "not supported"},
	{"format method's width", "{{ '{:1000000000}'.format(1) }}", "format: no argument"},
	{"round", "{{ 1.5|round(1000000000) }}", "expected at most 300"},
	{"strip of a set", "{{ ('a' * 100000).strip('b' * 100000) }}", "strip"},
	{"source", strings.Repeat(" ", maxSource+1), "bytes of source"},
	{"generator in a loop", "{% for x in 'a' * 10000000 %}{{ loop.length }}{% endfor %}", "steps"},
	{"filtered loop's length", "{% for x in 'a' * 10000000 if 1 %}{{ loop.length }}{% endfor %}", "more than"},
	{"message", "{{ raise_exception('x' * 10000000) }}", "xxx..."},
	{"other files", "{% include '/etc/hostname' %}", "no such tag"},
	{"recursive loop", "{% for x in l recursive %}{{ loop(x) }}{% endfor %}", "not supported"},
}

// allocLimit is what a rendering may pass through the heap, garbage included:
// some times the limits, and nothing of what hostile templates ask for.
const allocLimit = 512 << 20

func TestHostileTemplatesEnd(t *testing.T) {
	for _, h := range hostile {
		got, err := "", error(nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tmpl, err := Parse("t", h.source)
		if err == nil {
			got, err = tmpl.Render(context.Background(), nil)
		}
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: %d bytes, expected an error", h.name, len(got))
			continue
		}
		if !strings.Contains(err.Error(), h.want) {
			t.Errorf("%s: %.200v, expected %q", h.name, err, h.want)
		}
		if h.name != "source" && !strings.HasPrefix(err.Error(), "t: line ") {
			t.Errorf("%s: %.200v: no name and line", h.name, err)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > allocLimit {
			t.Errorf("%s: %d MiB allocated", h.name, made>>20)
		}
	}
}

func TestLongChainsNeedNoStack(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 1" + strings.Repeat("+1", 100_000) + " }}":                                   "100001",
		"{{ 'a'" + strings.Repeat("~'a'", 50_000) + " }}":                                strings.Repeat("a", 50_001),
		"{{ 'a'" + strings.Repeat("+'a'", 50_000) + " }}":                                strings.Repeat("a", 50_001),
		"{{ 1" + strings.Repeat(" and 1", 40_000) + " }}":                                "1",
		"{{ 'x'" + strings.Repeat("|trim", 40_000) + " }}":                               "x",
		"{{ 1" + strings.Repeat("<2>1", 30_000) + " }}":                                  "True",
		"{% if 0 %}" + strings.Repeat("{% elif 0 %}", 20_000) + "{% else %}x{% endif %}": "x",
		"{{ " + strings.Repeat("'a'", 80_000) + " }}":                                    strings.Repeat("a", 80_000),
	} {
		tmpl, err := Parse("t", source)
		if err != nil {
			t.Errorf("%.40s: %v", source, err)
			continue
		}
		if got, err := tmpl.Render(context.Background(), nil); err != nil || got != want {
			t.Errorf("%.40s: %.40q, %v", source, got, err)
		}
	}
}

func TestRenderStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tmpl, err := Parse("t", "{% for i in range(100000) %}\n{{ i }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(ctx, nil); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "t: line 2: ") {
		t.Errorf("%v, expected that it was canceled", err)
	}
}

func TestVariables(t *testing.T) {
	tmpl, err := Parse("t", "{{ v }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v         any
		want, err string
	}{
		{map[string]any{"b": 1, "a": []any{nil, true, int64(2), 1.5, float32(0.5), int32(3)}}, "{'a': [None, True, 2, 1.5, 0.5, 3], 'b': 1}", ""},
		{[]map[string]any{{"x": []string{"y"}}}, "[{'x': ['y']}]", ""},
		{struct{}{}, "", "variable v: a struct {}"},
		{[]any{make(chan int)}, "", "variable v: a chan int"},
	} {
		got, err := tmpl.Render(context.Background(), map[string]any{"v": c.v})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %q, %v", c.v, got, err)
		}
	}
	var deep any
	for range 1000 {
		deep = []any{deep}
	}
	if _, err := tmpl.Render(context.Background(), map[string]any{"v": deep}); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("%v, expected that it is too deep", err)
	}
}

// TestConcurrentRendering renders one template at once with itself; the race
// detector sees to the rest.
func TestConcurrentRendering(t *testing.T) {
	tmpl, err := Parse("t", "{% macro f(x) %}{% set ns = namespace(n=x) %}{{ ns.n }}{{ caller() }}{% endmacro %}{% for m in messages %}{% call f(loop.index) %}{{ m }}{% endcall %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 8 {
		go func() {
			got, err := tmpl.Render(context.Background(), map[string]any{"messages": []string{"a", "b"}})
			if err == nil && got != "1a2b" {
				err = errors.New(got)
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
