package cpu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// page is what the processor notes accesses of.
const page = 4096

// pageArena is an arena in small pages, which are told apart.
type pageArena struct{ arena }

// paged is the CPU with arenas whose touched pages can be counted.
type paged struct {
	watched
	arenas []*pageArena
	others []byte // more pages than the system lets a processor forget one by one
}

// smallPages maps memory in pages of 4 KiB, all of them there.
func smallPages(bytes int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		return nil, err
	}
	for i := 0; i < len(mem); i += page {
		mem[i] = 0
	}
	return mem, nil
}

func (b *paged) Arena(_ plan.Class, bytes int64) (plan.Arena, error) {
	a := &pageArena{}
	if bytes > 0 {
		mem, err := smallPages(int(bytes))
		if err != nil {
			return nil, err
		}
		a.mem, a.free = mem, func() error { return unix.Munmap(mem) }
	}
	b.arenas = append(b.arenas, a)
	return a, nil
}

// Whole leaves pages small: they are what is counted.
func (*pageArena) Whole() {}

// forget clears what the processor noted. It notes a page when it looks it up, so it must
// look all of them up again: the system lets it forget all pages of the process when the
// rights to many change.
func (b *paged) forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("1"), 0); err != nil {
		t.Skipf("this system does not tell touched pages: %v", err)
	}
	for _, rights := range []int{unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE} {
		if err := unix.Mprotect(b.others, rights); err != nil {
			t.Fatal(err)
		}
	}
}

// touched is the bytes of the arenas' pages that were read or written since
// forget.
func (b *paged) touched(t *testing.T) int64 {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("this system does not tell touched pages: %v", err)
	}
	defer f.Close()
	ours := false
	var sum int64
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			ours = false
			for _, a := range b.arenas {
				if at := uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))); len(a.mem) > 0 && at >= lo && at < hi {
					ours = true
				}
			}
		}
		var kb int64
		if n, _ := fmt.Sscanf(s.Text(), "Referenced: %d kB", &kb); ours && n == 1 {
			sum += kb * 1024
		}
	}
	return sum
}

// TestBytesAreTouched: the bytes that a profile reports for a step are those that
// its kernel touches, by what the processor notes of pages: of activations, state,
// inputs and outputs. Weights, which lie elsewhere, are taken off.
func TestBytesAreTouched(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("tests of other processors run under an emulator, whose own pages the system would tell")
	}
	actual := func(name string) func(testing.TB) string {
		return func(tb testing.TB) string {
			p := filepath.Join("..", "..", "..", ".cache", "models", name)
			if _, err := os.Stat(p); err != nil {
				tb.Skipf("%s is not fetched: run scripts/fetch_models.sh", name)
			}
			return p
		}
	}
	fixture := func(name string) func(testing.TB) string {
		return func(tb testing.TB) string { return testmodels.Dir(tb, name) }
	}
	generate := func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildGenerate(most, model.KVLayout{Blocks: 16, MaxBlocksPerSeq: 16, Type: tensor.F16})
	}
	train := func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		g, p, _, err := m.BuildTrain(most, model.TrainOptions{})
		return g, p, err
	}
	for _, c := range []struct {
		name      string
		path      func(testing.TB) string
		precision Precision
		most      tensor.Bind
		run       tensor.Bind
		build     func(*model.Model, tensor.Bind) (*graph.Graph, *model.Ports, error)
	}{
		{"MiniLM", actual("all-MiniLM-L6-v2"), Auto, tensor.Bind{T: 1024, S: 8, R: 1}, tensor.Bind{T: 1024, S: 8, R: 1}, func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
			return m.BuildEmbed(most, model.EmbedOptions{Normalize: true})
		}},
		{"SmolLM2 prefill", actual("SmolLM2-135M-Instruct.Q4_1.gguf"), Auto, tensor.Bind{T: 512, S: 4, R: 4}, tensor.Bind{T: 512, S: 1, R: 1}, generate},
		{"SmolLM2 few rows", actual("SmolLM2-135M-Instruct.Q4_1.gguf"), Auto, tensor.Bind{T: 512, S: 4, R: 4}, tensor.Bind{T: 16, S: 4, R: 4}, generate},
		{"training in f32", fixture("llama"), F32, tensor.Bind{T: 512, S: 4, R: 512}, tensor.Bind{T: 512, S: 4, R: 512}, train},
		{"training in bf16", fixture("llama"), BF16, tensor.Bind{T: 512, S: 4, R: 512}, tensor.Bind{T: 512, S: 4, R: 512}, train},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := OpenModel(t, c.path(t))
			g, ports, err := c.build(m, c.most)
			if err != nil {
				t.Fatal(err)
			}
			be := openPaged(t, c.precision)
			p, err := plan.Compile("bytes", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			fill(s, ports, c.run)
			rec := profile.NewRecorder(profile.Options{})
			if err := s.Attach(rec, plan.ProfileLabels{Model: c.name}); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(context.Background(), c.run); err != nil {
				t.Fatal(err)
			}
			checkTouched(t, be, be.runs(c.run), c.run, rec.Snapshot().Runs[0].Bytes, func(*plan.Step) (less, more int64) { return 0, 0 })
		})
	}
}

