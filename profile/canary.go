package profile

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Canaries are calls that were slowed on purpose, to measure the profiler itself:
// while it records, small random amounts of time are burned in random steps. What
// was burned, and where, is sealed. The analysis reads the samples of runs as it
// always does, says which calls were slowed and by how much, and only then is the
// seal opened and its answer scored.
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
	canaryFloor = int64(2_000)   // ns
	canaryCap   = int64(200_000) // ns
	canaryKnown = 8              // calls after which a step's mean is known
)

// plant draws the canaries of a run; f.mu is held.
func (f *planFold) plant(r *Run) {
	f.flush() // means are of all runs so far
	for s := range r.burn {
		r.burn[s] = 0
		h := &f.steps[s].span
		if h.count < canaryKnown || rand.IntN(canaryEvery) > 0 {
			continue
		}
		mean := float64(h.sum) / float64(h.count)
		r.burn[s] = min(canaryCap, max(canaryFloor, int64(mean*(canaryLeast+(canaryMost-canaryLeast)*rand.Float64()))))
	}
}

// HasCanaries reports whether steps of the run burn time: then a backend calls
// Burn once in each step, on whichever lane, before the step ends.
func (r *Run) HasCanaries() bool { return r != nil && r.burn != nil }

// Burn takes as long as the canary of a step, if there is one.
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

func (c *Canaries) open() ([]burnt, error) {
	b, err := base64.StdEncoding.DecodeString(c.Sealed)
	var all []burnt
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("canaries.sealed: %w", err)
	}
	return all, nil
}

// call is one step of one sampled run.
type call struct {
	plan         string
	sample, step int
}

// suspicion is what the analysis says about calls: by how many nanoseconds each
// is longer than its like, and which are too long for noise.
type suspicion struct {
	excess map[call]float64
	slow   map[call]bool
	calls  int
}

// suspicious looks for calls that took longer than they should: the median of
// their step, times how much longer all steps of that run took. It knows nothing
// of canaries.
func suspicious(p *Profile) suspicion {
	out := suspicion{map[call]float64{}, map[call]bool{}, 0}
	for i := range p.Plans {
		samples := p.samples(i)
		n := len(samples.Wall)
		if p.Plans[i].Ledger.Runs == 0 || n < canaryKnown {
			continue
		}
		usual := make([]float64, len(samples.Steps)) // [step]
		pace := make([]float64, n)                   // [run]: over the usual time
		for k := range samples.Steps {
			usual[k] = median(floats(samples.Steps[k].Compute))
		}
		for j := range pace {
			var of []float64
			for k := range samples.Steps {
				if usual[k] > 0 {
					of = append(of, float64(samples.Steps[k].Compute[j])/usual[k])
				}
			}
			pace[j] = median(of)
		}
		for k := range samples.Steps {
			over := make([]float64, n)
			for j := range over {
				over[j] = float64(samples.Steps[k].Compute[j]) - usual[k]*pace[j]
			}
			limit := max(6*spread(over), float64(canaryFloor)/2)
			for j, v := range over {
				at := call{p.Plans[i].ID, j, k}
				out.excess[at] = v
				out.calls++
				if v > limit {
					out.slow[at] = true
				}
			}
		}
	}
	return out
}

func floats(v []int64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// CanaryScore is how well the profiler found what was burned.
type CanaryScore struct {
	Canaries int     `json:"canaries"` // in sampled calls
	Found    int     `json:"found"`
	Calls    int     `json:"calls"` // that were looked at
	False    int     `json:"false"` // called slow without a canary: interruptions are among them
	Burned   int64   `json:"burned_ns"`
	Bias     float64 `json:"bias_percent"` // median over canaries of what was measured beyond what was burned
	BiasLow  float64 `json:"bias_low_percent"`
	BiasHigh float64 `json:"bias_high_percent"`
}

// Recall is the share of canaries that were found, in per cent.
func (s *CanaryScore) Recall() float64 { return percent(int64(s.Found), int64(s.Canaries)) }

// ScoreCanaries lets the analysis look for calls that were slowed, then opens the
// seal; nil where nothing was burned on purpose.
func (p *Profile) ScoreCanaries() (*CanaryScore, error) {
	if p.Canaries == nil {
		return nil, nil
	}
	blind := *p
	blind.Canaries = nil
	said := suspicious(&blind)
	burned, err := p.Canaries.open()
	if err != nil {
		return nil, err
	}
	s := &CanaryScore{Canaries: len(burned), Calls: said.calls, False: len(said.slow)}
	var bias []float64
	for _, b := range burned {
		at := call{b.Plan, b.Sample, b.Step}
		if said.slow[at] {
			s.Found++
			s.False--
		}
		s.Burned += b.Time
		bias = append(bias, 100*(said.excess[at]-float64(b.Time))/float64(max(1, b.Time)))
	}
	slices.SortFunc(bias, cmp.Compare)
	s.Bias = middle(bias)
	if n := len(bias); n > 0 {
		// By ranks: 1.96 standard deviations of a binomial about the middle.
		half := int(0.98*math.Sqrt(float64(n))) + 1
		s.BiasLow, s.BiasHigh = bias[max(0, n/2-half)], bias[min(n-1, n/2+half)]
	}
	return s, nil
}

func canaryTable(p *Profile, _ ReportOptions) table {
	t := table{title: "canaries", note: "time that was burned in random calls to measure the profiler itself; the analysis did not know where", cols: []col{left(""), left("")}}
	s, err := p.ScoreCanaries()
	switch {
	case err != nil:
		t.add(warn, "error", err.Error())
	case s != nil && s.Canaries == 0:
		t.add(warn, "none", fmt.Sprintf("no sampled call had one: a step needs %d calls before its first", canaryKnown))
	case s != nil:
		t.add(plain, "burned", fmt.Sprintf("%s in %d of %d sampled calls", human(s.Burned), s.Canaries, s.Calls))
		t.add(plain, "recall", fmt.Sprintf("%.1f %%: %d of %d were found", s.Recall(), s.Found, s.Canaries))
		t.add(plain, "bias", fmt.Sprintf("%+.1f %% (%+.1f to %+.1f): median of measured against burned time", s.Bias, s.BiasLow, s.BiasHigh))
		t.add(plain, "other slow calls", fmt.Sprintf("%d: interruptions by other programs, or false alarms", s.False))
	}
	return t
}
