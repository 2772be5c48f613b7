package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// Prompts of a file share steps, and each gets the answer that it gets alone.
func TestRunIsOneBatch(t *testing.T) {
	const tokens = 40 // so that a caller that waits for a core loses few of them
	args := []string{"run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", fmt.Sprint(tokens), "--seed", "3", "--ignore-eos", "--invariant", "--precision", "f32"}
	var prompts, alone []string
	for i := range 20 {
		prompts = append(prompts, strings.Repeat("word ", 1+i*7%20)+fmt.Sprint(i))
		alone = append(alone, strings.TrimSuffix(ok(t, append(args, "-p", prompts[i])...), "\n"))
	}
	file := write(t, "prompts.txt", strings.Join(prompts, "\n")+"\n")
	recorded := filepath.Join(t.TempDir(), "run.json")
	rows := lines[completion](t, ok(t, append(args, "-f", file, "--format", "jsonl", "--profile="+recorded)...))
	var got []string
	for i, r := range rows {
		got = append(got, r.Text)
		if r.Index == nil || *r.Index != i {
			t.Errorf("row %d: index %v", i, r.Index)
		}
	}
	if !slices.Equal(got, alone) {
		t.Errorf("as a batch:\n%q\nalone:\n%q", got, alone)
	}
	if text := ok(t, append(args, "-f", file)...); text != strings.Join(alone, "\n")+"\n" {
		t.Errorf("as text:\n%q\nalone:\n%q", text, alone)
	}
	p, err := profile.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var runs int64
	for i := range p.Plans {
		runs += p.Plans[i].Ledger.Runs
	}
	if most := int64(len(prompts) * tokens / 2); runs == 0 || runs > most {
		t.Errorf("%d runs for %d prompts of %d tokens, expected at most %d", runs, len(prompts), tokens, most)
	}
}

// Prompts of a file reach the engine in input order and begin together, so that steps
// have the same prompts in every run.
func TestRunIsRepeatable(t *testing.T) {
	var prompts strings.Builder
	for i := range 70 { // more than a step has
		fmt.Fprintln(&prompts, strings.Repeat("word ", 1+i*7%20), i)
	}
	file := write(t, "prompts.txt", prompts.String())
	var first, steps string
	for i := range 3 {
		recorded := filepath.Join(t.TempDir(), "run.json")
		got := ok(t, "run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", "12", "--seed", "3", "--temp", "1.5", "--ignore-eos", "-f", file, "--profile="+recorded)
		p, err := profile.ReadFile(recorded)
		if err != nil {
			t.Fatal(err)
		}
		made := ""
		for _, plan := range p.Plans {
			made += fmt.Sprintf("%s %s: %d runs\n", plan.Plan.Name, plan.Plan.Phase, plan.Ledger.Runs)
		}
		if i == 0 {
			first, steps = got, made
		}
		if made != steps || steps == "" {
			t.Errorf("run %d:\n%sthe first:\n%s", i, made, steps)
		}
		if got != first {
			t.Errorf("run %d:\n%q\nthe first:\n%q", i, got, first)
		}
	}
}

// A prompt that cannot be answered has its error where its answer would be.
func TestRunErrorsKeepTheirPlace(t *testing.T) {
	file := write(t, "prompts.jsonl", `{"text":"a"}`+"\n{\n"+`{"text":"`+strings.Repeat("word ", 600)+`"}`+"\n"+`{"text":"b"}`+"\n")
	args := []string{"run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", "3", "--temp", "0", "--ctx", "64", "-f", file}
	r := run(t, append(args, "--format", "jsonl")...)
	rows := lines[struct {
		Index int
		Text  *string
		Error string
	}](t, r.out)
	if r.status != exitFailed || len(rows) != 4 {
		t.Fatalf("status %d, rows %+v", r.status, rows)
	}
	for i, row := range rows {
		if i == 2 && !strings.Contains(row.Error, ": the prompt has 1801 tokens") {
			t.Errorf("row %d: %q, expected the prompt's length", i, row.Error)
		}
		if wrong := i == 1 || i == 2; row.Index != i || (row.Error != "") != wrong || (row.Text == nil) != wrong {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if r := run(t, args...); r.status != exitFailed || strings.Count(r.out, "\n") != 1 || !strings.Contains(r.err, ":2:") {
		t.Errorf("as text: status %d, %q, %q", r.status, r.out, r.err)
	}
}

func TestPenaltyFlags(t *testing.T) {
	args := []string{"run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", "40", "--temp", "0", "--ignore-eos", "-p", "some words", "--format", "json"}
	different := func(more ...string) int {
		ids := slices.Clone(lines[completion](t, ok(t, append(slices.Clone(args), more...)...))[0].IDs)
		slices.Sort(ids)
		return len(slices.Compact(ids))
	}
	plain := different()
	for _, more := range [][]string{{"--repeat-penalty", "5"}, {"--presence-penalty", "50"}, {"--frequency-penalty", "50"}} {
		if n := different(append(more, "--repeat-last-n", "-1")...); n <= plain || n < 35 {
			t.Errorf("%v: %d different tokens of 40, %d without", more, n, plain)
		}
	}
	for _, wrong := range [][]string{{"--repeat-penalty", "0"}, {"--repeat-penalty", "NaN"}, {"--repeat-penalty", "1e-40"}, {"--presence-penalty", "101"}, {"--frequency-penalty", "-101"}, {"--repeat-last-n", "0"}} {
		fails(t, exitUsage, append(slices.Clone(args), wrong...), wrong[0])
	}
}

// A prompt longer than all that may be under way waits for the others, and those
// behind it for it.
func TestRunTakesLongPrompts(t *testing.T) {
	long := `{"text":"` + strings.Repeat("some words ", maxAhead/11+1) + `"}` + "\n"
	file := write(t, "prompts.jsonl", `{"text":"a"}`+"\n"+long+`{"text":"b"}`+"\n"+long+`{"text":"c"}`+"\n")
	r := run(t, "run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", "3", "--temp", "0", "-f", file, "--format", "jsonl")
	rows := lines[struct {
		Text  *string
		Error string
	}](t, r.out)
	if r.status != exitFailed || len(rows) != 5 {
		t.Fatalf("status %d, %d rows: %.200s", r.status, len(rows), r.err)
	}
	for i, row := range rows {
		if (row.Error != "") != (i%2 == 1) {
			t.Errorf("row %d: error %.80q", i, row.Error)
		}
	}
}
