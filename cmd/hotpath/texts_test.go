package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

func readAll(t *testing.T, f textFlags, args []string, std streams) ([]text, error) {
	t.Helper()
	in, err := f.open(t.Context(), args, std, "index", "tokens")
	if err != nil {
		return nil, err
	}
	defer in.close()
	var all []text
	for {
		batch, err := in.next(context.Background(), nil, 3, 1<<20)
		if err != nil || len(batch) == 0 {
			return all, err
		}
		for _, in := range batch {
			if in.err != nil {
				return all, fmt.Errorf("%s: %w", in.where, in.err)
			}
			all = append(all, in)
		}
	}
}

func TestTextsFromLines(t *testing.T) {
	path := write(t, "texts.txt", "\ufefffirst\nsecond\r\n\n{\"text\":\"as it is\"}\nlast")
	got, err := readAll(t, textFlags{file: path, input: "auto"}, nil, streams{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"first", "second", "", `{"text":"as it is"}`, "last"}
	if len(got) != len(want) {
		t.Fatalf("%d texts, expected %d", len(got), len(want))
	}
	for i, in := range got {
		if in.body != want[i] || in.index != i {
			t.Errorf("text %d is %d %q, expected %q", i, in.index, in.body, want[i])
		}
	}
}

func TestTextsFromObjects(t *testing.T) {
	path := write(t, "texts.jsonl", `{"id": 7, "text": "a\nb", "index": 99, "deep": {"z":1, "a":[1, 2]}}`+"\n\n"+`{"text":""}`+"\n")
	got, err := readAll(t, textFlags{file: path, input: "auto"}, nil, streams{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].body != "a\nb" || got[1].body != "" || got[1].index != 1 {
		t.Fatalf("got %+v", got)
	}
	// What the output has itself is left out, the rest keeps its order and form.
	object := string(appendCarried([]byte(`{"index":0}`), got[0].carry))
	if want := `{"index":0,"id":7,"deep":{"z":1, "a":[1, 2]}}`; object != want {
		t.Errorf("carried %s, expected %s", object, want)
	}
}

func TestTextsInWrongForm(t *testing.T) {
	for line, words := range map[string]string{
		`{"text": "a"`:             "not a JSON object",
		`{"text": 3}`:              `field "text": expected a string`,
		`{"text": null}`:           `field "text": expected a string`,
		`{"id": 3}`:                `field "text" is missing`,
		`["text"]`:                 "expected a JSON object",
		`{"text": "a"} {"b": "c"}`: "expected one JSON object per line",
		"\x00\xff":                 "expected a JSON object",
	} {
		path := write(t, "texts.jsonl", `{"text":"good"}`+"\n"+line+"\n")
		got, err := readAll(t, textFlags{file: path, input: "auto"}, nil, streams{})
		if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "texts.jsonl:2") {
			t.Errorf("%q: error %v, expected line 2 and %q", line, err, words)
		}
		if len(got) != 1 {
			t.Errorf("%q: %d texts before the error, expected 1", line, len(got))
		}
	}
}

func TestTextsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse.txt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxLine + 1); err != nil {
		t.Skipf("no sparse file: %v", err)
	}
	f.Close()
	if _, err := readAll(t, textFlags{file: path, input: "auto"}, nil, streams{}); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Errorf("error %v, expected the limit", err)
	}
}

// A program that asks one line at a time must get each answer before it writes
// the next line.
func TestTextsGiveWhatIsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		in, err := (&textFlags{file: "-", input: "auto"}).open(t.Context(), nil, streams{in: r})
		if err != nil {
			t.Fatal(err)
		}
		defer in.close()
		for _, sent := range []string{"one\n", "two\nthree\n", "four\n"} {
			if _, err := io.WriteString(w, sent); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got, err := in.next(t.Context(), nil, 100, 1<<20)
			if err != nil || len(got) != strings.Count(sent, "\n") {
				t.Fatalf("%d texts (%v) for %q", len(got), err, sent)
			}
		}
		w.Close()
		if got, err := in.next(t.Context(), nil, 100, 1<<20); err != nil || len(got) != 0 {
			t.Fatalf("%d texts (%v) at the end", len(got), err)
		}
	})
}

func TestParseIDList(t *testing.T) {
	for in, want := range map[string][]int32{
		"1 2 3":             {1, 2, 3},
		"1,2, 3":            {1, 2, 3},
		"[1, 2]":            {1, 2},
		"7\t[CLS] is not 8": {7},
		"":                  {},
	} {
		got, err := parseIDList(in)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v", in, got, err)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %v, expected %v", in, got, want)
			}
		}
	}
	for _, in := range []string{"x", "1.5", "99999999999", `["a"]`, "[1"} {
		if _, err := parseIDList(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}
