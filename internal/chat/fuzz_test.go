package chat

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"testing"
)

// FuzzTemplate holds that no template panics, and that what it uses stays
// within the limits: its steps and bytes as it counts them, and what it really
// allocates. Fewer steps than a rendering may take leave time for more
// templates.
func FuzzTemplate(f *testing.F) {
	raw, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		f.Fatal(err)
	}
	var goldens struct {
		Variables map[string]map[string]json.RawMessage
		Templates []struct{ Source string }
	}
	if err := json.Unmarshal(raw, &goldens); err != nil {
		f.Fatal(err)
	}
	for _, t := range goldens.Templates {
		f.Add(t.Source)
	}
	for _, h := range hostile {
		if len(h.source) < 1000 {
			f.Add(h.source)
		}
	}
	root := map[string]value{}
	for _, name := range []string{"small", "tools +"} {
		for k, v := range goldens.Variables[name] {
			if root[k], err = fromJSON(v); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("t", source)
		if err != nil {
			return
		}
		out := tmpl.begin(context.Background(), 0)
		s := out.s
		s.limits.steps = maxSteps / 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = s.execAll(tmpl.body, &scope{vars: clone(root)}, out)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > allocLimit {
			t.Errorf("%d MiB allocated", made>>20)
		}
		if s.made > maxMade || out.b.Len() > maxOutput || s.depth != 0 || s.macros != 0 || err == nil && s.steps > s.limits.steps {
			t.Errorf("%d bytes made, %d written, %d steps, depth %d and %d, %v", s.made, out.b.Len(), s.steps, s.depth, s.macros, err)
		}
	})
}

func clone(m map[string]value) map[string]value {
	c := make(map[string]value, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}
