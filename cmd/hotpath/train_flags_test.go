package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/testmodels"
)

func TestTrain(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	config, err := json.Marshal(map[string]any{
		"model": testmodels.Dir(t, "llama"), "data": testmodels.Dir(t, "shakespeare.txt"),
		"steps": 2, "batch_tokens": 64, "seq_len": 32, "out": "elsewhere",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "config.json", string(config))
	ok(t, "train", file, "--validate")
	if plan := ok(t, "train", file, "--dry-run"); !strings.Contains(plan, "memory") {
		t.Errorf("--dry-run: %q", plan)
	}
	r := run(t, "train", file, "-o", out, "--set", "steps=3", "--precision", "f32", "--invariant")
	if r.status != exitDone || strings.Count(r.err, "loss") != 3 || !strings.HasPrefix(r.out, "3 steps, loss ") {
		t.Fatalf("exit %d: %q, %q", r.status, r.out, r.err)
	}
	if strings.Contains(r.err, "takes") {
		t.Errorf("without -v: %q", r.err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-v", "--dry-run", "--threads", "1", "--precision", "bf16"}, "hotpath: --device auto takes cpu (" + isa.Active().String() + "), 1 worker, bf16: training takes a card only if --device names it\n"},
		{[]string{"-v", "-o", out + "2", "--threads", "2", "--precision", "f32"}, "hotpath: --device auto takes cpu (" + isa.Active().String() + "), 2 workers, f32: "},
		{[]string{"-v", "--dry-run", "--device", "ref", "--precision", "f32"}, "hotpath: training takes ref, 1 worker, f32\n"},
	} {
		if r := run(t, append([]string{"train", file}, c.args...)...); r.status != exitDone || !strings.HasPrefix(r.err, c.want) {
			t.Errorf("%v: exit %d, %q, expected %q", c.args, r.status, r.err, c.want)
		}
	}
	checkpoint := strings.TrimSpace(r.out[strings.LastIndex(r.out, "checkpoint ")+len("checkpoint "):])
	ok(t, "score", "-m", checkpoint, "some words")
	fails(t, exitFailed, []string{"train", file, "--set", "steps=-1"}, "steps")
	fails(t, exitFailed, []string{"train", filepath.Join(out, "none.json")}, "none.json")
}
