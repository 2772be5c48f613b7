package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A path leads where the system would go: .. behind a link to a folder is above
// what the link leads to.
func TestFollowedGoesWhereTheSystemDoes(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return dir + "/" + name } // Join would clean it
	err = errors.Join(os.Mkdir(at("a"), 0o700), os.MkdirAll(at("b/c"), 0o700), os.Symlink("../b/c", at("a/sub")),
		os.Symlink("sub/../out", at("a/relative")), os.Symlink(at("a/sub/../out"), at("a/absolute")), os.Symlink("a/sub/../../a/relative", at("twice")))
	if err != nil {
		t.Skipf("no links here: %v", err)
	}
	for _, there := range []bool{false, true} {
		if there {
			if err := os.WriteFile(at("b/out"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{"a/relative", "a/absolute", "twice", "a/sub/../out", "a/sub/../../a/relative"} {
			if got, err := Followed(at(path)); err != nil || got != filepath.Join(dir, "b", "out") {
				t.Errorf("%s, there %t: %s, %v, expected b/out", path, there, got, err)
			}
		}
	}
	t.Chdir(dir)
	if got, err := Followed("twice"); err != nil || got != filepath.Join("b", "out") {
		t.Errorf("from the folder itself: %s, %v", got, err)
	}
	if err := os.Symlink("b/out", "plain"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"new": "new", "./new": "./new", "plain": filepath.Join("b", "out")} {
		if got, err := Followed(path); err != nil || got != want {
			t.Errorf("%s: %s, %v, expected %s", path, got, err, want)
		}
	}
}
