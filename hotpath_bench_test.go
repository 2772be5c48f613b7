package hotpath

import (
	"context"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// BenchmarkEmbed embeds batches of equal texts with the real encoder.
func BenchmarkEmbed(b *testing.B) {
	path := testmodels.Real(b, "all-MiniLM-L6-v2")
	for _, c := range []struct {
		name          string
		texts, tokens int
	}{{"1x16", 1, 16}, {"8x64", 8, 64}, {"32x128", 32, 128}, {"4x256", 4, 256}} {
		for _, mode := range []string{"fine", "coarse"} {
			b.Run(c.name+"/parallel="+mode, func(b *testing.B) {
				m := open(b, path, Options{Parallel: mode, BatchTokens: 1024})
				texts := make([]string, c.texts)
				for i := range texts {
					texts[i] = strings.Repeat("rain ", c.tokens-2)
				}
				dst := make([]float32, len(texts)*m.Dim())
				usage := EmbedUsage{}
				run := func() {
					if err := m.EmbedInto(context.Background(), dst, texts, EmbedOptions{Usage: &usage}); err != nil {
						b.Fatal(err)
					}
				}
				run()
				tokens := 0
				for _, n := range usage.Tokens {
					tokens += n
				}
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
				b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	}
}

// BenchmarkGenerate decodes with the real generator.
func BenchmarkGenerate(b *testing.B) {
	m := open(b, testmodels.Real(b, "SmolLM2-135M-Instruct.Q4_1.gguf"), Options{Ctx: 1024})
	var prefill, decode float64
	for b.Loop() {
		c, err := m.Complete(context.Background(), strings.Repeat("The rain fell on the harbour. ", 20), GenerateOptions{MaxTokens: 32, Raw: true, IgnoreEOS: true, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		if c.CachedTokens == 0 {
			prefill = c.PrefillRate()
		}
		decode += c.DecodeRate()
	}
	b.ReportMetric(prefill, "prefill-tok/s")
	b.ReportMetric(decode/float64(b.N), "decode-tok/s")
}
