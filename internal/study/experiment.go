package study

import (
	"fmt"
	"time"

	"hotpath/internal/experiment"
)

// Experiments are made as package experiment says.
type (
	Arm      = experiment.Arm
	Design   = experiment.Design
	Trial    = experiment.Trial
	Estimate = experiment.Estimate
)

// Designs of a full study, and of one that only shows that it works.
var (
	fullDesign  = Design{Least: 4, Most: 40, Budget: 4 * time.Second, Slice: 5 * time.Millisecond}
	quickDesign = Design{Least: 2, Most: 2, Slice: 0}
)

// voided says that a trial shows nothing, and why.
func voided(t *Trial) string {
	return fmt.Sprintf("void: its control, the same against itself, differs by %s. Leave the machine alone meanwhile, or give it more --time", change(t.Noise()))
}
