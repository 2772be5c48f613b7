package cpu

import (
	"testing"

	"hotpath/internal/kernel/isa"
)

// TestTrainingPrecision: auto trains in bf16 on tiles and in f32 elsewhere; who asks
// for a precision gets it.
func TestTrainingPrecision(t *testing.T) {
	for _, tier := range isa.Available() {
		restore := isa.Use(tier)
		auto := F32
		if tier >= isa.AMX {
			auto = BF16
		}
		for p, want := range map[Precision]Precision{"": auto, Auto: auto, F32: F32, BF16: BF16} {
			if got := p.Training(); got != want {
				t.Errorf("%q on %v trains in %q, expected %q", p, tier, got, want)
			}
		}
		restore()
	}
}
