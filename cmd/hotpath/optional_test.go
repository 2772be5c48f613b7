package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hotpath/internal/testmodels"
)

// The value of a flag that may stand without one is not taken for a text.
func TestSpacedValues(t *testing.T) {
	bert, llama, dir := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama"), t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct{ line, says string }{
		{"embed -m " + bert + " --profile p.json", "--profile=p.json"},
		{"embed -m " + bert + " text --profile run.HTML", "--profile=run.HTML"},
		{"embed -m " + bert + " --profile p.trace.json.gz text", "--profile=p.trace.json.gz"},
		{"embed --profile p.json -m " + bert + " text", "--profile=p.json"},
		{"embed -m " + bert + " text --normalize false", "--normalize=false"},
		{"embed -m " + bert + " --chunk TRUE text", "--chunk=TRUE"},
		{"similar -m " + bert + " query --profile p.md text", "--profile=p.md"},
		{"similar -m " + bert + " query --prompts false text", "--prompts=false"},
		{"run -m " + llama + " --raw true -p text", "--raw=true"},
		{"score -m " + llama + " --special false text", "--special=false"},
		{"perplexity -m " + llama + " -f corpus.txt --profile p.svg", "--profile=p.svg"},
		{"tokenize -m " + bert + " --special false text", "--special=false"},
		{"train config.json --profile p.json", "--profile=p.json"},
		{"train config.json --validate true", "--validate=true"},
		{"bench rope --list true", "--list=true"},
	} {
		fails(t, exitUsage, strings.Fields(c.line), c.says, "'hotpath "+strings.Fields(c.line)[0]+" --help'")
	}
	// What is meant as a text stays one, and a flag's value its own.
	for _, line := range []string{
		"embed -m " + bert + " --profile text",
		"embed -m " + bert + " --chunk --profile -- p.json",
		"embed -m " + bert + " false true --normalize=false",
		"embed -m " + bert + " p.json --profile",
		"tokenize -m " + bert + " --decode 1",
		"run -m " + llama + " -n 1 --raw -p true",
		"run -m " + llama + " -n 1 --raw --prompt p.json",
	} {
		ok(t, strings.Fields(line)...)
	}
	// Without it train would have no configuration: it is no value.
	r := run(t, "train", "--profile", "config.json")
	if r.status != exitFailed || !strings.Contains(r.err, "config.json") {
		t.Errorf("exit %d: %s", r.status, r.err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Every flag whose value is optional is one that spacedValues knows.
func TestOptionalValuesAreKnown(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" && !looksLikeValue(f, "true") && !looksLikeValue(f, filepath.Join("a", "run.json")) {
				t.Errorf("%s: --%s may stand without its value, which nothing tells from a text", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(streams{}))
}
