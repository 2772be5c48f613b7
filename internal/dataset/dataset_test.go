package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func files(t testing.TB, paths ...string) []File {
	t.Helper()
	f, err := Files(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Blocks put together are the files, in their order, whatever the number of
// workers, and end where lines do.
func TestBlocks(t *testing.T) {
	lines := func(n, length int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{\"n\":%d,\"text\":%q}\n", i, strings.Repeat("x ", length/2))
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"short lines.jsonl": lines(9000, 200), "long lines.jsonl": lines(3, 3<<20), "no end.jsonl": strings.TrimSuffix(lines(9000, 300), "\n"),
		"spaces.txt": strings.Repeat("word ", 700_000), "one word.txt": strings.Repeat("é", 3<<20), "empty.txt": "", "blank.txt": "\n\n\n",
	} {
		all := files(t, write(t, name, text))
		for _, workers := range []int{1, 3} {
			var got bytes.Buffer
			line := 1
			err := Each(t.Context(), all, workers, CutLines, func(_ int, b *Block) (string, error) { return string(b.Text), nil }, func(b *Block, s string) error {
				if b.Line != line {
					t.Errorf("%s: a block begins with line %d, expected %d", name, b.Line, line)
				}
				line += strings.Count(s, "\n")
				got.WriteString(s)
				if strings.HasSuffix(name, ".jsonl") && !b.Last && !strings.HasSuffix(s, "\n") {
					t.Errorf("%s: a block ends within a line", name)
				}
				return nil
			})
			if err != nil || got.String() != text {
				t.Errorf("%s, %d workers: %d bytes of %d, error %v", name, workers, got.Len(), len(text), err)
			}
		}
	}
}

// The first error in the order of the data comes out, a panic reaches the
// caller, and no goroutine stays.
func TestEachFails(t *testing.T) {
	path := write(t, "a.jsonl", strings.Repeat(strings.Repeat("y", 999)+"\n", 20000))
	all := files(t, path, path)
	before := runtime.NumGoroutine()
	for _, workers := range []int{1, 2, 5} {
		err := Each(t.Context(), all, workers, CutLines, func(_ int, b *Block) (int, error) {
			if b.Line > 5000 {
				return 0, fmt.Errorf("line %d", b.Line)
			}
			return 0, nil
		}, func(*Block, int) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), "line 5") {
			t.Errorf("%d workers: error %v, expected that of the first block", workers, err)
		}
		func() {
			defer func() {
				if p := recover(); p != "broken" {
					t.Errorf("%d workers: recovered %v", workers, p)
				}
			}()
			_ = Each(t.Context(), all, workers, CutLines, func(int, *Block) (int, error) { panic("broken") }, func(*Block, int) error { return nil })
		}()
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		err = Each(ctx, all, workers, CutLines, func(_ int, b *Block) (int, error) { cancel(stop); return 0, nil }, func(*Block, int) error { return nil })
		if !errors.Is(err, stop) {
			t.Errorf("%d workers: error %v, expected the cause of the interrupt", workers, err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a.jsonl", "sub/c.TXT", "sub/d.md"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte("x"), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, f := range files(t, filepath.Join(dir, "sub/d.md"), dir) {
		name, _ := filepath.Rel(dir, f.Path)
		got = append(got, fmt.Sprintf("%s %v", filepath.ToSlash(name), f.Lines))
	}
	if want := "[sub/d.md false a.jsonl true b.txt false sub/c.TXT false]"; fmt.Sprint(got) != want {
		t.Errorf("files %v, expected %s", got, want)
	}
}

// A byte order mark is no part of the text.
func TestMark(t *testing.T) {
	for _, name := range []string{"a.txt", "a.jsonl"} {
		err := Each(t.Context(), files(t, write(t, name, "\ufeff{}\n")), 1, CutLines, func(_ int, b *Block) (int, error) {
			if string(b.Text) != "{}\n" {
				t.Errorf("%s: text %q", name, b.Text)
			}
			return 0, nil
		}, func(*Block, int) error { return nil })
		if err != nil {
			t.Error(err)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`  {"text":"é", "n":[1,2]}`))
	f.Add([]byte(`{"text": nope}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLine("f.jsonl", 7, data)
		if err == nil {
			_, err = l.Text("text")
		}
		if err != nil && (!errors.Is(err, ErrData) || !strings.HasPrefix(err.Error(), "f.jsonl: line 7, column ")) {
			t.Errorf("error %v", err)
		}
	})
}
