package limit

import (
	"runtime"
	"testing"
)

// TestProcessors: GOMAXPROCS below the number of cores leaves the others to other
// programs.
func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	if n := processors(); n != 1 {
		t.Errorf("%d with GOMAXPROCS 1", n)
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 3)
	if n := processors(); n != runtime.NumCPU() {
		t.Errorf("%d of %d cores", n, runtime.NumCPU())
	}
}

func TestRunnable(t *testing.T) {
	for _, c := range []struct {
		line string
		n    int
		ok   bool
	}{
		{"0.20 0.18 0.12 1/80 11206\n", 1, true},
		{"7.15 4.62 3.09 118/165 8477\n", 118, true},
		{"", 0, false}, {"0.2 0.1", 0, false}, {"/5", 0, false}, {"a/5", 0, false}, {"99999999999/5", 9999999, true},
	} {
		if n, ok := runnable([]byte(c.line)); n != c.n || ok != c.ok {
			t.Errorf("%q: %d, %t, expected %d, %t", c.line, n, ok, c.n, c.ok)
		}
	}
}

// TestAskingAllocatesNothing: a run that ends a sample allocates no more than
// another.
func TestAskingAllocatesNothing(t *testing.T) {
	var l Limiter
	l.Init(4)
	if n := testing.AllocsPerRun(100, func() {
		l.Took(1, 2*sampleTime, Host)
		Host.Idle()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
