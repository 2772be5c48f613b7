//go:build linux

package cpu_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

type noWeights struct{}

func (noWeights) Weight(key string) (weights.Tensor, error) {
	return weights.Tensor{}, fmt.Errorf("no weight %s", key)
}
func (noWeights) Drop(weights.Tensor) {}

// threadTime is the processor time of this thread, to which the goroutine is
// locked: on a shared machine it says more than the clock.
func threadTime(b *testing.B) time.Duration {
	runtime.LockOSThread()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAttention runs the op alone at the models' shapes, on one worker.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		name         string
		seqs, length int
		attr         graph.AttentionAttr
	}{
		{"minilm", 32, 128, graph.AttentionAttr{Heads: 12, KVHeads: 12, HeadDim: 32}},
		{"minilm-short", 64, 12, graph.AttentionAttr{Heads: 12, KVHeads: 12, HeadDim: 32}},
		{"gemma", 1, 512, graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 256, Window: 257}},
		{"smollm2", 1, 512, graph.AttentionAttr{Heads: 9, KVHeads: 3, HeadDim: 64, Causal: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			be, err := cpu.New(cpu.Options{Workers: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer be.Close()
			bind := tensor.Bind{T: c.seqs * c.length, S: c.seqs, R: 1}
			gb := graph.NewBuilder(bind)
			dim := tensor.Of(tensor.T, 1)
			q := gb.Input("q", tensor.F32, tensor.Rows(dim, c.attr.Heads*c.attr.HeadDim))
			k := gb.Input("k", tensor.F32, tensor.Rows(dim, c.attr.KVHeads*c.attr.HeadDim))
			v := gb.Input("v", tensor.F32, tensor.Rows(dim, c.attr.KVHeads*c.attr.HeadDim))
			starts := gb.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
			out, _ := gb.Attention("attention", q, k, v, starts, c.attr)
			g, err := gb.Freeze(out)
			if err != nil {
				b.Fatal(err)
			}
			p, err := plan.Compile("attention", g, be, []tensor.Bind{bind}, plan.CompileOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, noWeights{}), plan.BindOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for _, x := range []*graph.Value{q, k, v} {
				f := s.F32(x)
				for i := range f {
					f[i] = float32(i%17)/17 - 0.5
				}
			}
			pairs := int64(0)
			for i := range c.seqs + 1 {
				s.I32(starts)[i] = int32(i * c.length)
			}
			pairs = int64(c.seqs) * c.attr.Pairs(c.length, c.length)
			start := threadTime(b)
			for b.Loop() {
				if err := s.Run(context.Background(), bind); err != nil {
					b.Fatal(err)
				}
			}
			cpuTime := threadTime(b) - start
			flops := 4 * float64(c.attr.Heads*c.attr.HeadDim) * float64(pairs)
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(cpuTime.Seconds()*1e6/float64(b.N)/float64(bind.T), "cpu-us/token")
		})
	}
}
