package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

type embeddedRow struct {
	Index, Tokens, Chunks int
	Truncated             bool
	Error, File           string
	Embedding             []float32
}

// promptedModel is the encoder with prompts of its own.
func promptedModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	config := `{"prompts":{"query":"search: ","document":"text: ","odd":"odd "}}`
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEmbedPrompts(t *testing.T) {
	model := promptedModel(t)
	csv := func(args ...string) string {
		t.Helper()
		return ok(t, append([]string{"embed", "-m", model, "--format", "csv"}, args...)...)
	}
	for want, args := range map[string][]string{
		"search: rain": {"rain", "--task", "query"},
		"text: rain":   {"rain", "--task", "document"},
		"odd rain":     {"rain", "--prompt", "odd"},
		"My own: rain": {"rain", "--prompt", "My own: "},
		"rain":         {"rain", "--prompt", ""},
	} {
		if csv(want) != csv(args...) {
			t.Errorf("%q is not the vector of %q", args, want)
		}
	}
	for prompt, told := range map[string]bool{"od": true, "odd": false, "My own: ": false} {
		if r := run(t, "embed", "-m", model, "rain", "--prompt", prompt); strings.Contains(r.err, "no name of a prompt (the model has ") != told {
			t.Errorf("--prompt %q: %q", prompt, r.err)
		}
	}
}

// What people see of a vector is what files have.
func TestEmbedTextBeginsAsFilesDo(t *testing.T) {
	for _, quantize := range []string{"", "int8", "binary", "ubinary"} {
		args := []string{"embed", "-m", testmodels.Dir(t, "bert"), "rain on the harbour", "--quantize", quantize}
		if quantize == "" {
			args = args[:len(args)-2]
		}
		var row struct{ Embedding []float64 }
		if err := json.Unmarshal([]byte(ok(t, append(args, "--format", "jsonl")...)), &row); err != nil {
			t.Fatal(err)
		}
		_, shown, _ := strings.Cut(ok(t, args...), ": ")
		for i, x := range strings.Fields(shown)[:4] {
			if v, err := strconv.ParseFloat(x, 64); err != nil || math.Abs(v-row.Embedding[i]) > 6e-5 {
				t.Errorf("--quantize %q shows %s at %d, files have %v", quantize, x, i, row.Embedding[i])
			}
		}
	}
}

func TestEmbedDimensions(t *testing.T) {
	r := run(t, "embed", "-m", testmodels.Dir(t, "bert"), "rain", "--dim", "8", "--format", "jsonl")
	if r.status != exitDone || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "8 of its 32 dimensions") {
		t.Fatalf("exit %d: %q", r.status, r.err)
	}
	v := lines[embeddedRow](t, r.out)[0].Embedding
	if n := cosine(v, v); len(v) != 8 || math.Abs(n-1) > 1e-5 {
		t.Errorf("%v of length %v", v, n)
	}
}

func TestEmbedLongTexts(t *testing.T) {
	bert, long := testmodels.Dir(t, "bert"), strings.Repeat("rain and wind ", 200)
	r := run(t, "embed", "-m", bert, "short", long, long, "--format", "jsonl")
	if r.status != exitDone || !strings.HasPrefix(r.err, "hotpath: 2 texts were too long and were cut, the first of them argument 2") {
		t.Errorf("exit %d: %q", r.status, r.err)
	}
	if rows := lines[embeddedRow](t, r.out); len(rows) != 3 || rows[0].Truncated || !rows[2].Truncated {
		t.Errorf("%+v", rows)
	}
	r = run(t, "embed", "-m", bert, "short", long, "--chunk", "--chunk-tokens", "32", "--overlap", "4", "--format", "jsonl")
	if rows := lines[embeddedRow](t, r.out); r.status != exitDone || r.err != "" || rows[0].Chunks != 0 || rows[1].Chunks < 20 || rows[1].Truncated {
		t.Errorf("exit %d: %q, %+v", r.status, r.err, rows)
	}
}

