package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/profile"
)

// Other programs that take processors make runs longer, and waits too. Steps do not show
// that, because they are compared by their time on a processor. Whole runs and waits do. From
// several recordings per side, made in turn, one sees how much the machine varies. One
// recording per side does not show it, so a difference of whole runs or of waits must then be
// larger than that of the time without a processor.

// withoutProcessor is the part of the lane time in which a step had begun and its lane had no
// processor, as far as the system shows it.
func (s *side) withoutProcessor() float64 {
	var off, all int64
	for _, r := range s.recs {
		off += r.measured(r.plan.Ledger.OffCompute)
		all += r.plan.Ledger.LaneTime
	}
	if all == 0 {
		return 0
	}
	return float64(off) / float64(all)
}

const (
	// busyWarned is a part of the lane time: a recording with so much more than usual is named.
	busyWarned = 0.05
	// mostHeld keeps the logarithm of what is left finite.
	mostHeld = 0.99
)

// busyShift is by how much more of their time the runs of one side were held up, and the
// logarithm of how much longer that made them, if all lanes waited for the one without a
// processor.
func busyShift(a, b *side) (share, growth float64) {
	held := func(s *side) float64 { return min(mostHeld, float64(len(s.plan.Lanes))*s.withoutProcessor()) }
	x, y := held(a), held(b)
	return math.Abs(x - y), math.Abs(math.Log((1 - x) / (1 - y)))
}

// warnOfBusy names the recordings in which lanes were without a processor for longer than
// usual. The system does not show who had it: other programs, or other threads of this one.
func (c *Comparison) warnOfBusy(a, b []*profile.Profile) {
	var shares [2][]float64
	for i, recordings := range [2][]*profile.Profile{a, b} {
		for _, p := range recordings {
			s := side{}
			for k := range p.Plans {
				s.recs = append(s.recs, recording{plan: &p.Plans[k]})
			}
			shares[i] = append(shares[i], s.withoutProcessor())
		}
	}
	all := slices.Concat(shares[0], shares[1])
	slices.Sort(all)
	usual := all[(len(all)-1)/4] // that of a calm recording, if a quarter of them is calm
	var busy []string
	mostOf := "" // a side most of whose recordings are named
	for i, name := range [2]string{"A", "B"} {
		var found []string
		least, most := 1.0, 0.0
		for k, share := range shares[i] {
			if share > usual+busyWarned {
				found, least, most = append(found, fmt.Sprint(k+1)), min(least, share), max(most, share)
			}
		}
		if len(found) == 0 {
			continue
		}
		percent := fmt.Sprintf("%.0f %%", 100*most)
		if math.Round(100*least) < math.Round(100*most) {
			percent = fmt.Sprintf("%.0f to %s", 100*least, percent)
		}
		if 2*len(found) > len(shares[i]) {
			mostOf = name
		}
		switch {
		case len(shares[i]) == 1:
		case len(found) == 1:
			name = "recording " + found[0] + " of " + name
		default:
			name = "recordings " + strings.Join(found, ", ") + " of " + name
		}
		busy = append(busy, percent+" in "+name)
	}
	if len(busy) == 0 {
		return
	}
	text := fmt.Sprintf("lanes were without a processor for much of their time: %s; usual is %.0f %%", strings.Join(busy, ", "), 100*usual)
	switch e, _, _ := wholeRecordings(a, b); {
	case !e.repeated() || e.apartInTime:
		c.warn("%s. So whole runs and waits must differ by more than that makes; make several recordings per side, in turn", text)
	case mostOf != "":
		c.warn("%s. Other programs may have had it, or other threads of %s", text, mostOf)
	default:
		c.warn("%s. If other programs had it, leave these recordings out, each with the one beside it", text)
	}
}
