package cuda

import (
	"strings"
	"testing"
)

// What a card tells of itself: its driver, and why it cannot be used.
func TestAboutACard(t *testing.T) {
	d := description{Name: "card", Driver: 13000, Release: "580.1", Units: 132, Memory: 140 << 30, Capability: [2]int{9, 0}}
	a := d.about()
	if a.Skip != nil || a.Driver != "driver 580.1 for CUDA 13.0" || a.Units != 132 || a.Runs.Tokens == 0 || !strings.Contains(a.Words, "card") {
		t.Errorf("%+v", a)
	}
	d.Capability, d.Release = [2]int{7, 5}, ""
	if a := d.about(); a.Skip == nil || a.Driver != "driver for CUDA 13.0" {
		t.Errorf("an old card: %+v", a)
	}
}
