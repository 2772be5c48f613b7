package profile_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// dependencies lists all packages that a package links.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-tags", "nogpu", pkg).Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// A program that only records links neither reports nor exporters nor statistics;
// one that reports links no exporter and no statistics of comparisons. Imports go
// one way: profile, report, compare, export.
func TestRecordingLinksNoReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("asks the go command")
	}
	for pkg, without := range map[string][]string{
		"hotpath/profile":         {"html/template", "text/template", "html", "encoding/csv", "github.com/google/pprof/profile", "hotpath/internal/stats", "hotpath/profile/report", "hotpath/profile/compare", "hotpath/profile/export"},
		"hotpath":                 {"html/template", "text/template", "github.com/google/pprof/profile", "hotpath/profile/report", "hotpath/profile/compare", "hotpath/profile/export"},
		"hotpath/profile/report":  {"html/template", "github.com/google/pprof/profile", "hotpath/profile/compare", "hotpath/profile/export"},
		"hotpath/profile/compare": {"html/template", "github.com/google/pprof/profile", "hotpath/profile/export"},
	} {
		deps := dependencies(t, pkg)
		if !slices.Contains(deps, pkg) {
			t.Fatalf("go list -deps %s does not list it", pkg)
		}
		for _, d := range without {
			if slices.Contains(deps, d) {
				t.Errorf("%s links %s", pkg, d)
			}
		}
	}
}
