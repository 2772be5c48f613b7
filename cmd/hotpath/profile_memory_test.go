package main

import (
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// The buffers of a real plan are what its arenas hold, and runs allocate
// nothing.
func TestProfileMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	ok(t, "embed", "-m", testmodels.Dir(t, "bert"), "a text", "another text", "--profile="+file, "--profile-mem")
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		ran++
		if s.Heap == nil || s.Heap.Objects/s.Ledger.Runs > 50 { // the process is never quite still
			t.Errorf("plan %s allocated %+v in %d runs", s.ID, s.Heap, s.Ledger.Runs)
		}
		for k, st := range s.Stats {
			if st.Heap == nil || st.Heap.Objects/s.Ledger.Runs > 20 {
				t.Errorf("plan %s, step %s allocated %+v in %d runs", s.ID, s.Steps[k].Name, st.Heap, s.Ledger.Runs)
			}
		}
		live := map[string][]int64{}
		weights := int64(0)
		for _, b := range s.Buffers {
			if live[b.Class] == nil {
				live[b.Class] = make([]int64, len(s.Steps))
			}
			for k := b.First; k <= b.Last; k++ {
				live[b.Class][k] += b.Bytes
			}
			if b.Class == "weights" {
				weights += b.Bytes
			}
		}
		for class, steps := range live {
			if class == "weights" {
				continue
			}
			var peak int64
			for _, b := range steps {
				peak = max(peak, b)
			}
			if arena := s.MemoryBytes[class]; peak > arena || peak < arena/2 {
				t.Errorf("plan %s: buffers of %d bytes in an arena of %d for %s", s.ID, peak, arena, class)
			}
		}
		if got := p.Memory["weights"]; weights != got {
			t.Errorf("plan %s: weights of %d bytes, the process holds %d", s.ID, weights, got)
		}
	}
	if ran == 0 {
		t.Error("no plan ran")
	}
	if len(p.Scopes) == 0 || p.Scopes[0].Heap == nil || len(p.Counters) == 0 {
		t.Errorf("scopes %+v and counters %+v", p.Scopes, p.Counters)
	}
	if out := ok(t, "profile", "show", file, "--by", "heap"); !strings.Contains(out, "by heap") {
		t.Errorf("no steps by heap:\n%s", out)
	}
	without := filepath.Join(t.TempDir(), "without.json")
	ok(t, "embed", "-m", testmodels.Dir(t, "bert"), "a text", "--profile="+without)
	fails(t, exitFailed, []string{"profile", "show", without, "--by", "heap"}, without, "--profile-mem")
	fails(t, exitUsage, []string{"embed", "-m", testmodels.Dir(t, "bert"), "a text", "--profile-mem"}, "--profile")
}

// A generation is a request of the profile, with its first token and what it
// took of the runs.
func TestProfileRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	ok(t, "run", "-m", testmodels.Dir(t, "llama"), "-p", "some words", "--raw", "-n", "5", "--ignore-eos", "--profile="+file)
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	q := p.Requests
	if q == nil || q.Duration.Count != 1 || q.FirstToken.Count != 1 || q.PerToken.Count != 1 || q.OutputTokens != 5 || q.PromptTokens < 2 {
		t.Fatalf("requests %+v", q)
	}
	var runs, flops int64
	for i := range p.Plans {
		runs += p.Plans[i].Ledger.Runs
		for k := range p.Plans[i].Stats {
			flops += p.Plans[i].Stats[k].FLOPs
		}
	}
	if len(q.Parts) != 1 || q.Parts[0].Runs != runs || q.Parts[0].Request != q.Kept[0].ID || int64(q.Parts[0].FLOPs+0.5) != flops {
		t.Errorf("parts %+v of %d runs with %d FLOPs", q.Parts, runs, flops)
	}
}
