package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// Every flag that takes a number, with numbers that nobody means: the command
// ends, well or with one line that is no defect's.
func TestExtremeFlags(t *testing.T) {
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	reranker := filepath.Join("..", "..", "internal", "model", "testdata", "encoders", "rerank-bert")
	corpus := write(t, "corpus.txt", strings.Repeat("many words ", 40))
	config := write(t, "config.json", `{"model": "`+llama+`", "data": ["`+corpus+`"], "out": "`+filepath.Join(t.TempDir(), "out")+`", "steps": 1}`)
	p := filepath.Join(t.TempDir(), "p.json")
	ok(t, "embed", "-m", bert, "text", "--profile="+p)
	whole := []string{fmt.Sprint(math.MinInt), "-1", "0", "1", fmt.Sprint(math.MaxInt), "99999999999999999999", "1e300", "NaN", ""}
	// What takes 0 for a choice of its own, or 1, would run for long.
	refused := []string{fmt.Sprint(math.MinInt), "-1", fmt.Sprint(math.MaxInt), "1e300", ""}
	actual := []string{"NaN", "Inf", "-Inf", "-1", "0", "1e-45", "1", "1e38", "1e300", "-1e300", ""}
	durations := []string{"-1ns", "2562047h", "9999999h", "1e300h", "NaN", ""}
	for _, c := range []struct {
		line   string
		flag   string
		values []string
	}{
		{"run -m " + llama + " -p x --temp 1 --ctx 16", "-n", whole},
		{"run -m " + llama + " -p x -n 2 --temp 1", "--top-k", whole},
		{"run -m " + llama + " -p x -n 2 --temp 1", "--seed", whole},
		{"run -m " + llama + " -p x -n 2", "--ctx", whole},
		{"run -m " + llama + " -p x -n 2", "--temp", actual},
		{"run -m " + llama + " -p x -n 2", "--top-p", actual},
		{"run -m " + llama + " -p x -n 2", "--min-p", actual},
		{"score -m " + llama + " x", "--ctx", whole},
		{"perplexity -m " + llama + " -f " + corpus, "--ctx", whole},
		{"perplexity -m " + llama + " --ctx 8 -f " + corpus, "--stride", whole},
		{"perplexity -m " + llama + " --ctx 8 -f " + corpus, "--windows", whole},
		{"embed -m " + bert + " x", "--dim", whole},
		{"embed -m " + bert + " x --chunk", "--chunk-tokens", whole},
		{"embed -m " + bert + " x --chunk", "--overlap", whole},
		{"embed -m " + bert + " x", "--batch-tokens", whole},
		{"embed -m " + bert + " x", "--threads", whole},
		{"similar -m " + bert + " q x y", "--top", whole},
		{"similar -m " + bert + " q x y", "--dim", whole},
		{"rerank -m " + reranker + " q x y", "--top", whole},
		{"profile show " + p, "--top", whole},
		{"profile compare " + p + " " + p, "--top", whole},
		{"profile compare " + p + " " + p, "--fail-above", actual},
		{"profile run -m " + bert, "--iterations", refused},
		{"profile run -m " + bert + " --iterations 1", "--tokens", append(refused[:2:2], "1e300")},
		{"bench rope", "--count", refused},
		{"bench rope", "--time", durations},
		{"study cache", "--time", durations},
		{"train --dry-run " + config, "--threads", whole},
	} {
		for _, v := range c.values {
			checkOneLine(t, append(strings.Fields(c.line), c.flag, v))
		}
	}
	for _, field := range []string{"steps", "batch_tokens", "seq_len", "warmup", "seed", "checkpoint_every", "keep", "lr", "min_lr", "eps", "weight_decay", "clip", "betas.0", "decay_steps", "momentum", "skip_above", "stop_above", "model.d_model"} {
		for _, v := range append(actual, whole...) {
			checkOneLine(t, []string{"train", "--validate", config, "--set", field + "=" + v})
		}
	}
	for _, text := range []string{"", "\x00", "\xff", strings.Repeat("a", 1<<16)} {
		checkOneLine(t, []string{"run", "-m", llama, "-n", "1", "-p", text, "--stop", text})
		checkOneLine(t, []string{"embed", "-m", bert, text, "--prompt", text})
		checkOneLine(t, []string{"embed", "-m", text, "x"})
		checkOneLine(t, []string{"score", "-m", llama, text})
		checkOneLine(t, []string{"tokenize", "-m", llama, text})
		checkOneLine(t, []string{"rerank", "-m", reranker, text, text})
	}
}

func checkOneLine(t *testing.T, args []string) {
	t.Helper()
	r := run(t, args...)
	if r.status != exitDone && r.status != exitFailed && r.status != exitUsage || strings.Contains(r.err, "internal error") || strings.Contains(r.err, "goroutine") ||
		r.status != exitDone && (strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "hotpath: ")) {
		t.Errorf("hotpath %.200q: exit %d, %.400q", args, r.status, r.err)
	}
}
