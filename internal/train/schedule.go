package train

import "math"

// schedules give the position of the learning rate between min_lr (0) and lr (1).
// done is the number of steps since the warm-up, steps the number of all steps after
// the warm-up, and last the number of steps in which wsd decays.
var schedules = map[string]func(done, steps, last float64) float64{
	"constant": func(float64, float64, float64) float64 { return 1 },
	"linear":   func(done, steps, _ float64) float64 { return 1 - done/steps },
	"cosine":   func(done, steps, _ float64) float64 { return (1 + math.Cos(math.Pi*done/steps)) / 2 },
	"wsd":      func(done, steps, last float64) float64 { return min(1, (steps-done)/last) },
}

// rate is the learning rate of step 1, 2, ...: it grows linearly over the warm-up,
// reaches lr in its last step, and then follows the schedule.
func (c *Config) rate(step int) float64 {
	if step <= c.Warmup {
		return c.LR * float64(step) / float64(c.Warmup)
	}
	last := c.DecaySteps
	if last == 0 {
		last = max(1, min(c.Steps/5, c.Steps-c.Warmup))
	}
	left := schedules[c.Schedule](float64(step-1-c.Warmup), float64(c.Steps-c.Warmup), float64(last))
	return left*c.LR + (1-left)*c.MinLR
}