// Where a text has no vector, jsonl says why in its place and goes on.
func TestEmbedErrorsInPlace(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	input := `{"text":"one","id":1}` + "\n" + `{"text":` + "\n" + `{"text":"` + strings.Repeat("rain ", 500) + `","id":3}` + "\n" + `{"text":"last"}` + "\n"
	args := []string{"embed", "-m", bert, "-f", "-", "--input", "jsonl", "--truncate=false"}
	r := hotpathWith(t, input, append(args, "--format", "jsonl")...)
	rows := lines[embeddedRow](t, r.out)
	if r.status != exitFailed || len(rows) != 4 || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "2 of 4 texts failed") {
		t.Fatalf("exit %d: %q\n%s", r.status, r.err, r.out)
	}
	for i, words := range []string{"", "standard input:2: not a JSON object", "standard input:3: text is too long", ""} {
		if row := rows[i]; row.Index != i || !strings.Contains(row.Error, words) || (words == "") != (row.Error == "" && len(row.Embedding) > 0) {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if !strings.Contains(r.out, `,"id":3}`) {
		t.Errorf("a field of the text that failed is lost: %s", r.out)
	}
	// Numbers alone have no place for an error: it ends the work.
	r = hotpathWith(t, input, append(args, "--format", "csv")...)
	if r.status != exitFailed || strings.Count(r.out, "\n") != 1 || r.err != "hotpath: standard input:2: not a JSON object: field \"text\": EOF\n" {
		t.Errorf("csv: exit %d: %q %q", r.status, r.err, r.out)
	}
}

// A co-process lives on after a bad line, and answers it, whatever it does.
func TestCoProcessSurvivesBadLines(t *testing.T) {
	long := `{"text":"` + strings.Repeat("rain ", 300) + `"}`
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	for _, c := range []struct {
		args  []string
		lines []string
		bad   []int
	}{
		{[]string{"embed", "-m", bert, "--truncate=false"}, []string{`{"text":"first"}`, `{"text":7}`, long, `{"text":"last"}`}, []int{1, 2}},
		{[]string{"score", "-m", llama, "--ctx", "64"}, []string{`{"text":"first"}`, `{"text":7}`, long, `{"text":"last"}`}, []int{1, 2}},
		{[]string{"run", "-m", llama, "--ctx", "64", "-n", "2"}, []string{`{"text":"first"}`, `{"text":7}`, long, `{"text":"last"}`}, []int{1, 2}},
		{[]string{"tokenize", "-m", llama}, []string{`{"text":"first"}`, `{`, `{"text":"last"}`}, []int{1}},
		{[]string{"tokenize", "-m", llama, "--decode"}, []string{`{"ids":[74]}`, `{"ids":[99999999]}`, `{"ids":"x"}`, `{}`, `{"ids":[74]}`}, []int{1, 2, 3}},
	} {
		cmd, in, answers := converse(t, append(c.args, "-f", "-", "--input", "jsonl", "--format", "jsonl")...)
		for i, q := range c.lines {
			if _, err := io.WriteString(in, q+"\n"); err != nil {
				t.Fatal(err)
			}
			line, err := answers.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: no answer to line %d: %v", c.args[0], i, err)
			}
			if row := lines[struct {
				Index int
				Error string
			}](t, line)[0]; row.Index != i || (row.Error != "") != slices.Contains(c.bad, i) {
				t.Errorf("%s: line %d: %s", c.args[0], i, line)
			}
		}
		in.Close()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("%s: %v, expected exit %d", c.args[0], err, exitFailed)
		}
	}
}

// Of a file, what can be answered is; without jsonl it ends at the first that cannot.
func TestScoreErrorsInPlace(t *testing.T) {
	llama := testmodels.Dir(t, "llama")
	file := write(t, "texts.jsonl", `{"text":"one","id":1}`+"\n"+`{"text":`+"\n"+`{"text":"`+strings.Repeat("rain ", 300)+`","id":3}`+"\n"+`{"text":"last"}`+"\n")
	r := hotpathWith(t, "", "score", "-m", llama, "--ctx", "64", "-f", file, "--format", "jsonl")
	rows := lines[embeddedRow](t, r.out)
	if r.status != exitFailed || len(rows) != 4 || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "2 of 4 texts failed") || !strings.Contains(r.out, `,"id":3}`) {
		t.Errorf("exit %d: %q\n%s", r.status, r.err, r.out)
	}
	good := hotpathWith(t, `{"text":"fine","error":"of the input"}`+"\n", "score", "-m", llama, "-f", "-", "--input", "jsonl", "--format", "jsonl")
	if good.status != exitDone || strings.Contains(good.out, "error") {
		t.Errorf("a field of the input looks like a failure: %s", good.out)
	}
	r = hotpathWith(t, "", "score", "-m", llama, "--ctx", "64", "-f", file)
	if r.status != exitFailed || strings.Count(r.out, "\n") != 1 || !strings.Contains(r.err, "texts.jsonl:2: not a JSON object") {
		t.Errorf("text: exit %d: %q %q", r.status, r.err, r.out)
	}
}

