package profile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Canaries are calls that were slowed on purpose, to test the profiler itself.
// While it records, random steps burn small random amounts of time. The amounts
// and steps are sealed. The analysis reads samples as usual and reports which
// calls were slowed and by how much. Only then is the seal opened and the answer
// scored.
type Canaries struct {
	Sealed string `json:"sealed"` // base64 of JSON: nothing but Score opens it
}

// burnt is one canary.
type burnt struct {
	Plan   string `json:"plan"`
	Sample int    `json:"sample"`
	Step   int    `json:"step"`
	Time   int64  `json:"ns"`
}

// How canaries are burned: in one call of so many, for between a part and a
// multiple of the step's mean time, so that most are not to be overlooked and
// none is long.
const (
	canaryEvery = 40
	canaryLeast = 0.5
	canaryMost  = 2.0
	CanaryFloor = int64(2_000)   // ns
	canaryCap   = int64(200_000) // ns
	CanaryKnown = 8              // calls after which a step's mean is known
	mostCanary  = 1_000_000_000  // ns: longer ones are refused in files
)

// plant draws the canaries of a run. The caller holds f.mu.
func (f *planFold) plant(r *Run) {
	for s := range r.burn {
		r.burn[s] = 0
		h := &f.steps[s].span
		if h.count < CanaryKnown || rand.IntN(canaryEvery) > 0 {
			continue
		}
		mean := float64(h.sum) / float64(h.count)
		r.burn[s] = min(canaryCap, max(CanaryFloor, int64(mean*(canaryLeast+(canaryMost-canaryLeast)*rand.Float64()))))
	}
}

// HasCanaries reports whether steps of the run burn time: then a backend calls
// Burn once in each step, on whichever lane, before the step ends.
func (r *Run) HasCanaries() bool { return r != nil && r.burns }

// Burn spins for the duration of a step's canary, if the step has one.
func (r *Run) Burn(step int) {
	if n := r.burn[step]; n > 0 {
		for end := Now() + n; Now() < end; {
		}
	}
}

// seal keeps what was burned in sampled runs apart.
func seal(plans []*planFold) *Canaries {
	all := []burnt{}
	for _, f := range plans {
		f.mu.Lock()
		for i := range f.samples.n {
			for s := range f.samples.steps {
				if n := f.samples.burn[i*f.samples.steps+s]; n > 0 {
					all = append(all, burnt{f.plan.ID, i, s, n})
				}
			}
		}
		f.mu.Unlock()
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil // numbers and names always are JSON
	}
	return &Canaries{base64.StdEncoding.EncodeToString(b)}
}

func (c *Canaries) Open() ([]burnt, error) {
	b, err := base64.StdEncoding.DecodeString(c.Sealed)
	var all []burnt
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("canaries.sealed: %w", err)
	}
	for i, b := range all {
		if b.Time < 1 || b.Time > mostCanary {
			return nil, fmt.Errorf("canaries.sealed[%d]: ns is %d, expected 1 to %d", i, b.Time, int64(mostCanary))
		}
	}
	return all, nil
}
