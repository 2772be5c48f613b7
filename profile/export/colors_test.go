package export

import (
	"strings"
	"testing"

	"hotpath/profile"
)

// An op has one colour, whatever else was recorded, in the page and in pictures.
func TestOpColors(t *testing.T) {
	for op, want := range map[string]int{"linear": 0, "linear+act": 0, "linear_dw": 0, "attention_kv": 1, "norm_dx": 2, "add+norm": 4, "add_row": 4, "rope": 6, "adamw": 7, "addition": 7, "": 7} {
		if got := OpColor(op); got != want {
			t.Errorf("%q has colour %d, expected %d", op, got, want)
		}
	}
	p := fixture(t)
	var svg strings.Builder
	if err := FlameSVG(&svg, p, FlameTime, profile.FlameLayers); err != nil {
		t.Fatal(err)
	}
	for _, g := range p.ByOp() {
		if !strings.Contains(svg.String(), svgColors[OpColor(g.Name)]) {
			t.Errorf("the picture has no frame in the colour of %s", g.Name)
		}
	}
}
