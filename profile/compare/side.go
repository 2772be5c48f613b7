package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hotpath/internal/stats"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// machineShift is the difference between the ceilings of two recordings, as a
// logarithm: how much the machine itself may have changed.
func machineShift(a, b *profile.Profile) float64 {
	var most float64
	for backend, x := range a.Ceilings {
		y, ok := b.Ceilings[backend]
		if !ok {
			continue
		}
		for _, v := range [][2]float64{{x.FLOPs, y.FLOPs}, {x.Bytes, y.Bytes}} {
			if v[0] > 0 && v[1] > 0 {
				most = max(most, math.Abs(math.Log(v[1]/v[0])))
			}
		}
	}
	return most
}

// side is the recordings of one plan on one side, with what compared rows are
// made of.
type side struct {
	plan     *profile.PlanStats // of the first recording: the steps, which all share
	recs     []recording
	runs     int64
	tokens   int64
	wall     float64
	units    float64 // runs, or as many of A's as have this side's tokens
	ceilings profile.Ceilings
}

type recording struct {
	plan    *profile.PlanStats
	samples *profile.RunSamples
	made    time.Time
}

// measured is time without a processor, where it was measured call by call: a guess
// from calls that took long would hide the calls that got slower.
func (r *recording) measured(off int64) int64 {
	if !r.plan.ExactSwitches {
		return 0
	}
	return off
}

// newSides gathers recordings by plan, with the ids in order of appearance.
func newSides(profiles []*profile.Profile, name string) (sides map[string]*side, order []string, err error) {
	sides = map[string]*side{}
	for _, p := range profiles {
		for i := range p.Plans {
			plan := &p.Plans[i]
			if plan.Ledger.Runs == 0 {
				continue
			}
			s := sides[plan.ID]
			if s == nil {
				s = &side{plan: plan, ceilings: p.CeilingsOf(plan.Backend)}
				sides[plan.ID] = s
				order = append(order, plan.ID)
			}
			if !s.plan.SameShape(&plan.Plan) {
				return nil, nil, fmt.Errorf("%s: its recordings have plan %q with different steps or lanes, expected recordings of one build", name, plan.ID)
			}
			s.recs = append(s.recs, recording{plan, p.Samples(i), p.Created})
			s.runs += plan.Ledger.Runs
			s.tokens += plan.Tokens
			s.wall += float64(plan.Ledger.Wall)
			s.units = float64(s.runs)
		}
	}
	return sides, order, nil
}

// yardstick turns FLOPs and bytes into one measure of work for both sides: the
// shortest time on A's roofline. Without ceilings it is FLOPs, or bytes if there
// are none.
type yardstick struct {
	c     profile.Ceilings
	class string
}

func (y yardstick) work(flops, bytes int64) float64 {
	if y.c.Known() {
		if w := y.c.Floor(y.class, flops, bytes); w > 0 {
			return w
		}
	}
	return float64(cmp.Or(flops, bytes))
}

// rowYard measures a row's work in A's compute class, so that a change of class
// is a change of efficiency.
func rowYard(a, b *side, row *Diff) yardstick {
	if len(row.a) > 0 {
		return yardstick{a.ceilings, a.plan.Steps[row.a[0]].Class}
	}
	return yardstick{a.ceilings, b.plan.Steps[row.b[0]].Class}
}

// wallTime is lane time as wall time per run.
func (s *side) wallTime(lane int64) float64 {
	return float64(lane) / float64(len(s.plan.Lanes)) / s.units
}

