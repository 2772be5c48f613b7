package main

import (
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/report"
)

// --profile-canary burns time in real steps, and most of it is found. The bounds
// are counts that a busy machine passes: what others take makes more calls slow
// and no canary shorter.
func TestProfileCanary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "canary.json")
	ok(t, "run", "-m", testmodels.Dir(t, "llama"), "-p", "a text", "-n", "60", "--ignore-eos", "--profile="+file, "--profile-canary")
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.ScoreCanaries(p)
	if err != nil || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	t.Logf("%+v", *s)
	if s.Canaries < 10 {
		t.Fatalf("%d canaries in %d calls, expected 10 or more", s.Canaries, s.Calls)
	}
	if s.Recall() < 50 {
		t.Errorf("%d of %d canaries were found, expected half", s.Found, s.Canaries)
	}
	if s.Bias < -50 {
		t.Errorf("measured is %.1f %% of burned time, expected no less than half", 100+s.Bias)
	}
	if report := ok(t, "profile", "show", file); !strings.Contains(report, "recall") {
		t.Error("the report has no recall")
	}
	fails(t, exitUsage, []string{"embed", "-m", testmodels.Dir(t, "bert"), "a text", "--profile-canary"}, "--profile")
}
