package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hotpath"
	"hotpath/internal/testmodels"
)

// BenchmarkEmbedFile embeds a file of short texts with the command, model
// opened and file written, and the same texts with the library alone in turn:
// "of-library" is what the command keeps of the model's own speed. 100,000
// texts: -bench EmbedFile -benchtime 5x.
func BenchmarkEmbedFile(b *testing.B) {
	path := testmodels.Real(b, "all-MiniLM-L6-v2")
	words := strings.Fields("a man is playing the guitar while rain falls on boats in the harbour and nobody listens to him")
	texts := make([]string, 20000)
	for i := range texts {
		texts[i] = fmt.Sprintf("%d %s", i, strings.Join(words[:4+i%14], " "))
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "texts.txt")
	if err := os.WriteFile(file, []byte(strings.Join(texts, "\n")+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	m, err := hotpath.Open(path, hotpath.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	const batch = 256
	dst := make([]float32, batch*m.Dim())
	usage := hotpath.EmbedUsage{}
	for _, format := range []string{"bin", "jsonl"} {
		b.Run(format, func(b *testing.B) {
			var command, library time.Duration
			tokens := 0
			for b.Loop() {
				start := time.Now()
				for from := 0; from < len(texts); from += batch {
					if err := m.EmbedInto(context.Background(), dst, texts[from:min(from+batch, len(texts))], hotpath.EmbedOptions{Usage: &usage}); err != nil {
						b.Fatal(err)
					}
					for _, n := range usage.Tokens {
						tokens += n
					}
				}
				library += time.Since(start)
				start = time.Now()
				var errs bytes.Buffer
				args := []string{"embed", "-m", path, "-f", file, "-o", filepath.Join(dir, "out"), "--format", format}
				if status := execute(context.Background(), args, streams{nil, &errs, &errs}); status != exitDone {
					b.Fatal(errs.String())
				}
				command += time.Since(start)
			}
			b.ReportMetric(float64(tokens)/command.Seconds(), "tok/s")
			b.ReportMetric(library.Seconds()/command.Seconds(), "of-library")
		})
	}
}
