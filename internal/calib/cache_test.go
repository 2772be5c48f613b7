package calib

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func key() Key { return Key{version, "a cpu", "avx2", 4, 4, 2} }

func TestCacheKeepsFigures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	k := key()
	if _, err := Load(dir, k); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first: %v", err)
	}
	want := Default(2, 2)
	want.Measured, want.Barrier = true, 3e-6
	if err := Store(dir, k, want); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, k)
	if err != nil || got != want {
		t.Errorf("%+v, %v, expected %+v", got, err, want)
	}
	want.Barrier = 4e-6
	if err := Store(dir, k, want); err != nil { // again
		t.Fatal(err)
	}
	if got, _ := Load(dir, k); got != want {
		t.Errorf("after a second time %+v", got)
	}
	// Nothing else is left there.
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files", len(left))
	}
	for name, other := range map[string]Key{
		"version": {version + 1, k.CPU, k.Tier, 4, 4, 2}, "cpu": {version, "another", k.Tier, 4, 4, 2},
		"tier": {version, k.CPU, "amx", 4, 4, 2}, "limit": {version, k.CPU, k.Tier, 2, 4, 2},
		"GOMAXPROCS": {version, k.CPU, k.Tier, 4, 3, 2}, "workers": {version, k.CPU, k.Tier, 4, 4, 3},
	} {
		if _, err := Load(dir, other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// TestCacheRefusesWhatIsWrong: a file that somebody else wrote, or half a file,
// is as good as none.
func TestCacheRefusesWhatIsWrong(t *testing.T) {
	dir, k := t.TempDir(), key()
	if err := Store(dir, k, Default(2, 2)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(k.file(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"empty":             "",
		"half":              string(good[:len(good)/2]),
		"no object":         "[1,2]",
		"another field":     strings.Replace(string(good), `"costs"`, `"cost"`, 1),
		"negative":          strings.Replace(string(good), `"fork_s": `, `"fork_s": -`, 1),
		"a day":             strings.Replace(string(good), `"barrier_s": 8e-7`, `"barrier_s": 86400`, 1),
		"nothing costs":     strings.Replace(string(good), `"flop_s": 3.333333333333333e-12`, `"flop_s": 0`, 1),
		"many times faster": strings.Replace(string(good), `"fine_speedup": 1.72`, `"fine_speedup": 1000`, 1),
		"other workers":     strings.Replace(string(good), `"workers": 2`, `"workers": 3`, 1),
		"another cpu":       strings.Replace(string(good), "a cpu", "b cpu", 1),
		"more":              string(good) + "}",
		"long":              string(good) + strings.Repeat(" ", maxFile),
	} {
		if data == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if err := os.WriteFile(k.file(dir), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(dir, k); err == nil {
			t.Errorf("%s: read as %+v", name, c)
		}
	}
}

// TestCached: what is kept is used, unless the environment says no; whatever is
// wrong with the folder, there are figures.
func TestCached(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOTPATH_CACHE", dir)
	t.Setenv(Env, "")
	k := KeyOf(2)
	c := Default(2, k.Parallel())
	if got := Cached(2); got != c {
		t.Errorf("without a file %+v", got)
	}
	kept := c
	kept.Measured, kept.Barrier = true, 5e-6
	calibrations, err := Dir()
	if err != nil || filepath.Dir(calibrations) != dir {
		t.Fatalf("%s, %v", calibrations, err)
	}
	if err := Store(calibrations, k, kept); err != nil {
		t.Fatal(err)
	}
	if got := Cached(2); got != kept {
		t.Errorf("with a file %+v", got)
	}
	t.Setenv(Env, Off)
	if got := Cached(2); got != c {
		t.Errorf("switched off %+v", got)
	}
	t.Setenv(Env, "")
	t.Setenv("HOTPATH_CACHE", filepath.Join(k.file(calibrations), "below a file"))
	if got := Cached(2); got != c {
		t.Errorf("without a folder %+v", got)
	}
	if d, err := Dir(); err == nil && Store(d, k, kept) == nil {
		t.Error("stored in a folder that cannot be")
	}
}

func FuzzDecode(f *testing.F) {
	dir, k := f.TempDir(), key()
	if err := Store(dir, k, Default(2, 2)); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(k.file(dir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"key":{},"costs":{"flop_s":1e999}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data, k)
		if err != nil {
			return
		}
		if err := c.check(); err != nil {
			t.Errorf("accepted: %v", err)
		}
		// Whatever was accepted decides without harm.
		_ = c.PreferCoarse(minilm, even(8, 12), 512, 256)
	})
}
