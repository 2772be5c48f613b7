//go:build !nogpu

package optest

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/backend/opencl"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/testmodels"
)

// neighbours is the number of cases in a row that one context runs: they share kernels,
// which another context would compile too.
const neighbours = 4

// TestOpenCL holds a device to the reference, forward and backward. A runtime may compile
// for one context at a time, so there are as many contexts as threads.
func TestOpenCL(t *testing.T) {
	if _, err := opencl.Devices(); err != nil {
		t.Skip(err)
	}
	next := make(chan []Case)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		b, err := opencl.New(opencl.Options{Untuned: true})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for cases := range next {
				onOpenCL(t, b, cases)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	i := 0
	for cases := range slices.Chunk(Cases(), neighbours) {
		if testmodels.Mine(t, i) {
			next <- cases
		}
		i++
	}
	close(next)
	all.Wait()
}

func onOpenCL(t *testing.T, b *opencl.Backend, cases []Case) {
	how := backend{name: "opencl", tier: isa.Active()}
	for _, c := range cases {
		for _, what := range []string{"forward", "backward"} {
			if what == "forward" || Differentiable(c, binds[1]) {
				t.Run(c.Name+"/"+what, func(t *testing.T) { parity(t, c, how, b, answers{}, what) })
			}
		}
	}
}
