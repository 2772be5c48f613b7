package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A file appears whole, in place of what was there, and nothing else does.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for i, content := range []string{"first", "second, longer", "3"} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		if err := f.Chmod(0o640); err != nil {
			t.Fatal(err)
		}
		if now, _ := os.ReadFile(path); string(now) != [...]string{"", "first", "second, longer"}[i] {
			t.Errorf("%q before it was complete", now)
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := f.Abort(); err != nil { // does nothing any more
			t.Error(err)
		}
		if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("twice: %v", err)
		}
		info, err := os.Stat(path)
		if now, _ := os.ReadFile(path); string(now) != content || err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%q, %v", now, err)
		}
		if names := left(t, dir); len(names) != 1 {
			t.Errorf("left %v", names)
		}
	}
	if err := Write(path, []byte("4"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Writable(path); err != nil {
		t.Error(err)
	}
	if now, _ := os.ReadFile(path); string(now) != "4" || len(left(t, dir)) != 1 {
		t.Errorf("%q, %v", now, left(t, dir))
	}
}

// A process that ends without a word leaves nothing, where files need no names.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("part")
	if names := left(t, dir); runtime.GOOS == "linux" && f.named == "" && len(names) > 0 {
		t.Errorf("%v while it is written", names)
	}
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left %v", names)
	}
	if runtime.GOOS == "linux" && f.named != "" {
		t.Skip("this file system has no files without names")
	}
}

// Errors are of the file that was asked for, and of the file system.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none", "file")
	if _, err := Create(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "tmp-") {
		t.Error(err)
	}
	// Its place is a folder that is not empty.
	path = filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), path+":") || strings.Contains(err.Error(), "tmp-") {
		t.Error(err)
	}
	if names := left(t, dir); len(names) != 1 {
		t.Errorf("left %v", names)
	}
}

// Writers of one file replace each other's whole.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if err := Write(path, []byte(strings.Repeat(string(rune('a'+i)), 1000)), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(path)
	if err != nil || len(data) != 1000 || strings.Trim(string(data), string(data[:1])) != "" || len(left(t, dir)) != 1 {
		t.Errorf("%d bytes, %v, %v", len(data), err, left(t, dir))
	}
}