// measure sums a row's steps over all runs, per run: time on a processor, and the
// wait for others or for a processor.
func (s *side) measure(steps []int, y yardstick) (time, wait, work float64, flops, bytes int64) {
	var f, b float64
	for _, r := range s.recs {
		for _, k := range steps {
			st := &r.plan.Stats[k]
			off := r.measured(st.OffCPU)
			time += s.wallTime(table.Sum(st.LaneCompute) - off)
			wait += s.wallTime(table.Sum(st.LaneWait) + off)
			f += float64(st.FLOPs) / s.units
			b += float64(st.Bytes) / s.units
			work += y.work(st.FLOPs, st.Bytes) / s.units
		}
	}
	return time, wait, work, int64(math.Round(min(f, math.MaxInt64/2))), int64(math.Round(min(b, math.MaxInt64/2)))
}

// idle is the time that no lane computed on a processor, of wall time per run.
func (s *side) idle() float64 {
	var t float64
	for _, r := range s.recs {
		t += s.wallTime(r.plan.Ledger.LaneTime - r.plan.Ledger.Compute + r.measured(r.plan.Ledger.OffCompute))
	}
	return t
}

// rowSample is the time of a row in the runs of one recording.
type rowSample struct {
	time [][]float64 // [step][run]
	work [][]float64 // [step][run]
}

// sampleRow reads the runs of a recording, in time on a processor: a call that lost
// its processor is not a slow call. size is how time for work depends on
// the tokens of a run.
func (r *recording) sampleRow(steps []int, y yardstick, size sizeEffect) rowSample {
	var out rowSample
	for _, k := range steps {
		st := &r.samples.Steps[k]
		n := len(r.samples.Wall)
		time, work := make([]float64, n), make([]float64, n)
		for i := range n {
			time[i] = float64(st.OnCPU(i))
			work[i] = cmp.Or(y.work(at(st.FLOPs, i), at(st.Bytes, i)), 1) * size.of(r.samples.Tokens[i])
		}
		out.time, out.work = append(out.time, time), append(out.work, work)
	}
	return out
}

// perRun sums the steps of each run: time for the usual work.
func (s rowSample) perRun() []float64 {
	if len(s.time) == 0 {
		return nil
	}
	out := make([]float64, len(s.time[0]))
	for i := range out {
		var time, work float64
		for k := range s.time {
			time += s.time[k][i]
			work += s.work[k][i]
		}
		out[i] = time / work
	}
	return out
}

// blocks divides the runs, in order of time, into n blocks and computes each measure of
// each block: logarithms of time per work. On a shared machine neighbouring runs are
// correlated, so single runs are not independent samples; blocks nearly are.
func (s rowSample) blocks(n int) (out [measures][]float64) {
	runs := s.perRun()
	usual, all := make([]float64, len(s.work)), 0.0 // work of a step in a run
	for k := range s.work {
		for _, w := range s.work[k] {
			usual[k] += w / float64(len(runs))
		}
		all += usual[k]
	}
	n = min(n, len(runs))
	for b := range n {
		from, to := len(runs)*b/n, len(runs)*(b+1)/n
		var median, time, work float64
		for k := range s.time {
			rates := make([]float64, 0, to-from)
			for i := from; i < to; i++ {
				rates = append(rates, s.time[k][i]/s.work[k][i])
				time += s.time[k][i]
				work += s.work[k][i]
			}
			slices.Sort(rates)
			median += stats.Quantile(rates, 0.5) * usual[k]
		}
		tail := slices.Sorted(slices.Values(runs[from:to]))
		for m, v := range [measures]float64{median / all, time / work, stats.Quantile(tail, tailQuantile)} {
			out[m] = append(out[m], math.Log(max(v*all, 1)/all))
		}
	}
	return out
}

// tailQuantile is what a tail is judged by.
const tailQuantile = 0.95

// wallRow is whole runs as a row of one step: wall time for the work of all
// steps, in the classes of A.
func (r *recording) wallRow(a *side, size sizeEffect) rowSample {
	runs := len(r.samples.Wall)
	time, work := make([]float64, runs), make([]float64, runs)
	for j := range runs {
		time[j] = float64(r.samples.Wall[j])
		for k := range r.samples.Steps {
			st := &r.samples.Steps[k]
			y := yardstick{a.ceilings, a.plan.Steps[min(k, len(a.plan.Steps)-1)].Class}
			work[j] += y.work(at(st.FLOPs, j), at(st.Bytes, j))
		}
		work[j] = cmp.Or(work[j], 1) * size.of(r.samples.Tokens[j])
	}
	return rowSample{[][]float64{time}, [][]float64{work}}
}

