package profile

import (
	"bytes"
	"testing"
)

// The time without a processor is subtracted from a sample's, and may be estimated as
// longer than the sample. The recording must stay one that can be read.
func TestSampleThatLostItsProcessorTakesNoNegativeTime(t *testing.T) {
	rec := NewRecorder(Options{})
	rec.TakeProbe(1)
	later := Now() + 1e12
	rec.Probed(Probe{Class: "f32"}, 1e9, later, later)
	p := rec.Snapshot()
	if p.Process.Probing < 0 {
		t.Errorf("samples took %d ns", p.Process.Probing)
	}
	if rec.released.left < 0 {
		t.Errorf("the next sample is due after %d ns of runs", rec.released.left)
	}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := Read("a recording", file.Bytes()); err != nil {
		t.Error(err)
	}
}

// A recording that ends takes three samples of a ceiling in any case, and up to five if
// these are a small part of it.
func TestProbesAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		lasted, each int64 // nanoseconds, of the recording and of a sample
		want         int
	}{
		{1_000_000, 50_000, leastProbes},
		{1_000_000_000, 50_000, enoughProbes},
		{500_000_000, 450_000, 4}, // 1.35 ms are less than 0.3 per cent of 500 ms, 1.8 are not
	} {
		rec, probe := NewRecorder(Options{}), Probe{Class: "f32"}
		n := 0
		for ; ; n++ {
			rec.start = Now() - c.lasted
			rec.probes.took = int64(n) * c.each
			if !rec.LacksProbe(probe) {
				break
			}
			rec.Probed(probe, 1e9, Now(), Now())
		}
		if n != c.want {
			t.Errorf("%d samples of %d ns in %d ns, expected %d", n, c.each, c.lasted, c.want)
		}
	}
}
