package train

import "math"

// schedules give the share of the way from min_lr to lr that is left after a
// part of the steps behind the warm-up, from 0 to below 1.
var schedules = map[string]func(part float64) float64{
	"constant": func(float64) float64 { return 1 },
	"linear":   func(part float64) float64 { return 1 - part },
	"cosine":   func(part float64) float64 { return (1 + math.Cos(math.Pi*part)) / 2 },
}

// rate is the learning rate of step 1, 2, ...: it grows linearly over the
// warm-up, whose last step has all of it, and then follows the schedule.
func (c *Config) rate(step int) float64 {
	if step <= c.Warmup {
		return c.LR * float64(step) / float64(c.Warmup)
	}
	part := float64(step-1-c.Warmup) / float64(c.Steps-c.Warmup)
	left := schedules[c.Schedule](part)
	return left*c.LR + (1-left)*c.MinLR
}
