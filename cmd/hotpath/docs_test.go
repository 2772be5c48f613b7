package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hotpath/internal/testmodels"
)

// workshop is a folder in which the commands of help texts and documents run:
// the names that they use stand for small fixtures.
func workshop(t *testing.T) string {
	t.Helper()
	pretendHub(t)
	dir := t.TempDir()
	t.Setenv("HOTPATH_CACHE", filepath.Join(dir, "cache"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	llama, bert, gguf := testmodels.Dir(t, "llama"), testmodels.Dir(t, "bert"), testmodels.Dir(t, "gguf/llama-q8_0.gguf")
	for name, target := range map[string]string{
		"bin/hotpath":                   self,
		"MODEL":                         llama,
		"RERANKER":                      filepath.Join(repositoryRoot(t), "internal/model/testdata/encoders/rerank-bert"),
		"model.gguf":                    gguf,
		"cache/models/all-MiniLM-L6-v2": bert, // as make models leaves them
		"cache/models/SmolLM2-135M-Instruct.Q4_1.gguf": gguf,
		"examples":                                         filepath.Join(repositoryRoot(t), "examples"),
		"internal/testmodels/testdata/llama":               llama,
		"internal/testmodels/testdata/shakespeare.txt":     testmodels.Dir(t, "shakespeare.txt"),
		"internal/testmodels/testdata/gguf/bert-q8_0.gguf": testmodels.Dir(t, "gguf/bert-q8_0.gguf"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell runs a script in the workshop.
func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asCommand+"=1", "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v: %s", script, err, out)
	}
}

// Every command's help ends with examples, and they work as written.
func TestHelpExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("whole commands: slow under the race detector, and run without -short")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	dir := workshop(t)
	// Help texts speak of files of the reader's; documents, of files that are there.
	for name, content := range map[string]string{
		"texts.txt":     "one text\nanother text\n",
		"texts.jsonl":   `{"text":"one text","id":1}` + "\n",
		"corpus.txt":    strings.Repeat("a longer text, made of the same words again and again. ", 20),
		"prompts.jsonl": `{"text":"once"}` + "\n",
		"config.json":   `{"model":"MODEL","data":"texts.txt","out":"out","steps":2,"batch_tokens":64,"seq_len":8}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, dir, `hotpath embed -m MODEL "a text" --profile=run.json >/dev/null
		for copy in before after a1 a2 a3 b1 b2 b3; do cp run.json $copy.json; done`)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if name := cmd.Name(); name == "help" || name == "completion" {
			return
		}
		help := ok(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		examples := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		if len(examples) < 2 || !strings.HasSuffix(strings.TrimSpace(help), strings.TrimSpace(cmd.Example)) {
			t.Errorf("%s --help does not end with two examples:\n%s", cmd.CommandPath(), help)
		}
		for _, example := range examples {
			shell(t, dir, strings.TrimSpace(example))
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(streams{nil, os.Stdout, os.Stderr}))
}

// The placeholder of a flag is a word in capitals or all of its values, never one
// value, which would look as if it were to be typed.
func TestPlaceholders(t *testing.T) {
	placeholder := regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--([a-z-]+) (\S+)  `)
	seen := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		help := ok(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		for _, m := range placeholder.FindAllStringSubmatch(help, -1) {
			seen++
			if name := m[2]; name != strings.ToUpper(name) && !strings.Contains(name, "|") {
				t.Errorf("%s --%s %s", cmd.CommandPath(), m[1], name)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(streams{nil, os.Stdout, os.Stderr}))
	if seen < 30 {
		t.Errorf("only %d flags with a value were found", seen)
	}
	if help := ok(t, "score", "--help"); !strings.Contains(help, "--profile[=FILE]  ") || strings.Contains(help, `[="`) {
		t.Errorf("--profile does not show that its file may be left out:\n%s", help)
	}
}

func TestVersion(t *testing.T) {
	out := ok(t, "--version")
	if fields := strings.Fields(out); len(fields) != 4 || fields[0] != "hotpath" || fields[2] != runtime.Version() || fields[3] != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("--version says %q", out)
	}
}

// The commands of the documents run: those of hotpath on small fixtures, and
// the targets of make exist.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("whole commands: slow under the race detector, and run without -short")
	}
	for _, tool := range []string{"bash", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	root := repositoryRoot(t)
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, file := range append(documents, filepath.Join(root, "README.md")) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := workshop(t)
		for _, block := range shellBlocks(string(content)) {
			blocks++
			if target, isMake := strings.CutPrefix(block, "make "); isMake {
				for line := range strings.Lines("make " + target) {
					line, _, _ = strings.Cut(line, "#")
					args := append([]string{"-n", "-C", root}, strings.Fields(line)[1:]...)
					if out, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput(); err != nil {
						t.Errorf("%s: %s: %v: %s", file, line, err, out)
					}
				}
				continue
			}
			shell(t, dir, strings.ReplaceAll(block, "go run ./cmd/hotpath", "hotpath"))
		}
	}
	if blocks < 5 {
		t.Errorf("only %d blocks of commands were found", blocks)
	}
}

// README.md names every command, and docs/cli.md has a part about each.
func TestEveryCommandIsDocumented(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(repositoryRoot(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	readme, parts := read("README.md"), ""
	for line := range strings.Lines(read("docs/cli.md")) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			parts += " " + strings.ReplaceAll(strings.TrimSpace(heading), ",", "") + " "
		}
	}
	for _, cmd := range newRoot(streams{nil, os.Stdout, os.Stderr}).Commands() {
		name := cmd.Name()
		if name == "help" || name == "completion" {
			continue
		}
		if !regexp.MustCompile("`" + name + "[ `]").MatchString(readme) {
			t.Errorf("README.md does not name %s", name)
		}
		if !strings.Contains(parts, " "+name+" ") {
			t.Errorf("docs/cli.md has no part about %s", name)
		}
		for _, sub := range cmd.Commands() {
			if !regexp.MustCompile("`(" + name + " )?" + sub.Name() + "`").MatchString(readme) {
				t.Errorf("README.md does not name %s %s", name, sub.Name())
			}
		}
	}
}

// shellBlocks are the contents of the fenced blocks marked sh.
func shellBlocks(markdown string) []string {
	var blocks []string
	for _, part := range strings.Split(markdown, "```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}
