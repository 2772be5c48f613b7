// Package limit decides how many workers take part in a run: an adaptive
// concurrency limit, because other programs use the same cores.
//
// It imports nothing of ours. The CPU backend asks it before each run, and the
// engine before each round of runs side by side. The answer changes how long a
// run takes, never what it computes.
package limit

import "math/bits"

const (
	slow       = 1.5   // times the average make a sample slow
	slowRow    = 2     // slow samples in a row start a probe of fewer workers
	faster     = 0.95  // of the average is what a probe has to beat: hysteresis
	wins       = 3     // samples that a probe has to win
	losses     = 2     // samples that end it before: one may have met another program
	clip       = 2     // times the average is the most that one sample counts: the machine may have been suspended
	unmeasured = 0.25  // extra cost assumed for a number of workers without a sample
	most       = 1.0   // extra cost expected at most: the average may be from a busier time
	shareRare  = 0.005 // of the time may be lost to probes without evidence
	shareSeen  = 0.02  // of the time may be lost to probes with evidence
	mostFails  = 4     // doublings of the time between probes that lose: exponential backoff
	apartRare  = 32    // samples between two probes without evidence
	apartSeen  = 8     // samples between two probes with evidence
	firstProbe = 0.05  // seconds that the first probe of an arm may take: it is not put off
	warm       = 4     // samples make an average; the weight of each later one is 1/warm
	// sampleTime is the least time of a sample, in seconds: a time slice of an
	// operating system. Shorter runs are averaged.
	sampleTime = 4e-3
	// busyTime is the time in which a busy program takes a processor at least once, in
	// seconds: some time slices.
	busyTime = 16e-3
)

// Limiter is the policy for runs of one size class. Its arms are the numbers of
// workers 1, half and all. Each arm has an exponentially weighted moving average
// of the time per unit of work. A probe runs the neighbouring arm until it has
// won some samples, and is adopted, or has lost some.
type Limiter struct {
	arms [3]arm // fewest workers first
	n    int    // arms in use
	at   int    // arm in use
	try  int    // arm under probe; at where there is none
	// check is the arm that was left for the one in use, to be probed once more:
	// it may have been left because of noise. It is at where there is none.
	check    int
	checking bool // the probe under way is that one
	won      int  // samples of the probe that were faster
	lost     int  // and that were not
	row      int  // slow samples in a row
	down     bool // direction of the last rare probe

	least float64 // the least of the slow samples in a row
	beat  float64 // what the probe has to beat: the average, or least

	seconds, work float64 // of the sample so far
	length        float64 // seconds of the last sample
	since         float64 // seconds since the last probe
	fails         int     // probes in a row that lost
	switches      int64   // involuntary context switches at the last sample
	taken         int64   // and between the last two
	gap, between  float64 // seconds since the last count, and between the last two
	counted       bool    // switches was read
	known         bool    // taken too
}

type arm struct {
	workers int
	mean    float64 // seconds per unit of work; 0: no sample yet
	n       int     // samples, up to warm
}

// Init makes a limiter of up to n workers, which begins with all.
func (l *Limiter) Init(n int) {
	*l = Limiter{}
	for _, w := range [...]int{1, n / 2, n} {
		if w > 0 && (l.n == 0 || w > l.arms[l.n-1].workers) {
			l.arms[l.n].workers = w
			l.n++
		}
	}
	l.at = l.n - 1
	l.try, l.check = l.at, l.at
}

// Workers is how many take part in the next run.
func (l *Limiter) Workers() int { return l.arms[l.try].workers }

// Took says how long a run with as many workers as Workers said took, and how
// much work it was: runs of one class differ a little in size.
func (l *Limiter) Took(work, seconds float64, m *Machine) {
	if l.n < 2 {
		return
	}
	l.work, l.seconds = l.work+work, l.seconds+seconds
	if l.seconds < sampleTime || l.work <= 0 {
		return
	}
	each, length := l.seconds/l.work, l.seconds
	l.gap += l.seconds
	l.work, l.seconds = 0, 0
	if l.try != l.at {
		l.probed(each)
		return
	}
	l.length = length
	l.sample(each, m)
}

