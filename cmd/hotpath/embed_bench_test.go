//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hotpath"
	"hotpath/internal/testmodels"
)

// textsToEmbed is how many texts BenchmarkEmbedTexts embeds, unless this says
// otherwise.
const (
	textsToEmbed = 20_000
	textsEnv     = "HOTPATH_EMBED_TEXTS"
)

// BenchmarkEmbedTexts embeds short texts with the command, model opened and
// result written, and the same texts with the library alone in turn:
// "of-library" is what the command keeps of the model's own speed, and
// "of-library-cpu" the same in time of processors, which a busy machine disturbs
// less. The texts
// are the lines of one file, the lines of a folder's files, or a folder's files
// of one text each. 100,000 of them:
//
//	HOTPATH_EMBED_TEXTS=100000 go test -run '^$' -bench EmbedTexts -benchtime 3x ./cmd/hotpath
func BenchmarkEmbedTexts(b *testing.B) {
	path := testmodels.Real(b, "all-MiniLM-L6-v2")
	n := textsToEmbed
	if s := os.Getenv(textsEnv); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			b.Fatalf("%s=%s, expected a number of texts", textsEnv, s)
		}
	}
	m, err := hotpath.Open(path, hotpath.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	texts := shortTexts(n)
	dir := b.TempDir()
	forms := []struct {
		name string
		flag []string
		make func(at string) error
	}{
		{"file", nil, func(at string) error { return writeTexts(at, texts) }},
		{"folder-of-lines", []string{"--input", "lines"}, func(at string) error {
			return inFolder(at, 100, func(i int, file string) error { return writeTexts(file, texts[n*i/100:n*(i+1)/100]) })
		}},
		{"folder-of-texts", nil, func(at string) error {
			return inFolder(at, n, func(i int, file string) error { return writeTexts(file, texts[i:i+1]) })
		}},
	}
	for _, form := range forms {
		in := filepath.Join(dir, form.name)
		if err := form.make(in); err != nil {
			b.Fatal(err)
		}
		for _, format := range []string{"npy", "jsonl"} {
			b.Run(form.name+"/"+format, func(b *testing.B) {
				args := append([]string{"embed", "-m", path, "-f", in, "-o", filepath.Join(dir, "out"), "--format", format}, form.flag...)
				compareEmbed(b, m, texts, args)
			})
		}
	}
}

// compareEmbed lets the library and the command take turns, the one that begins
// alternating.
func compareEmbed(b *testing.B, m *hotpath.Model, texts, args []string) {
	const batch = 256
	dst := make([]float32, batch*m.Dim())
	usage := hotpath.EmbedUsage{}
	tokens := 0
	turns := [2]func(){func() {
		for from := 0; from < len(texts); from += batch {
			if err := m.EmbedInto(context.Background(), dst, texts[from:min(from+batch, len(texts))], hotpath.EmbedOptions{Usage: &usage}); err != nil {
				b.Fatal(err)
			}
			for _, n := range usage.Tokens {
				tokens += n
			}
		}
	}, func() {
		var errs bytes.Buffer
		if status := execute(context.Background(), args, streams{nil, &errs, &errs}); status != exitDone {
			b.Fatal(errs.String())
		}
	}}
	var took, work [2]time.Duration
	for i := 0; b.Loop(); i++ {
		for k := range turns {
			start, used := time.Now(), processorTime(b)
			turns[(i+k)%2]()
			took[(i+k)%2] += time.Since(start)
			work[(i+k)%2] += processorTime(b) - used
		}
	}
	b.ReportMetric(float64(tokens)/took[1].Seconds(), "tok/s")
	b.ReportMetric(float64(tokens)/took[0].Seconds(), "library-tok/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "of-library")
	b.ReportMetric(work[0].Seconds()/work[1].Seconds(), "of-library-cpu")
}

// processorTime is what the process has used of its processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// shortTexts are n texts of 5 to 40 tokens.
func shortTexts(n int) []string {
	words := strings.Fields(`a man is playing the guitar while rain falls on boats in the harbour and nobody listens to him,
		so he takes his hat, leaves some of the coins for those who sweep the stones and walks home along the river`)
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%d %s", i, strings.Join(words[:2+i*7%34], " "))
	}
	return texts
}

func writeTexts(file string, texts []string) error {
	return os.WriteFile(file, []byte(strings.Join(texts, "\n")+"\n"), 0o600)
}

// inFolder makes n files, a thousand to a folder.
func inFolder(dir string, n int, build func(i int, file string) error) error {
	for i := range n {
		folder := filepath.Join(dir, fmt.Sprintf("%03d", i/1000))
		if i%1000 == 0 {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return err
			}
		}
		if err := build(i, filepath.Join(folder, fmt.Sprintf("%06d.txt", i))); err != nil {
			return err
		}
	}
	return nil
}
