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
