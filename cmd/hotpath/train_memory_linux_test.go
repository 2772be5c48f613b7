package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

// TestTrainMemoryIsPredicted: --dry-run and the refusal before step 1 count everything
// that a run keeps: also what its objective, evaluations and samples run beside the
// training program. The resident peak is 0.85 to 1.15 times that figure, plus at most
// 48 MiB for the process itself.
func TestTrainMemoryIsPredicted(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs are those of the race detector, which needs memory of its own")
	}
	dir := t.TempDir()
	text := testmodels.Dir(t, "shakespeare.txt")
	var pairs, preferences strings.Builder
	for i := range 200 {
		fmt.Fprintf(&pairs, "{\"anchor\":\"one word of %d\",\"positive\":\"another of %d\"}\n", i, i)
		fmt.Fprintf(&preferences, "{\"prompt\":\"one %d\",\"chosen\":\" two\",\"rejected\":\" three\"}\n", i)
	}
	llama := `{"d_model":512,"n_layers":4,"n_heads":8,"tokenizer":"char","context":64}`
	bert := `{"architecture":"bert","d_model":512,"n_layers":4,"n_heads":8,"tokenizer":"wordpiece","vocab":300,"context":64}`
	run := func(fields string) string {
		return `{"out":"none","steps":1,"batch_tokens":128,"seq_len":32,"truncate":true,` + fields + `}`
	}
	base := filepath.Join(dir, "base")
	command := func(args ...string) (string, float64) {
		cmd := process(t, args...)
		var text, mistakes bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, &mistakes
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peak := make(chan float64, 1)
		go func() { peak <- residentPeak(cmd.Process.Pid) }()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, &mistakes)
		}
		return text.String(), <-peak
	}
	command("train", write(t, "base.json", run(fmt.Sprintf(`"model":%s,"data":%q`, llama, text))), "-o", base)
	base = filepath.Join(base, "step-00000001")
	samples := `"sample":{"every":1,"tokens":3}`
	for name, c := range map[string]struct{ precision, fields string }{
		"samples":    {"bf16", fmt.Sprintf(`"model":%s,"data":%q,%s`, llama, text, samples)},
		"dpo":        {"f32", fmt.Sprintf(`"model":%q,"data":%q,"objective":"dpo"`, base, write(t, "p.jsonl", preferences.String()))},
		"distill":    {"f32", fmt.Sprintf(`"model":%q,"data":%q,"objective":{"type":"distill","teacher":%q},"validation":{"share":0.1},%s`, base, text, base, samples)},
		"lora":       {"bf16", fmt.Sprintf(`"model":%q,"data":%q,"lora":{"rank":4},%s`, base, text, samples)},
		"evaluation": {"bf16", fmt.Sprintf(`"model":%s,"data":%q,"micro_tokens":64,"objective":"contrastive","validation":{"share":0.1}`, bert, write(t, "a.jsonl", pairs.String()))},
	} {
		args := []string{"train", write(t, "c.json", run(c.fields)), "--precision", c.precision, "--threads", "2", "-o", filepath.Join(dir, name+c.precision)}
		var figure float64 // MiB
		plan, _ := command(append(args, "--dry-run")...)
		for line := range strings.Lines(plan) {
			if value, found := strings.CutPrefix(line, "memory, in all"); found {
				if _, err := fmt.Sscan(value, &figure); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		_, peak := command(args...)
		t.Logf("%s in %s: %.0f MiB, the peak was %.0f", name, c.precision, figure, peak)
		if figure == 0 || peak < 0.85*figure || peak > 1.15*figure+48 {
			t.Errorf("%s in %s: --dry-run says %.0f MiB, the peak was %.0f", name, c.precision, figure, peak)
		}
	}
}

// residentPeak follows a process to its end and returns the peak of its resident
// memory, in MiB. The peak that wait reports will not do: it begins with that of the
// parent.
func residentPeak(pid int) (peak float64) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return peak
		}
		_, after, found := strings.Cut(string(status), "VmHWM:")
		if !found { // it has ended
			return peak
		}
		var kib float64
		if _, err := fmt.Sscan(after, &kib); err == nil {
			peak = kib / (1 << 10)
		}
		time.Sleep(time.Millisecond)
	}
}
