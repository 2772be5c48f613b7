//go:build linux

package cpu_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// modelPath finds a real model fetched by scripts/fetch_models.sh.
func modelPath(tb testing.TB, name string) string {
	p := filepath.Join(cmp.Or(os.Getenv("HOTPATH_MODELS"), filepath.Join("..", "..", "..", ".cache", "models")), name)
	if _, err := os.Stat(p); err != nil {
		tb.Skipf("%s is not fetched: run scripts/fetch_models.sh", name)
	}
	return p
}

// BenchmarkMiniLM embeds whole batches of the real model.
func BenchmarkMiniLM(b *testing.B) {
	m := cpu.OpenModel(b, modelPath(b, "all-MiniLM-L6-v2"))
	for _, shape := range [][2]int{{1, 16}, {8, 64}, {32, 128}, {4, 256}} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("batch=%d/seq=%d/workers=%d", shape[0], shape[1], workers), func(b *testing.B) {
				embed(b, m, shape[0], shape[1], workers)
			})
		}
	}
}

// session binds the real model for one batch shape and fills its inputs.
func session(b *testing.B, m *model.Model, seqs, length, workers int) (s *plan.Session, bind tensor.Bind, starts []int32, done func()) {
	bind = tensor.Bind{T: seqs * length, S: seqs, R: 1}
	g, ports, err := m.BuildEmbed(bind, model.EmbedOptions{Normalize: true})
	if err != nil {
		b.Fatal(err)
	}
	s, done = bound(b, m, g, workers)
	tokens, pos, starts := s.I32(ports.Tokens), s.I32(ports.Pos), s.I32(ports.QStart)
	for i := range bind.T {
		tokens[i], pos[i] = int32(1000+i*37%20000), int32(i%length)
	}
	for i := range seqs + 1 {
		starts[i] = int32(i * length)
	}
	return s, bind, starts, done
}

// bound compiles a graph of the model for its largest size alone.
func bound(b *testing.B, m *model.Model, g *graph.Graph, workers int) (s *plan.Session, done func()) {
	be, err := cpu.New(cpu.Options{Workers: workers})
	if err != nil {
		b.Fatal(err)
	}
	p, err := plan.Compile("program", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, err = plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return s, func() {
		s.Close()
		be.Close()
	}
}

func embed(b *testing.B, m *model.Model, seqs, length, workers int) {
	s, bind, _, done := session(b, m, seqs, length, workers)
	defer done()
	b.ReportAllocs()
	start := threadTime(b)
	for b.Loop() {
		if err := s.Run(context.Background(), bind); err != nil {
			b.Fatal(err)
		}
	}
	if workers == 1 {
		cpuTime := threadTime(b) - start
		b.ReportMetric(float64(bind.T)*float64(b.N)/cpuTime.Seconds(), "tok/cpu-s")
	}
	b.ReportMetric(float64(bind.T)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}
