package bench

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/testmodels"
)

// BenchmarkCases is the table of kernels and ops under go test, with the figures
// that hotpath bench has. The number that go test puts at the end of a name is
// GOMAXPROCS, so the workers are a part of the name before it:
//
//	go test -tags nogpu -run '^$' -bench 'Cases/Rope/pairs=split/heads=9' -benchtime 20ms ./internal/bench
func BenchmarkCases(b *testing.B) { goCases(b, "") }

// BenchmarkEmbedder and BenchmarkGenerator are the table's models: the real ones.
func BenchmarkEmbedder(b *testing.B) { goCases(b, testmodels.Real(b, "all-MiniLM-L6-v2")) }

func BenchmarkGenerator(b *testing.B) {
	goCases(b, testmodels.Real(b, "SmolLM2-135M-Instruct.Q4_1.gguf"))
}

// goCases runs the groups that need a model, where there is one, or all others.
// Each call is a round with ceilings of its own: -count repeats it.
func goCases(b *testing.B, model string) {
	e, err := NewEnv(Options{Model: model, Time: 20 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	}()
	var cases []*Case
	for _, g := range Groups {
		if (g.Model != "") == (model != "") {
			cases = append(cases, g.Cases(e)...)
		}
	}
	roof := ceiling.NewRoof(b.Context())
	for _, c := range cases {
		b.Run(fmt.Sprintf("%s/threads=%d", c.Name, c.Threads), func(b *testing.B) {
			if err := goCase(b, c, roof); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// goCase measures b.N operations of a case.
func goCase(b *testing.B, c *Case, roof *ceiling.Roof) (err error) {
	w, err := c.Open(b.Context())
	if err != nil {
		return err
	}
	if w.Close != nil {
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	if w.Rates != nil { // measures by itself for as long as it needs
		values, err := w.Rates()
		b.ReportMetric(0, "ns/op") // go test's own clock says nothing here
		for _, v := range values {
			b.ReportMetric(v.Value, v.Unit)
		}
		return err
	}
	if c.cost == nil {
		if c.cost, err = w.Cost(); err != nil {
			return err
		}
	}
	if _, err := w.Run(1); err != nil { // caches, tables, lazily made programs
		return err
	}
	b.ReportAllocs()
	b.ResetTimer()
	elapsed, err := w.Run(b.N)
	b.StopTimer()
	if err != nil {
		return err
	}
	for _, v := range (measurement{n: b.N, elapsed: elapsed}).values(c, w, roof) {
		if v.Unit != "B/op" && v.Unit != "allocs/op" { // which b counts
			b.ReportMetric(v.Value, v.Unit)
		}
	}
	return nil
}

// Under go test, too, each case has its rate, its bytes, its allocations and its
// part of the ceiling.
func TestGoBenchmarks(t *testing.T) {
	set := flag.Lookup("test.benchtime").Value
	before := set.String()
	if err := set.Set("1x"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Set(before); err != nil {
			t.Error(err)
		}
	}()
	for group, c := range map[string]struct{ model, filter string }{
		"Matmul":       {"", `class=f32/type=Q8_0/kernel=rows/m=1/n=384/k=384-1$`},
		"Linear":       {"", `type=F32/.*/m=16/n=384/k=384-1$`},
		"Rope":         {"", `split/heads=3/.*len=16-2$`},
		"Attention":    {"", `mask=causal/heads=9/.*batch=1/len=16-1$`},
		"Norm":         {"", `qk/steps=combined/.*rows=16-1$`},
		"Activation":   {"", `kind=exp/size=64-1$`},
		"Pool":         {"", `mean/batch=1/len=16/.*-1$`},
		"CrossEntropy": {"", `vocab=4096/rows=1-1$`},
		"Ceiling":      {"", `class=f32-1$`},
		"Embed":        {"bert", `batch=1/.*-1$`},
		"Prefill":      {"llama", `len=16-1$`},
		"Decode":       {"llama", `batch=4/.*-2$`},
	} {
		o := Options{Threads: 2, Time: time.Microsecond}
		if c.model != "" {
			o.Model = testmodels.Dir(t, c.model)
		}
		e, err := NewEnv(o)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := e.Select(nil, regexp.MustCompile("^"+group+"/.*"+c.filter))
		if err != nil || len(cases) != 1 {
			t.Fatalf("%s: %d cases, %v", group, len(cases), err)
		}
		roof := ceiling.NewRoof(t.Context())
		var failed error
		res := testing.Benchmark(func(b *testing.B) { failed = errors.Join(failed, goCase(b, cases[0], roof)) })
		if failed != nil {
			t.Fatalf("%s: %v", group, failed)
		}
		s := Sample{Name: cases[0].FullName(), Iters: res.N}
		for unit, v := range res.Extra {
			if unit == "ns/op" && v == 0 {
				continue // go test prints none
			}
			s.Values = append(s.Values, Value{v, unit})
		}
		if !strings.HasPrefix(group, "Ceiling") {
			s.Values = append(s.Values, Value{float64(res.AllocedBytesPerOp()), "B/op"}, Value{float64(res.AllocsPerOp()), "allocs/op"})
		}
		checkFigures(t, s)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
