package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/stats"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// call is one step of one sampled run.
type call struct {
	plan         string
	sample, step int
}

// suspicion is the result of the analysis: by how many nanoseconds each call is
// longer than similar calls, and which calls are too long for noise.
type suspicion struct {
	excess map[call]float64
	Slow   map[call]bool
	calls  int
}

// Suspicious finds calls that took longer than expected. The expected time is the
// median of the call's step, times the slowdown of all steps of that run. It has
// no access to the canaries.
func Suspicious(p *profile.Profile) suspicion {
	out := suspicion{map[call]float64{}, map[call]bool{}, 0}
	for i := range p.Plans {
		samples := p.Samples(i)
		n := len(samples.Wall)
		if p.Plans[i].Ledger.Runs == 0 || n < profile.CanaryKnown {
			continue
		}
		usual := make([]float64, len(samples.Steps))   // [step]
		pace := make([]float64, n)                     // [run]: over the usual time
		times := make([][]float64, len(samples.Steps)) // [step][run]
		for k := range samples.Steps {
			times[k] = onCPU(&samples.Steps[k])
			usual[k] = stats.Median(times[k])
		}
		for j := range pace {
			var of []float64
			for k := range samples.Steps {
				if usual[k] > 0 {
					of = append(of, times[k][j]/usual[k])
				}
			}
			pace[j] = stats.Median(of)
		}
		for k := range samples.Steps {
			over := make([]float64, n)
			for j := range over {
				over[j] = times[k][j] - usual[k]*pace[j]
			}
			limit := max(6*stats.Spread(over), float64(profile.CanaryFloor)/2)
			for j, v := range over {
				at := call{p.Plans[i].ID, j, k}
				out.excess[at] = v
				out.calls++
				if v > limit {
					out.Slow[at] = true
				}
			}
		}
	}
	return out
}

// onCPU is the time on a processor of each sample of a step.
func onCPU(s *profile.StepSamples) []float64 {
	out := make([]float64, len(s.Compute))
	for i := range out {
		out[i] = float64(s.OnCPU(i))
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
func (s *CanaryScore) Recall() float64 { return table.Percent(int64(s.Found), int64(s.Canaries)) }

// ScoreCanaries lets the analysis look for calls that were slowed, then opens the
// seal; nil where nothing was burned on purpose.
func ScoreCanaries(p *profile.Profile) (*CanaryScore, error) {
	if p.Canaries == nil {
		return nil, nil
	}
	blind := *p
	blind.Canaries = nil
	said := Suspicious(&blind)
	burned, err := p.Canaries.Open()
	if err != nil {
		return nil, err
	}
	s := &CanaryScore{Canaries: len(burned), Calls: said.calls, False: len(said.Slow)}
	var bias []float64
	for _, b := range burned {
		at := call{b.Plan, b.Sample, b.Step}
		if said.Slow[at] {
			s.Found++
			s.False--
		}
		s.Burned += b.Time
		bias = append(bias, 100*(said.excess[at]-float64(b.Time))/float64(max(1, b.Time)))
	}
	slices.SortFunc(bias, cmp.Compare)
	s.Bias = stats.MedianSorted(bias)
	if n := len(bias); n > 0 {
		// By ranks: 1.96 standard deviations of a binomial about the middle.
		half := int(0.98*math.Sqrt(float64(n))) + 1
		s.BiasLow, s.BiasHigh = bias[max(0, n/2-half)], bias[min(n-1, n/2+half)]
	}
	return s, nil
}

func canaryTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "canaries", Note: "time that was burned in random calls to measure the profiler itself; the analysis did not know where", Cols: []table.Col{table.Left(""), table.Left("")}}
	s, err := ScoreCanaries(p)
	switch {
	case err != nil:
		t.Add(table.Warn, "error", err.Error())
	case s != nil && s.Canaries == 0:
		t.Add(table.Warn, "none", fmt.Sprintf("no sampled call had one: a step needs %d calls before its first", profile.CanaryKnown))
	case s != nil:
		t.Add(table.Plain, "burned", fmt.Sprintf("%s in %d of %d sampled calls", table.Human(s.Burned), s.Canaries, s.Calls))
		t.Add(table.Plain, "recall", fmt.Sprintf("%.1f %%: %d of %d were found", s.Recall(), s.Found, s.Canaries))
		t.Add(table.Plain, "bias", fmt.Sprintf("%+.1f %% (%+.1f to %+.1f): median of measured against burned time", s.Bias, s.BiasLow, s.BiasHigh))
		t.Add(table.Plain, "other slow calls", fmt.Sprintf("%d: interruptions by other programs, or false alarms", s.False))
	}
	return t
}
