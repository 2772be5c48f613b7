package train

import (
	"embed"
	"path"
	"slices"
	"strings"
)

// readyMade are configurations that people can start from, by name.
//
//go:embed configs/*.json
var readyMade embed.FS

// ReadyMade is the text of a ready-made configuration.
func ReadyMade(name string) ([]byte, bool) {
	data, err := readyMade.ReadFile(path.Join("configs", name+".json"))
	return data, err == nil && !strings.Contains(name, "/")
}

// ReadyMadeNames are the names of the ready-made configurations, sorted.
func ReadyMadeNames() []string {
	entries, _ := readyMade.ReadDir("configs") // it is part of the program
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}