// waits are n blocks of the share of a run's time that was not spent computing on a
// processor.
func (r *recording) waits(lanes, n int) (out [measures][]float64) {
	return r.shares(lanes, n, func(run int) int64 {
		ns := r.samples.Wall[run] * int64(lanes)
		for k := range r.samples.Steps {
			ns -= r.samples.Steps[k].OnCPU(run)
		}
		return ns
	})
}

// shares are n blocks of the share that part has of the lane time of a run.
func (r *recording) shares(lanes, n int, part func(run int) int64) (out [measures][]float64) {
	runs := len(r.samples.Wall)
	series := make([]float64, runs)
	for i := range series {
		if all := r.samples.Wall[i] * int64(lanes); all > 0 {
			series[i] = min(1, max(0, float64(part(i)))/float64(all)) // steps of a lane may overlap
		}
	}
	for b := range min(n, runs) {
		part := slices.Sorted(slices.Values(series[runs*b/n : runs*(b+1)/n]))
		for m, v := range [measures]float64{stats.Quantile(part, 0.5), mean(part), stats.Quantile(part, tailQuantile)} {
			out[m] = append(out[m], v)
		}
	}
	return out
}

// sizeEffect is how the time per unit of work depends on the tokens of a run. If
// the same texts are batched differently, rows differ by this effect alone.
type sizeEffect struct {
	slope float64 // of log(time for work) over log(tokens)
	usual float64 // log(tokens)
}

func (e sizeEffect) of(tokens int64) float64 {
	if e.slope == 0 || tokens <= 0 {
		return 1
	}
	return math.Exp(e.slope * (math.Log(float64(tokens)) - e.usual))
}

// leastSizes is the difference of log(tokens) from which on runs differ in size.
const leastSizes = 0.05

// newSizeEffect estimates the effect by comparing the largest third of the runs
// with the smallest, within each recording. So the difference between the sides
// does not enter the estimate.
func newSizeEffect(sides [2]*side, rates func(side int, r *recording) []float64) sizeEffect {
	var e sizeEffect
	var weight, runs float64
	for i, s := range sides {
		for k := range s.recs {
			r := &s.recs[k]
			order := r.bySize()
			third := len(order) / 3
			if third == 0 {
				continue
			}
			size := func(at []int) (size float64) {
				for _, j := range at {
					size += math.Log(float64(r.samples.Tokens[j])) / float64(len(at))
				}
				return size
			}
			e.usual += size(order) * float64(len(order))
			runs += float64(len(order))
			small, large := order[:third], order[len(order)-third:]
			d := size(large) - size(small)
			if d < leastSizes {
				continue
			}
			rate := rates(i, r)
			time := func(at []int) float64 {
				t := make([]float64, len(at))
				for n, j := range at {
					t[n] = math.Log(max(rate[j], 1e-12))
				}
				return stats.Median(t)
			}
			e.slope += (time(large) - time(small)) * d
			weight += d * d
		}
	}
	if weight == 0 {
		return sizeEffect{}
	}
	return sizeEffect{e.slope / weight, e.usual / runs}
}

// bySize lists the runs that have tokens, the smallest first.
func (r *recording) bySize() []int {
	var order []int
	for j, t := range r.samples.Tokens {
		if t > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(r.samples.Tokens[x], r.samples.Tokens[y]) })
	return order
}

// at is the value of sample i in what may be collapsed.
func at(v []int64, i int) int64 {
	if len(v) == 1 {
		return v[0]
	}
	return v[i]
}
