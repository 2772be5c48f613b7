//go:build linux

package cpu_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// threadClock is the processor time of this thread in nanoseconds.
func threadClock(b *testing.B) time.Duration {
	runtime.LockOSThread()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkAttentionOne is one query over a long cache on one worker, in several
// layers whose caches are beyond L2. It reports bytes of keys and values per second
// of processor time, of the fastest run, beside what a plain read of as many bytes
// reaches.
func BenchmarkAttentionOne(b *testing.B) {
	const layers, keys = 10, 4096
	for _, c := range []struct {
		name string
		attr graph.AttentionAttr
	}{
		{"smollm2", graph.AttentionAttr{Heads: 9, KVHeads: 3, HeadDim: 64, Causal: true}},
		{"llama1b", graph.AttentionAttr{Heads: 32, KVHeads: 8, HeadDim: 64, Causal: true}},
		{"qwen3", graph.AttentionAttr{Heads: 16, KVHeads: 8, HeadDim: 128, Causal: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			be, err := cpu.New(cpu.Options{Workers: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer be.Close()
			one := tensor.Bind{T: 1, S: 1, R: 1}
			gb := graph.NewBuilder(one)
			narrow := c.attr.KVHeads * c.attr.HeadDim
			q := gb.Input("q", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), c.attr.Heads*c.attr.HeadDim))
			starts := gb.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
			lens := gb.Input("lens", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1)))
			table := gb.Input("table", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1), keys/graph.KVBlock))
			var outs, states []*graph.Value
			for i := range layers {
				shape := tensor.Static(keys, narrow)
				k, v := gb.State(fmt.Sprintf("k%d", i), graph.RoleKV, tensor.F16, shape), gb.State(fmt.Sprintf("v%d", i), graph.RoleKV, tensor.F16, shape)
				states = append(states, k, v)
				outs = append(outs, gb.AttentionKV(fmt.Sprint(i), q, k, v, starts, lens, table, graph.AttentionKVAttr{AttentionAttr: c.attr}))
			}
			g, err := gb.Freeze(outs...)
			if err != nil {
				b.Fatal(err)
			}
			p, err := plan.Compile("attention", g, be, []tensor.Bind{one}, plan.CompileOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, noWeights{}), plan.BindOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			row := make([]float32, keys*narrow/2) // pairs of half floats
			for i := range row {
				lo, hi := tensor.F32ToF16(float32(i%17)/17-0.5), tensor.F32ToF16(float32(i%13)/13-0.5)
				row[i] = math.Float32frombits(uint32(hi)<<16 | uint32(lo))
			}
			for _, v := range states {
				if err := s.WriteState(v, row); err != nil {
					b.Fatal(err)
				}
			}
			for i := range s.F32(q) {
				s.F32(q)[i] = float32(i%11)/11 - 0.5
			}
			s.I32(starts)[1], s.I32(lens)[0] = 1, keys
			for i := range s.I32(table) {
				s.I32(table)[i] = int32(i)
			}
			bytes := layers * keys * narrow * 2 * 2
			buf := make([]byte, bytes)
			for i := 0; i < bytes; i += 4096 {
				buf[i] = 1
			}
			least, most := time.Hour, 0.0
			for b.Loop() {
				start := threadClock(b)
				if err := s.Run(context.Background(), one); err != nil {
					b.Fatal(err)
				}
				if d := threadClock(b) - start; d > 0 {
					least = min(least, d)
				}
				most = max(most, ceiling.Read(context.Background(), buf, 1, time.Millisecond))
			}
			b.ReportMetric(float64(bytes)/least.Seconds()/1e9, "GB/s")
			b.ReportMetric(most/1e9, "read-GB/s")
		})
	}
}
