package profile

import (
	"errors"
	"fmt"
	"maps"
)

// Ceilings is what the machine was measured to reach with a number of lanes at
// once, all of them as a rule.
type Ceilings struct {
	FLOPs  float64            `json:"flops_per_s"`
	Bytes  float64            `json:"bytes_per_s"`
	Class  map[string]float64 `json:"class_flops_per_s,omitempty"` // by compute class, where it differs
	Source string             `json:"source,omitempty"`            // how it was measured

	// Lanes is the number of lanes of the measurement. 0: the ceilings apply to
	// work on any number of lanes.
	Lanes int `json:"lanes,omitempty"`
	// One is the same measurement with one lane. Ceilings for a number of lanes
	// between 1 and Lanes are interpolated. If One is nil, they are proportional
	// to the lanes. Measuring one lane matters, because one lane alone often gets
	// more than its proportional part of the memory bandwidth.
	One *Ceilings `json:"one_lane,omitempty"`
}

func (c Ceilings) clone() Ceilings {
	c.Class = maps.Clone(c.Class)
	if c.One != nil {
		one := c.One.clone()
		c.One = &one
	}
	return c
}

// at is the ceilings of a number of lanes at once, which need not be whole: it
// is a mean.
func (c Ceilings) at(lanes float64) Ceilings {
	if c.Lanes <= 1 || lanes >= float64(c.Lanes) {
		return c
	}
	lanes = max(lanes, 1)
	between := func(all, one float64, known bool) float64 {
		if !known {
			return all * lanes / float64(c.Lanes)
		}
		return one + (all-one)*(lanes-1)/float64(c.Lanes-1)
	}
	var one Ceilings
	if c.One != nil {
		one = *c.One
	}
	out := Ceilings{FLOPs: between(c.FLOPs, one.FLOPs, one.FLOPs > 0), Bytes: between(c.Bytes, one.Bytes, one.Bytes > 0), Source: c.Source}
	for class, all := range c.Class {
		if out.Class == nil {
			out.Class = map[string]float64{}
		}
		out.Class[class] = between(all, one.Class[class], one.Class[class] > 0)
	}
	return out
}

// leastRate is the lowest rate of a machine per second. Lower ones would make times
// that are no numbers.
const leastRate = 1

func (c *Ceilings) check() error {
	ok := func(v float64) bool { return v == 0 || v >= leastRate && v <= mostFloat }
	if !ok(c.FLOPs) || !ok(c.Bytes) {
		return fmt.Errorf("%v FLOP/s and %v byte/s, expected 0 or numbers of %v to %v", c.FLOPs, c.Bytes, float64(leastRate), mostFloat)
	}
	for class, v := range c.Class {
		if !ok(v) {
			return fmt.Errorf("class %q: %v FLOP/s, expected 0 or a number of %v to %v", class, v, float64(leastRate), mostFloat)
		}
	}
	if c.Lanes < 0 {
		return fmt.Errorf("measured with %d lanes, expected 0 or more", c.Lanes)
	}
	if c.One == nil {
		return nil
	}
	if c.One.One != nil {
		return errors.New("one_lane contains a field one_lane, expected none")
	}
	if err := c.One.check(); err != nil {
		return fmt.Errorf("one_lane: %w", err)
	}
	return nil
}

func (c *Ceilings) Known() bool { return c.FLOPs > 0 || c.Bytes > 0 || len(c.Class) > 0 }

// Floor is the roofline's lower bound for the time of the work, in nanoseconds; 0
// if no ceiling is known.
func (c *Ceilings) Floor(class string, flops, bytes int64) float64 {
	peak := c.FLOPs
	if p, ok := c.Class[class]; ok {
		peak = p
	}
	var t float64
	if peak > 0 {
		t = float64(flops) / peak * 1e9
	}
	if c.Bytes > 0 {
		t = max(t, float64(bytes)/c.Bytes*1e9)
	}
	return t
}
