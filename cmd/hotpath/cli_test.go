package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repositoryRoot is two folders above this one.
func repositoryRoot(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return root
}

// result is what a command line left behind.
type result struct {
	status   int
	out, err string
}

func hotpathWith(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := execute(context.Background(), args, streams{strings.NewReader(stdin), &out, &errs})
	return result{status, out.String(), errs.String()}
}

func run(t testing.TB, args ...string) result {
	t.Helper()
	return hotpathWith(t, "", args...)
}

// ok runs a command that has to succeed and returns its standard output.
func ok(t testing.TB, args ...string) string {
	t.Helper()
	r := run(t, args...)
	if r.status != exitDone {
		t.Fatalf("hotpath %q: exit %d: %s", args, r.status, r.err)
	}
	return r.out
}

// fails runs a command that has to fail with a status and one line that has
// all of the words.
func fails(t testing.TB, status int, args []string, words ...string) {
	t.Helper()
	r := run(t, args...)
	if r.status != status {
		t.Errorf("hotpath %q: exit %d, expected %d (%s)", args, r.status, status, r.err)
	}
	if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "hotpath: ") {
		t.Errorf("hotpath %q: standard error is %q, expected one line", args, r.err)
	}
	for _, w := range append(words, "") {
		if !strings.Contains(r.err, w) {
			t.Errorf("hotpath %q: %q does not say %q", args, r.err, w)
		}
	}
}

// lines decodes jsonl.
func lines[T any](t testing.TB, out string) []T {
	t.Helper()
	var rows []T
	for line := range strings.Lines(out) {
		var row T
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// write puts a file into a folder of the test's own.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
