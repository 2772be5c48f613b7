package chat

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestGoldens renders every template of goldens.json, byte for byte what
// Jinja gives in the setting of transformers. What is an error there is one
// here.
func TestGoldens(t *testing.T) {
	raw, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens struct {
		Variables map[string]map[string]json.RawMessage
		Templates []struct {
			Name, Source string
			Results      map[string]struct {
				Want  *string
				Error string
			}
		}
	}
	if err := json.Unmarshal(raw, &goldens); err != nil {
		t.Fatal(err)
	}
	if len(goldens.Templates) < 150 {
		t.Fatalf("%d templates", len(goldens.Templates))
	}
	now := time.Date(2026, 3, 5, 7, 8, 9, 0, time.UTC)
	for _, g := range goldens.Templates {
		tmpl, parseErr := Parse("t", g.Source)
		for name, r := range g.Results {
			got, err := "", parseErr
			if err == nil {
				variables := map[string]any{}
				for k, v := range goldens.Variables[name] {
					variables[k] = v
				}
				tmpl.now = func() time.Time { return now }
				got, err = tmpl.Render(context.Background(), variables)
			}
			switch {
			case r.Want == nil && err == nil:
				t.Errorf("%s, %s: %q, expected an error (%s)\n%s", g.Name, name, got, r.Error, g.Source)
			case r.Want != nil && err != nil:
				t.Errorf("%s, %s: %v\n%s", g.Name, name, err, g.Source)
			case r.Want != nil && got != *r.Want:
				t.Errorf("%s, %s:\n%q, expected\n%q\n%s", g.Name, name, got, *r.Want, g.Source)
			}
		}
	}
}
