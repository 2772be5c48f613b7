package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// clockedProgress is a bar over total units whose clock the test moves.
func clockedProgress(total int64) (p *progress, shown *bytes.Buffer, pass func(seconds float64)) {
	shown = new(bytes.Buffer)
	p = startProgress(total, streams{err: shown})
	now := time.Unix(100, 0)
	p.now = func() time.Time { return now }
	return p, shown, func(seconds float64) { now = now.Add(time.Duration(seconds * float64(time.Second))) }
}

// The rate counts from the beginning of the work, although the first answers
// come all at once.
func TestProgressRate(t *testing.T) {
	p, shown, pass := clockedProgress(10)
	p.begin()
	pass(10)
	p.addDone(2, 5000)
	p.addDone(2, 5000)
	if strings.Contains(shown.String(), "tok/s") {
		t.Errorf("drawn before the batch was complete: %q", shown)
	}
	p.show()
	if got := p.describe(); !strings.HasPrefix(got, "1000 tok/s") {
		t.Errorf("%q, expected 1000 tok/s", got)
	}
	p.finish()
	shown.Reset()
	p.show()
	if shown.Len() > 0 {
		t.Errorf("drawn after its end: %q", shown)
	}
}

// The estimate is of the batches behind the first, which pays for what is done
// once, and of this run alone.
func TestProgressEstimate(t *testing.T) {
	for _, skipped := range []int{0, 400_000} {
		p, _, pass := clockedProgress(1_000_000)
		p.begin()
		p.skip(skipped)
		pass(20) // weights are packed
		p.addDone(10_000, 100)
		p.show()
		if got := p.describe(); strings.Contains(got, "left") {
			t.Errorf("%q after the first batch, expected no estimate", got)
		}
		for range 3 {
			pass(1)
			p.addDone(10_000, 100)
			p.show()
		}
		want := map[int]string{0: "1m36s left", 400_000: "56s left"}[skipped]
		if got := p.describe(); !strings.HasSuffix(got, want) {
			t.Errorf("%q, expected %s: 10000 units take a second", got, want)
		}
	}
	// A pull that goes on has a rate of its own bytes.
	p, _, pass := clockedProgress(1000 << 20)
	p.about, p.bytes = "model", true
	p.begin()
	p.skip(800 << 20)
	p.set(800 << 20)
	for range 4 {
		pass(1)
		p.set(p.skipped + p.done + 20<<20)
	}
	if got := p.describe(); got != "model, 20 MiB/s, 6s left" {
		t.Errorf("%q, expected 20 MiB/s and 6s left", got)
	}
}
