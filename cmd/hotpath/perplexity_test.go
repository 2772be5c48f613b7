package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestPerplexityCommand(t *testing.T) {
	llama := testmodels.Dir(t, "llama")
	text := strings.Repeat("the quick brown fox jumps over the lazy dogs. ", 20)
	file := write(t, "corpus.txt", text)
	args := []string{"perplexity", "-m", llama, "-f", file, "--ctx", "32"}
	var r perplexityResult
	if err := json.Unmarshal([]byte(ok(t, append(args, "--format", "json")...)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Ctx != 32 || r.Windows < 2 || r.Tokens != 32*r.Windows || r.Scored != 15*r.Windows || !(r.PPL > 1) || math.IsInf(r.PPL, 0) {
		t.Errorf("%+v", r)
	}
	if out := ok(t, append(args, "--windows", "2", "--stride", "16")...); !strings.HasPrefix(out, "perplexity ") || !strings.Contains(out, " in 2 windows of 32") {
		t.Error(out)
	}
	if piped := hotpathWith(t, text, "perplexity", "-m", llama, "-f", "-", "--ctx", "32", "--format", "json"); piped.out != ok(t, append(args, "--format", "json")...) {
		t.Error(piped)
	}
	for _, c := range []struct{ args, word string }{
		{"perplexity -m " + llama, "-f FILE is missing"},
		{"perplexity -m " + llama + " -f " + file + " --ctx 2", "--ctx 2"},
		{"perplexity -m " + llama + " -f " + file + " --stride 512", "--stride 512"},
		{"perplexity -m " + llama + " -f " + file + " --windows -1", "--windows -1"},
	} {
		fails(t, exitUsage, strings.Fields(c.args), c.word)
	}
	fails(t, exitFailed, []string{"perplexity", "-m", llama, "-f", file + ".absent"}, "no such file")
	fails(t, exitFailed, []string{"perplexity", "-m", llama, "-f", write(t, "short.txt", "short"), "--ctx", "32"}, "expected at least a window of 32")
	// A model that computes none says so before anything about windows: its positions are 96.
	for _, c := range [][]string{{file, "32"}, {file, "512"}, {file, "100000"}, {write(t, "short.txt", "short"), "32"}} {
		fails(t, exitFailed, []string{"perplexity", "-m", testmodels.Dir(t, "bert"), "-f", c[0], "--ctx", c[1]}, "bert models compute no likelihoods")
	}
	fails(t, exitUsage, []string{"perplexity", "-m", llama, "-f", file, "--ctx", "100000"}, "a context of 100000 tokens", "positions")
}
