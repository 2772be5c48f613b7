package hotpath

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/builtin"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// The resident memory of the process has owners, all but 5 per cent of it, whatever the
// work; and the owners are those that the work has.
func TestResidentMemoryHasOwners(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs are those of the race detector, which needs memory of its own")
	}
	texts := make([]string, 16)
	for i := range texts {
		texts[i] = strings.Repeat("a stitch in time saves nine ", 1+i)
	}
	embed := func(t *testing.T, m *Model) {
		if _, err := m.Embed(t.Context(), texts, EmbedOptions{}); err != nil {
			t.Error(err)
		}
	}
	opened := func(name string, o Options, work func(*testing.T, *Model)) func(*testing.T, *profile.Recorder) {
		return func(t *testing.T, rec *profile.Recorder) {
			o := o // the table must not keep the recorder
			o.Profile = rec
			m, err := Open(testmodels.RealOrInside(t, name), o)
			if err != nil {
				t.Fatal(err)
			}
			work(t, m)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const encoder, decoder = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct.Q4_1.gguf"
	for _, c := range []struct {
		name   string
		work   func(*testing.T, *profile.Recorder)
		owners []string
	}{
		{"embed", opened(encoder, Options{Parallel: "fine"}, embed), []string{"weights, packed", "embed activations", "embed io", "embed worker scratch"}},
		{"decode from the file's rows", opened(decoder, Options{InPlace: true}, func(t *testing.T, m *Model) { generate(t, m, "once") }),
			[]string{"weights, mapped file ", "generate KV cache"}},
		{"decode", opened(decoder, Options{}, func(t *testing.T, m *Model) { generate(t, m, "once") }),
			[]string{"weights, packed", "generate KV cache", "generate activations", "generate worker scratch"}},
		{"many callers", opened(decoder, Options{}, func(t *testing.T, m *Model) {
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { generate(t, m, fmt.Sprintf("caller %d", i)) })
			}
			all.Wait()
		}), []string{"weights, packed", "generate KV cache", "generate activations", "generate worker scratch"}},
		{"many callers, coarse", opened(encoder, Options{Parallel: "coarse", Threads: 4}, func(t *testing.T, m *Model) {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { embed(t, m) })
			}
			all.Wait()
		}), []string{"weights, packed", "embed.coarse activations", "embed.coarse worker scratch"}},
		{"train", func(t *testing.T, rec *profile.Recorder) {
			cfg := DefaultTrainConfig()
			cfg.Model, cfg.Data, cfg.Out = builtin.Generator, []string{testmodels.Dir(t, "shakespeare.txt")}, filepath.Join(t.TempDir(), "out")
			cfg.Steps, cfg.BatchTokens, cfg.SeqLen = 2, 512, 64
			if _, err := Train(t.Context(), cfg, TrainOptions{Profile: rec}); err != nil {
				t.Fatal(err)
			}
		}, []string{"train weights", "train moments", "train activations", "train worker scratch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.FreeOSMemory() // what tests before this one left
			// The recorder looks, then collects; the runtime would give pages back before
			// the test looks, too. Without a goal it keeps them.
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			before := residentNow(t)
			var rss int64 // when the recorder looked
			rec := profile.NewRecorder(profile.Options{AtPeak: func(*profile.Residency) { rss = residentNow(t) }})
			c.work(t, rec)
			p := rec.Snapshot()
			if p.Resident == nil || rss == 0 {
				t.Skip("the system does not say what is resident")
			}
			var known, rest int64
			var names strings.Builder
			for _, o := range p.Resident.Owners {
				fmt.Fprintf(&names, "%s: %.1f MB\n", o.Owner, float64(o.Bytes)/1e6)
				if o.Owner != "(not known)" {
					known += o.Bytes
				}
				if o.Owner == "go heap, the rest" {
					rest = o.Bytes
				}
			}
			t.Logf("%.1f MB resident, %.1f before\n%s", float64(rss)/1e6, float64(before)/1e6, &names)
			if known < rss-rss/20 || known > rss+rss/20 {
				t.Errorf("owners have %d bytes, %d are resident", known, rss)
			}
			if rest > rss/20 {
				t.Errorf("the rest of the Go heap is %d of %d bytes, expected at most 5 per cent", rest, rss)
			}
			for _, o := range c.owners {
				if !strings.Contains(names.String(), o) {
					t.Errorf("no owner %q", o)
				}
			}
		})
	}
}

func generate(t *testing.T, m *Model, prompt string) {
	for _, err := range m.Generate(context.Background(), prompt, GenerateOptions{MaxTokens: 8}) {
		if err != nil {
			t.Error(err)
		}
	}
}

// residentNow is what the system counts for the process.
func residentNow(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64)
	if err != nil {
		t.Error(err)
	}
	return pages * int64(os.Getpagesize())
}