// probed takes a sample of a probe.
func (l *Limiter) probed(each float64) {
	a := &l.arms[l.try]
	if l.won+l.lost == 0 {
		a.mean = 0
	}
	if each < faster*l.beat {
		l.won++
	} else {
		l.lost++
	}
	a.mean += (each - a.mean) / float64(l.won+l.lost)
	switch {
	case l.won == wins:
		l.check = l.at
		if l.checking {
			l.check = l.try
		}
		a.n, l.at, l.fails = warm, l.try, 0
	case l.lost == losses:
		l.fails = min(l.fails+1, mostFails)
	default:
		return
	}
	l.try, l.row, l.since, l.checking = l.at, 0, 0, false
}

// sample takes a sample of the arm in use, and decides whether to probe.
func (l *Limiter) sample(each float64, m *Machine) {
	a := &l.arms[l.at]
	if a.n = min(a.n+1, warm); a.n <= 2 { // the first is cold: the second replaces it
		a.mean = each
	}
	switch {
	case each <= slow*a.mean:
		l.row = 0
	case l.row == 0:
		l.row, l.least = 1, each
	default:
		l.row, l.least = l.row+1, min(l.least, each)
	}
	counts := min(each, clip*a.mean)
	l.length *= counts / each
	l.since += l.length
	a.mean += (counts - a.mean) / float64(a.n)
	backoff := float64(int(1) << l.fails)
	l.count(m)
	switch {
	case l.at > 0 && l.row >= slowRow && (l.taken > 0 || !l.known):
		l.probe(l.at - 1)
		l.beat = l.least
	case l.at > 0 && l.crowded() && a.n == warm && (l.unknown(l.at-1) || l.affordable(l.at-1, shareSeen/backoff, apartSeen)):
		l.probe(l.at - 1)
	case l.check != l.at && l.since >= apartSeen*l.length:
		l.probe(l.check)
		l.check, l.checking = l.at, true
	case l.at < l.n-1 && l.affordable(l.at+1, shareSeen, apartSeen) && m.Idle != nil && m.Idle():
		l.probe(l.at + 1)
	case l.row == 0:
		other := l.at + 1
		if l.at == l.n-1 || l.at > 0 && !l.down {
			other = l.at - 1
		}
		if l.affordable(other, shareRare/backoff, apartRare) {
			l.down = other < l.at
			l.probe(other)
		}
	}
}

func (l *Limiter) probe(arm int) {
	l.try, l.won, l.lost, l.row, l.beat = arm, 0, 0, 0, l.arms[l.at].mean
}

// count asks how often another program took a processor from this process since the
// last sample.
func (l *Limiter) count(m *Machine) {
	if m.Switches == nil {
		return
	}
	n, ok := m.Switches()
	l.taken, l.known = n-l.switches, ok && l.counted
	l.between, l.gap = l.gap, 0
	l.switches, l.counted = n, ok
}

// crowded reports whether other programs took as many processors as fewer workers
// would leave to them: one busy program beside 16 workers takes a sixteenth, and is
// no reason to do without half of them.
func (l *Limiter) crowded() bool {
	fewer := float64(l.arms[l.at].workers - l.arms[l.at-1].workers)
	return l.known && l.taken > 0 && float64(l.taken)*busyTime >= fewer*l.between
}

// Calm reports whether no other program took a processor between the last two samples
// of the arm in use.
func (l *Limiter) Calm() bool { return l.known && l.taken == 0 }

// unknown reports whether an arm has no sample yet, and can get one soon.
func (l *Limiter) unknown(arm int) bool {
	return l.arms[arm].mean == 0 && losses*l.length < firstProbe
}

// affordable reports whether a probe that loses costs at most a share of the time
// since the last one.
func (l *Limiter) affordable(arm int, share, apart float64) bool {
	now, then := l.arms[l.at].mean, l.arms[arm].mean
	if then == 0 {
		then = (1 + unmeasured) * now
	}
	lost := losses * min(max(0, then/now-1), most) * l.length
	return l.since >= apart*l.length && lost <= share*l.since
}

// Classes are the limiters of runs by their size. Sizes of one class differ by
// up to half.
type Classes struct {
	workers int
	of      [35]Limiter
}

// NewClasses makes limiters of up to n workers.
func NewClasses(n int) *Classes {
	c := &Classes{workers: n}
	for i := range c.of {
		c.of[i].Init(n)
	}
	return c
}

// Of is the limiter of runs of so many tokens.
func (c *Classes) Of(tokens int) *Limiter {
	size := bits.Len(uint(tokens))
	half := 0 // the bit after the first: 8 and 12 begin sizes
	if size > 1 {
		half = tokens >> (size - 2) & 1
	}
	return &c.of[min(2*size+half, len(c.of)-1)]
}
