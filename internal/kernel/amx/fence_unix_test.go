//go:build unix

package amx

import (
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// fence is memory whose last byte is the last of a page before one that nobody
// may touch, and the other way round.
type fence struct {
	mem   []byte
	front bool // what it gives begins a page behind such a one
}

func newFence(t *testing.T, bytes int, front bool) *fence {
	size := unix.Getpagesize()
	pages := (bytes+size-1)/size*size + 2*size
	mem, err := unix.Mmap(-1, 0, pages, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	for _, end := range [][]byte{mem[:size], mem[pages-size:]} {
		if err := unix.Mprotect(end, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &fence{mem[size : pages-size], front}
}

func (f *fence) bytes(n int) []byte {
	if f.front {
		return f.mem[:n:n]
	}
	return f.mem[len(f.mem)-n:]
}

func (f *fence) floats(n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(f.bytes(4*n)))), n)
}

// TestNothingOutsideIsTouched: products with a file's rows, which end where the
// file does, read and write their operands only, whatever is prefetched, and
// wherever rows and columns end.
func TestNothingOutsideIsTouched(t *testing.T) {
	const most = 64 << 10
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	doing := ""
	defer func() {
		if err := recover(); err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, front := range []bool{false, true} {
		weights, as, cs, bs, ps := newFence(t, most, front), newFence(t, most, front), newFence(t, most, front), newFence(t, most, front), newFence(t, most, front)
		for _, tier := range cpu.Available() {
			defer cpu.Use(tier)()
			for _, d := range tensor.Codecs() {
				for range 8 {
					k := 1 + rng.IntN(130)
					if block := d.Info().BlockLen; block > 1 {
						k = block * (1 + rng.IntN(max(1, 160/block)))
					}
					m, n := 1+rng.IntN(20), [...]int{32, 64, 1 + rng.IntN(70)}[rng.IntN(3)]
					doing = "products of " + d.String() + " on " + tier.String()
					raw := weights.bytes(n * d.RowBytes(k))
					for i := range raw {
						raw[i] = byte(rng.Uint32()) // any bits: results are not looked at
					}
					w, err := gemm.NewStored(raw, d, n, k)
					if err != nil {
						t.Fatal(err)
					}
					a, c, bias := as.floats(m*k), cs.floats(m*n), bs.floats(n)
					gemm.MulRows(c, n, w, a, k, m, 0, n)
					if k%32 == 0 {
						sums := ps.floats(gemm.XSumsLen(k))
						gemm.XSums(sums, as.floats(k), d)
						gemm.GemvRows(cs.floats(n), w, as.floats(k), sums, 0, n)
						gemm.MixRows(as.floats(m*k), k, cs.floats(m*n), n, m, w, n, false)
					}
					if tier != cpu.AMX {
						continue // the twins are plain Go
					}
					RunFew(&FewTask{M: min(m, FewRows), A: a, LDA: k, W: w, C: c, LDC: n, Bias: bias}, 0, n, NewFewScratch(k))
					s := NewScratch(k)
					Run(&Task{M: m, N: n, K: k, A: a, LDA: k, B: NewStored(w), C: c, LDC: n, Bias: bias}, 0, m, 0, NumPanels(n), s)
					if CanRound(n) {
						out := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(cs.bytes(2*m*n)))), m*n)
						RunRounded(&RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: NewStored(w), Bias: bias, Out: out}, 0, m, 0, n/NR, s)
					}
				}
			}
		}
	}
}
