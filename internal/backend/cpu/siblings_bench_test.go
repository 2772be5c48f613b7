//go:build linux

package cpu_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// apart is the CPU with every fusion but that of siblings.
type apart struct{ *cpu.Backend }

func (a apart) Patterns() []plan.Pattern {
	return slices.DeleteFunc(a.Backend.Patterns(), func(p plan.Pattern) bool { return p.Siblings != nil })
}

// BenchmarkSiblings runs real models with queries, keys and values as one step
// and as three, in turns, because machines are not equally fast for long. ns/op
// is the median of the first, % how much longer it takes than the second, by
// the median of the ratios of neighbours, and ±% the standard error of that.
func BenchmarkSiblings(b *testing.B) {
	for _, work := range []struct {
		name, model  string
		seqs, length int // length 0: one token after a text of 64
	}{
		{"MiniLM 1x16", "all-MiniLM-L6-v2", 1, 16},
		{"MiniLM 8x64", "all-MiniLM-L6-v2", 8, 64},
		{"SmolLM2 decode", "SmolLM2-135M-Instruct.Q4_1.gguf", 1, 0},
	} {
		st, err := weights.Open(modelPath(b, work.model))
		if err != nil {
			b.Fatal(err)
		}
		m, err := model.Open(st)
		if err != nil {
			b.Fatal(err)
		}
		for _, workers := range []int{1, 2} {
			b.Run(work.name+"/workers="+strconv.Itoa(workers), func(b *testing.B) {
				be, err := cpu.New(cpu.Options{Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				defer be.Close()
				bind := tensor.Bind{T: max(1, work.seqs*work.length), S: work.seqs, R: 1}
				ws := plan.NewWeightSet(be, m)
				var sessions [2]*plan.Session
				for i, be := range []plan.Backend{be, apart{be}} {
					sessions[i] = filled(b, m, be, ws, bind, work.length)
					defer sessions[i].Close()
				}
				var together, ratios []float64
				for b.Loop() {
					var took [2]float64
					for _, at := range []int{0, 1, 1, 0} {
						start := time.Now()
						if err := sessions[at].Run(context.Background(), bind); err != nil {
							b.Fatal(err)
						}
						took[at] += float64(time.Since(start)) / 2
					}
					together, ratios = append(together, took[0]), append(ratios, took[0]/took[1])
				}
				slices.Sort(together)
				slices.Sort(ratios)
				n := len(ratios)
				b.ReportMetric(together[n/2], "ns/op")
				b.ReportMetric(100*(ratios[n/2]-1), "%")
				b.ReportMetric(100*1.25*(ratios[n*21/25]-ratios[n*4/25])/2/math.Sqrt(float64(n)), "±%")
			})
		}
		st.Close()
	}
}

// filled binds a model for batches of a size, or, where length is 0, for one
// token after others, and fills its inputs.
func filled(b *testing.B, m *model.Model, be plan.Backend, ws *plan.WeightSet, bind tensor.Bind, length int) *plan.Session {
	const past = 64
	var g *graph.Graph
	var ports *model.Ports
	var err error
	if length > 0 {
		g, ports, err = m.BuildEmbed(bind, model.EmbedOptions{Normalize: true})
	} else {
		g, ports, err = m.BuildGenerate(bind, model.KVLayout{Blocks: 2, MaxBlocksPerSeq: 2, Type: tensor.F16})
	}
	if err != nil {
		b.Fatal(err)
	}
	p, err := plan.Compile("program", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, ws, plan.BindOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range bind.T {
		s.I32(ports.Tokens)[i] = int32(1000 + i*37%20000)
		if length > 0 {
			s.I32(ports.Pos)[i] = int32(i % length)
		}
	}
	for i := range bind.S + 1 {
		s.I32(ports.QStart)[i] = int32(i * max(1, length))
	}
	if length == 0 {
		s.I32(ports.Pos)[0], s.I32(ports.Slots)[0], s.I32(ports.KVLen)[0], s.I32(ports.Rows)[0] = past, past, past+1, 0
		copy(s.I32(ports.BlockTable), []int32{0, 1})
	}
	return s
}
