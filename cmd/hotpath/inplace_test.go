package main

import (
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/testmodels"
)

// Weights that are read in place give the answers of packed ones, on every tier that
// the machine has: texts by kernels for one row, for few rows and for many.
func TestInPlaceAnswersTheSame(t *testing.T) {
	prompts := write(t, "prompts.txt", strings.Repeat("some words of a text\n", 5)+strings.Repeat("many words ", 40)+"\n")
	folder := testmodels.Dir(t, "gguf")
	files, err := filepath.Glob(folder + "/llama-q*.gguf")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	packed := 0
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, file := range files {
				args := []string{"run", "-m", file, "--raw", "--temp", "0", "-n", "12", "--ignore-eos", "-f", prompts, "--format", "jsonl"}
				want, got := lines[completion](t, ok(t, args...)), lines[completion](t, ok(t, append(args, "--in-place")...))
				if len(want) != 6 || len(got) != len(want) {
					t.Fatalf("%s: %d and %d answers", filepath.Base(file), len(want), len(got))
				}
				for i := range want {
					if want[i].Text != got[i].Text {
						t.Errorf("%s, prompt %d: packed %q, in place %q", filepath.Base(file), i, want[i].Text, got[i].Text)
					}
				}
				packed++
			}
		})
	}
	if packed == 0 {
		t.Error("nothing was compared")
	}
}
