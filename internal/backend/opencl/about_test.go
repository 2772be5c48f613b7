package opencl

import (
	"strings"
	"testing"
)

// What a device tells of itself: a CPU is no card.
func TestAboutADevice(t *testing.T) {
	d := description{Name: "card", Driver: "1.2", Platform: "some", Units: 20, Memory: 16 << 30, Local: 48 << 10, Items: 1024}
	a := d.about()
	if a.CPU || a.Driver != "1.2, platform some" || a.Units != 20 || a.Runs.Tokens == 0 || !strings.Contains(a.Words, "card") {
		t.Errorf("%+v", a)
	}
	d.CPU = true
	if a := d.about(); !a.CPU || a.Runs.Tokens != 0 {
		t.Errorf("a CPU: %+v", a)
	}
}
