package profile

// stepClock computes the wall-clock time of each step of a run, from the
// beginning of its first lane to the end of its last (stepSpan). If one lane works and the
// others wait, the step still gets all of that time. Without a barrier between
// two steps, lanes drift, and some already work on the next step. Such steps
// share each moment in proportion to their average number of busy lanes. So no
// moment counts twice, and the sum over steps never exceeds the time of the run.
type stepClock struct {
	kinds  [][]int32 // steps that share, in the order of their beginnings in the last run
	ends   []int32   // steps of one group, in the order of their ends
	clock  []int64   // [step], of the last run
	weight []float64 // [step], of the last run: lanes that were busy
	from   []float64 // [step], what a lane had of the clock when the step began
}

func newStepClock(p *Plan) *stepClock {
	n := len(p.Steps)
	c := &stepClock{ends: make([]int32, 0, n), clock: make([]int64, n), weight: make([]float64, n), from: make([]float64, n)}
	// The host works beside the device, not in its stead.
	mixed := p.HostLanes > 0 && p.HostLanes < len(p.Lanes)
	var kinds [2][]int32
	for s := range p.Steps {
		kind := 0
		if mixed && p.Steps[s].Host {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], int32(s))
	}
	c.kinds = kinds[:]
	return c
}

// take fills clock from the spans of a run. It allocates nothing.
func (c *stepClock) take(spans []stepSpan) {
	if c.alone(spans) {
		return
	}
	for _, steps := range c.kinds {
		for i := 1; i < len(steps); i++ { // nearly in order, mostly quite
			for k := i; k > 0 && spans[steps[k]].first < spans[steps[k-1]].first; k-- {
				steps[k], steps[k-1] = steps[k-1], steps[k]
			}
		}
		for from := 0; from < len(steps); {
			s := steps[from]
			n, last := from+1, spans[s].last
			for n < len(steps) && spans[steps[n]].first < last {
				last = max(last, spans[steps[n]].last)
				n++
			}
			if n == from+1 {
				c.clock[s] = last - spans[s].first
			} else {
				c.share(steps[from:n], spans)
			}
			from = n
		}
	}
}

// alone fills clock if no step begins before the step before it has ended: then each
// has its span for itself.
func (c *stepClock) alone(spans []stepSpan) bool {
	clock, end := c.clock[:len(spans)], int64(0)
	for s := range spans {
		span := &spans[s]
		if span.first < end {
			return false
		}
		end = span.last
		clock[s] = end - span.first
	}
	return true
}

// share divides the time of steps that overlap, in the order of their beginnings.
func (c *stepClock) share(begins []int32, spans []stepSpan) {
	c.ends = append(c.ends[:0], begins...)
	for i := 1; i < len(c.ends); i++ {
		for k := i; k > 0 && spans[c.ends[k]].last < spans[c.ends[k-1]].last; k-- {
			c.ends[k], c.ends[k-1] = c.ends[k-1], c.ends[k]
		}
	}
	for _, s := range begins {
		c.weight[s] = 0
		if span := spans[s].last - spans[s].first; span > 0 {
			c.weight[s] = float64(max(spans[s].busy, 1)) / float64(span)
		}
	}
	var busy, each float64 // lanes now, and what one of them has had of the clock so far
	now := spans[begins[0]].first
	advance := func(to int64) {
		if busy > 0 {
			each += float64(to-now) / busy
		}
		now = to
	}
	for _, s := range c.ends {
		for len(begins) > 0 && spans[begins[0]].first <= spans[s].last {
			b := begins[0]
			begins = begins[1:]
			advance(spans[b].first)
			busy += c.weight[b]
			c.from[b] = each
		}
		advance(spans[s].last)
		busy -= c.weight[s]
		c.clock[s] = int64(c.weight[s] * (each - c.from[s]))
	}
}
