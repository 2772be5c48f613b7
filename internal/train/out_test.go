package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/lockfile"
)

// Two runs do not share a folder, and the second one changes nothing there.
func TestSecondRunIsRefused(t *testing.T) {
	c := fixture(t, "llama")
	first, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	_, err = first.Step(t.Context())
	must(t, err)
	half := filepath.Join(c.Out, tempPrefix+"step-00000001") // a checkpoint that is being written
	must(t, os.Mkdir(half, 0o777))
	log, err := os.ReadFile(filepath.Join(c.Out, jsonLog))
	must(t, err)
	for _, resume := range []string{"", "auto"} {
		_, err = New(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: resume})
		var held *lockfile.HeldError
		if !errors.As(err, &held) || !strings.Contains(err.Error(), c.Out) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
			t.Errorf("error %v, expected that this process writes to %s", err, c.Out)
		}
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("the first run's checkpoint is gone: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(c.Out, jsonLog)); err != nil || string(now) != string(log) {
		t.Errorf("the first run's log is %q, was %q (%v)", now, log, err)
	}
	must(t, first.Close())
	second, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	must(t, second.Close())
}

// A run that cannot begin leaves no folder behind, and planning makes none.
func TestNoFolderWithoutARun(t *testing.T) {
	c := fixture(t, "llama")
	c.Out = filepath.Join(t.TempDir(), "out")
	_, err := Plan(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	c.Data = []string{"missing.txt"}
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of missing data", err)
	}
	if _, err := os.Stat(c.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, expected no folder", c.Out, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	c.Out = file
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)}); err == nil || !strings.HasPrefix(err.Error(), "field out: ") || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v of a file in place of the folder", err)
	}
}