// Broken UTF-8 is replaced, as the reference does: it becomes U+FFFD.
func TestEmbedBrokenUTF8(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	want := ok(t, "embed", "-m", bert, "a \ufffd b", "--format", "csv")
	if got := ok(t, "embed", "-m", bert, "a \xff b", "--format", "csv"); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	r := hotpathWith(t, "{\"text\":\"a \xff b\",\"k\":\"\xfe\"}\n", "embed", "-m", bert, "-f", "-", "--input", "jsonl", "--format", "jsonl")
	var object map[string]any
	if err := json.Unmarshal([]byte(r.out), &object); err != nil || object["k"] != "\ufffd" {
		t.Errorf("%v: %s", err, r.out)
	}
}

func TestEmbedFolder(t *testing.T) {
	bert, dir := testmodels.Dir(t, "bert"), t.TempDir()
	for name, content := range map[string]string{
		"b.txt": "second\nof two lines\n", "a.txt": "first", "c/d.jsonl": "{\"text\":\"third\"}\n{\"text\":\"fourth\"}\n",
		"e.md": "fifth\r\n", "left.bin": "\x00", ".hidden.txt": "no",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rows := lines[embeddedRow](t, ok(t, "embed", "-m", bert, "-f", dir, "--format", "jsonl"))
	want := lines[embeddedRow](t, ok(t, "embed", "-m", bert, "first", "second\nof two lines", "third", "fourth", "fifth", "--format", "jsonl"))
	if len(rows) != len(want) {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, file := range []string{"a.txt", "b.txt", "c/d.jsonl", "c/d.jsonl", "e.md"} {
		if rows[i].File != file || rows[i].Index != i || cosine(rows[i].Embedding, want[i].Embedding) < 0.99999 {
			t.Errorf("row %d: %+v, expected %+v of %s", i, rows[i], want[i], file)
		}
	}
	if rows := lines[embeddedRow](t, ok(t, "embed", "-m", bert, "-f", dir, "--input", "lines", "--format", "jsonl")); len(rows) != 6 {
		t.Errorf("%d lines", len(rows))
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if rows := lines[embeddedRow](t, ok(t, "embed", "-m", bert, "-f", link, "--format", "jsonl")); len(rows) != 5 {
		t.Errorf("%d texts behind a link", len(rows))
	}
	fails(t, exitFailed, []string{"embed", "-m", bert, "-f", t.TempDir()}, "holds no text")
}

// TestEmbedOutput: a file appears whole or not at all.
func TestEmbedOutput(t *testing.T) {
	bert, dir := testmodels.Dir(t, "bert"), t.TempDir()
	for _, format := range formatNames() {
		out := filepath.Join(dir, "out."+format)
		want := ok(t, "embed", "-m", bert, "one", "two", "--format", format)
		if printed := ok(t, "embed", "-m", bert, "one", "two", "--format", format, "-o", out); printed != "" {
			t.Errorf("%s: %q was printed", format, printed)
		}
		same(t, out, want)
		// Its ending says the format, but for text.
		if format != "text" {
			ok(t, "embed", "-m", bert, "one", "two", "-o", out)
			same(t, out, want)
		}
		if format == "jsonl" {
			continue // has a place for errors
		}
		fails(t, exitFailed, []string{"embed", "-m", bert, "--truncate=false", "one", strings.Repeat("rain ", 300), "-o", out, "--format", format}, "argument 2")
		same(t, out, want)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != len(formatNames()) {
		t.Errorf("%d files are left, %v: %v", len(names), err, names)
	}
}

func TestEmbedFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	bert := testmodels.Dir(t, "bert")
	for _, format := range formatNames() {
		fails(t, exitFailed, []string{"embed", "-m", bert, "one", "two", "--format", format, "-o", "/dev/full"}, "no space left")
		var errs strings.Builder
		status := execute(t.Context(), []string{"embed", "-m", bert, "one", "two", "--format", format}, streams{nil, full, &errs})
		if status != exitFailed || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: exit %d: %q", format, status, errs.String())
		}
	}
}