// openPaged opens a CPU with one worker.
func openPaged(t *testing.T, p Precision) *paged {
	t.Helper()
	inner, err := New(Options{Workers: 1, Precision: p})
	if err != nil {
		t.Fatal(err)
	}
	be := &paged{watched: watched{Backend: inner}}
	if be.others, err = smallPages(1 << 20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Munmap(be.others), inner.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Madvise(be.others, unix.MADV_DONTDUMP); err != nil { // a mapping apart from the arenas
		t.Fatal(err)
	}
	return be
}

// runs is what runs so many rows.
func (b *paged) runs(bind tensor.Bind) *exec {
	for _, e := range b.execs {
		if bind.Fits(e.plan.Max) {
			return e
		}
	}
	return nil
}

// checkTouched runs the steps of e one by one and holds what each touches
// against what was reported. A system that looks for idle pages clears notes too, so
// a step has touched too little where all steps like it have, in all layers. allow is
// how much less or more than reported a step may touch, beside the ends of buffers.
func checkTouched(t *testing.T, be *paged, e *exec, b tensor.Bind, reported []int64, allow func(*plan.Step) (less, more int64)) {
	t.Helper()
	type alike struct {
		kernel      string
		want, slack int64
	}
	most := map[alike]int64{}
	var sumTouched, sumReported int64
	for i := range e.plan.Steps {
		step := &e.plan.Steps[i]
		want, operands := reported[i], len(step.In)+len(step.Out)
		read := map[*graph.Value]bool{}
		for _, n := range step.Nodes {
			for k, v := range n.In {
				if v == nil || v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.WeightLeaf || read[v] {
					continue
				}
				read[v] = true
				if n.Op == graph.OpEmbed && k == 0 {
					want -= int64(b.T) * int64(v.DType.RowBytes(v.Shape.RowLen()))
				} else {
					want -= e.mem.Weights[v.ID].Bytes()
				}
			}
		}
		want -= overwritten(e.plan, step, b)
		// A buffer begins and ends in the middle of a page, and each form is one.
		less, more := allow(step)
		slack := int64(2*operands+4)*page + less
		var got int64
		for try := 0; try < 25 && (try == 0 || got < want-slack); try++ {
			be.forget(t)
			e.workers[0].epoch++ // or what a kernel made of its operands is still there
			e.bound[i].runShare(&e.workers[0], b, 0, 1)
			got = max(got, be.touched(t))
		}
		sumTouched, sumReported = sumTouched+got, sumReported+want
		if got > want+slack-less+more {
			t.Errorf("step %d, %s (%s, %s): %d bytes were touched, %d are reported", i, step.Name, step.Kind, e.bound[i].name(), got, want)
		}
		like := alike{e.bound[i].name(), want, slack}
		most[like] = max(most[like], got)
	}
	for like, got := range most {
		if got < like.want-like.slack {
			t.Errorf("%s: at most %d bytes were touched, %d are reported", like.kernel, got, like.want)
		}
	}
	t.Logf("%.2f MB touched, %.2f MB reported", float64(sumTouched)/1e6, float64(sumReported)/1e6)
}

// overwritten is how many bytes a step writes where it read: they cross memory
// twice, and are touched once.
func overwritten(p *plan.Plan, s *plan.Step, b tensor.Bind) int64 {
	var sum int64
	if s.Root().Op == graph.OpKVWrite {
		return 0 // it reads nothing of a cache
	}
	for _, out := range s.Out {
		for _, in := range s.In {
			if p.Place(in) == p.Place(out) && p.Place(in).Class != plan.Weights {
				sum += int64(out.Shape.NumRows(b)) * int64(out.DType.RowBytes(out.Shape.RowLen()))
			}
		}
	}
	return sum
}

// fill puts a batch of equal texts into the inputs of a program.
func fill(s *plan.Session, p *model.Ports, b tensor.Bind) {
	rng := rand.New(rand.NewPCG(1, 2))
	starts := s.I32(p.QStart)
	for i := range b.S + 1 {
		starts[i] = int32(b.T * i / b.S)
	}
	for i := range b.T {
		s.I32(p.Tokens)[i], s.I32(p.Pos)[i] = int32(i%300), int32(i%(b.T/b.S)) // as many rows of a table as there are tokens, or nearly
	}
	for _, v := range []*graph.Value{p.Rows, p.Targets} {
		if v == nil {
			continue
		}
		for i := range b.R {
			s.I32(v)[i] = int32(i * (b.T / b.R))
		}
	}
	if p.Targets != nil {
		for i := range b.R {
			s.I32(p.Targets)[i] = int32(rng.IntN(100))
		}
	}
	if p.KVLen == nil {
		return
	}
	each := b.T / b.S
	width := p.BlockTable.Shape.RowLen()
	per := (each + 63) / 64
	for i := range b.S {
		s.I32(p.KVLen)[i] = int32(each)
		for k := range per {
			s.I32(p.BlockTable)[i*width+k] = int32(i*per + k)
		}
	}
	for i := range b.T {
		seq, at := i/each, i%each
		s.I32(p.Slots)[i] = int32((seq*per+at/64)*64 + at%64)
	}
}
