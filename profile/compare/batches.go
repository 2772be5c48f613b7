package compare

import (
	"fmt"
	"math"
	"slices"

	"hotpath/internal/student"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// BatchDiff is a phase whose runs are larger or smaller in B, beyond what recordings made
// in turn differ by: B puts as many tokens into other batches. How texts are batched also
// depends on timing, which moves the recordings of both sides alike.
type BatchDiff struct {
	Phase  string     `json:"phase"`
	Tokens [2]float64 `json:"tokens_per_run"`
	Runs   [2]float64 `json:"runs"` // per recording
}

const (
	leastResize    = 0.15  // difference of log(tokens per run) from which on batches differ
	resizeAlarms   = 0.001 // probability that timing alone makes as large a difference
	leastRecorded  = 3     // recordings per side that can tell
	otherTokens    = 0.01  // part by which tokens per recording differ if the texts are others
	resizeVariance = 1e-4  // of one recording at least: batches of some hundred tokens are whole texts
)

// compareBatches lists the phases whose batches differ.
func compareBatches(a, b []*profile.Profile) []BatchDiff {
	out := []BatchDiff{}
	if e, _, _ := wholeRecordings(a, b); e.apartInTime {
		return out // the machine may have batched otherwise in the meantime
	}
	type phase struct{ tokens, runs [2][]float64 }
	phases := map[string]*phase{}
	var order []string
	for side, profiles := range [2][]*profile.Profile{a, b} {
		for k, p := range profiles {
			for i := range p.Plans {
				s := &p.Plans[i]
				f := phases[s.Phase]
				if f == nil {
					f = &phase{}
					for side, profiles := range [2][]*profile.Profile{a, b} {
						f.tokens[side], f.runs[side] = make([]float64, len(profiles)), make([]float64, len(profiles))
					}
					phases[s.Phase], order = f, append(order, s.Phase)
				}
				f.tokens[side][k] += float64(s.Tokens)
				f.runs[side][k] += float64(s.Ledger.Runs)
			}
		}
	}
	for _, name := range order {
		f := phases[name]
		var sizes [2][]float64
		for side := range sizes {
			for k, runs := range f.runs[side] {
				if runs > 0 && f.tokens[side][k] > 0 {
					sizes[side] = append(sizes[side], math.Log(f.tokens[side][k]/runs))
				}
			}
		}
		same := !apartBy(mean(f.tokens[0]), mean(f.tokens[1]), otherTokens)
		if same && len(sizes[0]) == len(a) && len(sizes[1]) == len(b) && resized(sizes[0], sizes[1]) {
			d := BatchDiff{Phase: name}
			for side := range sizes {
				d.Tokens[side], d.Runs[side] = mean(f.tokens[side])/mean(f.runs[side]), mean(f.runs[side])
			}
			out = append(out, d)
		}
	}
	return out
}

// resized reports whether logarithms of sizes, one per recording, differ by more than
// timing explains.
func resized(a, b []float64) bool {
	n, k := float64(len(a)), float64(len(b))
	if min(n, k) < leastRecorded {
		return false
	}
	each := max(resizeVariance, (squares(a)+squares(b))/(n+k-2))
	beyond := math.Abs(mean(b)-mean(a)) - leastResize
	return beyond > 0 && student.Tail(beyond/math.Sqrt(each*(1/n+1/k)), n+k-2) < resizeAlarms
}

// resizes reports whether the batches of a phase differ.
func (c *Comparison) resizes(phase string) bool {
	return slices.ContainsFunc(c.Batches, func(d BatchDiff) bool { return d.Phase == phase })
}

// says is the change in a sentence.
func (d *BatchDiff) says() string {
	return fmt.Sprintf("B batches otherwise: runs of phase %q have %.0f tokens in place of %.0f, so that a recording has %s in place of %.0f.",
		d.Phase, d.Tokens[1], d.Tokens[0], table.Count(int(math.Round(d.Runs[1])), "run"), d.Runs[0])
}
