package train

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Configurations that the documentation shows are valid.
func TestDocumentedConfigs(t *testing.T) {
	shown := 0
	for _, page := range []string{"training.md", "objectives.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		must(t, err)
		for _, rest := range strings.Split(string(text), "```json\n")[1:] {
			block, _, _ := strings.Cut(rest, "```")
			if !strings.HasPrefix(block, `{"model":`) {
				continue
			}
			var config json.RawMessage
			for d := json.NewDecoder(strings.NewReader(block)); d.Decode(&config) == nil; shown++ {
				if _, err := ParseConfig(page, config, nil); err != nil {
					t.Errorf("%s: %v", config, err)
				}
			}
		}
	}
	if shown < 5 {
		t.Errorf("%d configurations, expected more", shown)
	}
}
