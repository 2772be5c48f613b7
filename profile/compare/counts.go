package compare

import (
	"math"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// CountDiff is a count of whole recordings, before and after, such as page faults of one
// kind. Where it is judged, Before and After are geometric means of the recordings of a side,
// else means.
type CountDiff struct {
	Kind    string  `json:"kind"`
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Change  Change  `json:"change"` // in per cent of A's
	Verdict Verdict `json:"verdict"`
}

// Changed reports whether the difference is more than noise.
func (d *CountDiff) Changed() bool { return d.Verdict != Same && d.Verdict != Untested }

// countable reports whether counts of whole recordings may be judged: there are several per
// side, made in turn. unlike is the part by which the sides may differ in their tokens, because
// more work touches and allocates more memory. Smaller changes must not be reported.
func countable(e *evidence, sides [2][]*profile.Profile, unlike float64) bool {
	a, b := meanTokens(sides[0]), meanTokens(sides[1])
	return e.repeated() && !e.apartInTime && max(a, b) <= (1+unlike)*min(a, b)
}

// meanTokens is what a recording computed.
func meanTokens(profiles []*profile.Profile) float64 {
	sum := 0.0
	for _, p := range profiles {
		for i := range p.Plans {
			sum += float64(p.Plans[i].Tokens)
		}
	}
	return sum / float64(len(profiles))
}

// newCountDiff has the mean counts of one kind, which are not judged.
func newCountDiff(kind string, sides [2][]*profile.Profile, of func(*profile.Profile) int64) CountDiff {
	var level [2]float64
	for side, profiles := range sides {
		for _, p := range profiles {
			level[side] += float64(of(p)) / float64(len(profiles))
		}
	}
	d := CountDiff{Kind: kind, Before: level[0], After: level[1], Verdict: Untested}
	d.Change = Change{Percent: table.PercentOf(d.After-d.Before, d.Before), P: 1, Holm: 1, Verdict: Untested}
	return d
}

// measure tests a count. few is added to each count before its logarithm is taken: so many
// say nothing. Changes below floor are not reported.
func (d *CountDiff) measure(e *evidence, sides [2][]*profile.Profile, of func(*profile.Profile) int64, few, floor float64) {
	var x [2][][]float64
	var level [2]float64
	chance := 0.0 // at least this variance is left if all counts of a side are equal
	for side, profiles := range sides {
		sum, logs := 0.0, 0.0
		for _, p := range profiles {
			n := float64(of(p)) + few
			x[side], sum, logs = append(x[side], []float64{math.Log(n)}), sum+n, logs+math.Log(n)
		}
		chance += 1 / sum
		level[side] = math.Exp(logs / float64(len(profiles)))
	}
	d.Before, d.After = max(0, level[0]-few), max(0, level[1]-few)
	s := e.shift(Median, x)
	s.variance, s.freedom = s.variance+chance, min(s.freedom, moderation)
	d.Change.measure(s, floor, func(log float64) float64 { return table.PercentOf(level[0]*math.Expm1(log), max(1, d.Before)) }, true)
	d.Verdict = d.Change.Verdict
}

// countsTable is a table of counts; show writes one of a row.
func countsTable(title, note, first string, counts []CountDiff, show func(d *CountDiff, n float64) string) table.Table {
	t := table.Table{Title: title, Note: note,
		Cols: []table.Col{table.Left(first), table.Right("before"), table.Right("after"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	for i := range counts {
		d, change := &counts[i], ""
		if d.Verdict != Untested {
			change = d.Change.cell()
		}
		t.Add(markOf(d.Changed(), d.Verdict), d.Kind, show(d, d.Before), show(d, d.After), change, d.Change.noise(), string(d.Verdict))
	}
	return t
}
