package experiment

// Verdict is the result of an experiment about an arm.
type Verdict string

// The verdicts.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	NoDifference Verdict = "no difference shown"
	Void         Verdict = "void: the control differs"
)

// Judge tells what a log-ratio of times shows. A control that excludes zero voids
// any ratio: what made the baseline differ from itself may have made the arms
// differ.
func Judge(ratio, control Estimate) Verdict {
	switch {
	case control.ExcludesZero():
		return Void
	case !ratio.ExcludesZero():
		return NoDifference
	case ratio.Mid < 0:
		return Faster
	}
	return Slower
}
