package calib

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// fuzzLoad reads data as a file: the memory is bounded, and an error names it.
func fuzzLoad[K, V any](t *testing.T, data []byte, k K, decode func([]byte, K) (V, error)) (V, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "threads-0.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, err := load(file, k, decode)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64*maxFile {
		t.Errorf("%d bytes are read with %d bytes of memory", len(data), got)
	}
	if err != nil && !strings.HasPrefix(err.Error(), file+": ") {
		t.Errorf("%v, expected an error of %s", err, file)
	}
	return v, err
}

// What is wrong with a file is said by its field.
func TestLoadNamesTheField(t *testing.T) {
	dir, k := t.TempDir(), key()
	if err := Store(dir, k, Default(2, 2)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(k.file(dir))
	if err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string][2]string{
		"fork_s":       {`"fork_s": `, `"fork_s": -`},
		"costs.cores":  {`"cores": 2`, `"cores": "2"`},
		"costs.fork_s": {`"fork_s": `, `"fork_s": "`},
		`"extra"`:      {`"key": {`, `"extra": 1, "key": {`},
	} {
		data := strings.Replace(string(good), change[0], change[1], 1)
		if field == "costs.fork_s" {
			data = strings.Replace(data, ",\n\t\t\"barrier_s", "\",\n\t\t\"barrier_s", 1)
		}
		if data == string(good) {
			t.Fatalf("%s: nothing was changed in %s", field, good)
		}
		if err := os.WriteFile(k.file(dir), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, k); err == nil || !strings.Contains(err.Error(), field) || !strings.HasPrefix(err.Error(), k.file(dir)) {
			t.Errorf("%v, expected the file and %s", err, field)
		}
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
	f.Add(bytes.Replace(good, []byte(`"cores": 2`), []byte(`"cores": "2"`), 1))
	f.Add(append(bytes.Clone(good), bytes.Repeat([]byte(" "), maxFile)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fuzzLoad(t, data, k, decode)
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
