package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/lockfile"
)

// only fails unless a folder has just these files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if fmt.Sprint(have) != fmt.Sprint(names) {
		t.Errorf("%s has %q, expected %q", dir, have, names)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %.40q, expected %.40q (%v)", path, got, want, err)
	}
}

func TestWriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no more")
	err := Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, strings.Repeat("half", 1<<18)); err != nil {
			return err
		}
		return failure
	})
	if !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("error %v, expected %v of %s", err, failure, path)
	}
	holds(t, path, "old")
	only(t, dir, "run.json")
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, expected that of the old file (%v)", info.Mode(), err)
	}
	only(t, dir, "run.json")
}

// A write that failed is not forgotten by whoever ignores it.
func TestCommitRemembersFailedWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.file.Close(); err != nil { // every write fails from now on
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("x"))
	err = f.Commit()
	if err == nil || !strings.HasPrefix(err.Error(), path+": cannot be written: ") || strings.Contains(err.Error(), tempMark) {
		t.Errorf("%v", err)
	}
	only(t, dir)
}

func TestTargetsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                               "is a directory, expected a file",
		filepath.Join(dir, "none", "x"):   "no such",
		filepath.Join(file, "x"):          "",
		filepath.Join(dir, "n\x00l"):      "",
		filepath.Join(dir, longName(256)): "",
	} {
		for what, err := range map[string]error{"Check": Check(path), "WriteFile": WriteFile(path, nil)} {
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), tempMark) {
				t.Errorf("%s of %.60q: %v, expected %q", what, path, err, want)
			}
		}
	}
	only(t, dir, "file")
}

func longName(n int) string { return strings.Repeat("n", n) }

// A name of the greatest length has room for no further letter.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	a, b := longName(255), longName(254)+"m"
	for _, name := range []string{a, b} {
		path := filepath.Join(dir, name)
		l, err := Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		if err := WriteFile(path, []byte(name)); err != nil {
			t.Fatal(err)
		}
		holds(t, path, name)
	}
}

func TestLockNamesItsHolderAndSweeps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	other := hidden(filepath.Join(dir, "xy"), tempMark+"1")            // another file's stays
	for _, left := range []string{hidden(path, tempMark+"1"), other} { // as killed processes leave them
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	var held *lockfile.HeldError
	if _, err := Lock(path); !errors.As(err, &held) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("%v, expected that this process holds it", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	only(t, dir, filepath.Base(other))
	if _, err := Lock(filepath.Join(dir, "none", "x")); err == nil || !strings.Contains(err.Error(), "no such") {
		t.Errorf("%v", err)
	}
	only(t, dir, filepath.Base(other))
}

// A process that is killed leaves nothing, where files need no names.
func TestNothingIsLeftAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.named {
		t.Skip("files have names here")
	}
	if _, err := f.Write([]byte("part")); err != nil {
		t.Fatal(err)
	}
	only(t, dir)
}

func TestReplaceOpensNothing(t *testing.T) {
	dir := t.TempDir()
	path, far := filepath.Join(dir, "state"), filepath.Join(dir, "far")
	if err := errors.Join(os.WriteFile(far, []byte("old"), 0o600), os.Symlink("far", path)); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	holds(t, far, "old")
	only(t, dir, "far", "state")
	if err := Replace(filepath.Join(dir, "none", "x"), nil); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "none", "x")+": ") {
		t.Errorf("%v", err)
	}
}

func TestWriteAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, first := f.Write(bytes.Repeat([]byte("a"), 4))
	_, second := f.WriteAt([]byte("b"), 0)
	if err := errors.Join(first, second, f.Commit(), f.Close()); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "baaa")
	if err := f.Commit(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, expected that it is closed", err)
	}
}

// A name that only begins like one of ours is somebody else's: the lock of
// another target, whose holder would lose it, or a file of a person.
func TestSweepKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	other, err := Lock(filepath.Join(dir, "x.tmp-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	for _, name := range []string{".x.tmp-notes", ".x.tmp-", ".x.tmp-0f"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".x.tmp-", ".x.tmp-1.lock", ".x.tmp-notes"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, %v, expected %q", left, err, want)
	}
}
