package study

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scripts/study_check.sh gives its tests the models that it was given, and takes
// only a test that passed for one that holds: go test is content with others.
func TestStudyCheckHoldsWhatPassed(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell here")
	}
	script, err := filepath.Abs("../../scripts/study_check.sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil { // and a script that changed is tried again
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "models"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		exit       string
		held       bool
	}{
		{"passed", "--- PASS: TestSlowedKernelIsNamed (0.01s)", "0", true},
		{"skipped", "--- SKIP: TestSlowedKernelIsNamed (0.00s)", "0", false},
		{"a part was skipped", "    --- SKIP: TestSlowedKernelIsNamed/a (0.00s)\n--- PASS: TestSlowedKernelIsNamed (0.00s)", "0", false},
		{"no such test", "testing: warning: no tests to run", "0", false},
		{"failed", "--- PASS: TestSlowedKernelIsNamed (0.01s)", "1", false},
	} {
		fake := filepath.Join(dir, "go")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"models: $HOTPATH_MODELS\"\ncat <<'END'\n"+c.says+"\nEND\nexit "+c.exit+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		for range 2 { // what did not hold is not kept as held
			cmd := exec.Command("sh", script, c.name, "models", "named")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GO="+fake)
			out, err := cmd.CombinedOutput()
			if held := err == nil; held != c.held {
				t.Errorf("%s: held %t, expected %t:\n%s", c.name, held, c.held, out)
			}
			if want := "models: " + filepath.Join(dir, "models") + "\n"; !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, out)
			}
		}
	}
}
