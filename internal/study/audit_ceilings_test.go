package study

import (
	"slices"
	"testing"

	"hotpath/internal/stats"
	"hotpath/profile"
)

// Ceilings of 20 recordings of one build move with the machine, and so does the time that
// is lost. The intervals of two recordings have values in common in 95 of 100 pairs. In
// each recording the lost time lies within its interval, its causes add up to the clock,
// and sampling takes at most half a per cent of the time.
func TestAuditCeilings(t *testing.T) {
	a, _ := newAudit(t)
	const recordings = 20
	type span struct{ low, share, high float64 } // of the clock time of steps
	var lost []span
	ceilings := map[string][]float64{} // medians, by class or memory level
	var sampling []float64
	for i := range recordings {
		p := a.recordToEnd()
		var s span
		var clock, off float64
		for j := range p.Plans {
			for _, st := range p.Plans[j].Stats {
				clock += float64(st.Clock - st.OffClock)
				off += float64(st.OffClock)
				s.share += float64(st.Lost)
				s.low += float64(st.LostLow)
				s.high += float64(st.LostHigh)
				if r := st.Roof; r == nil && st.Clock > 0 || r != nil && (r.Ideal+r.Cache+r.Neighbour+r.Kernel != st.Clock || r.Kernel != st.Lost) {
					t.Errorf("recording %d: %d ns, of which %d are lost, have the causes %+v", i, st.Clock, st.Lost, r)
				}
			}
		}
		s = span{100 * s.low / clock, 100 * s.share / clock, 100 * s.high / clock}
		lost = append(lost, s)
		var samples int64
		for _, c := range p.Probes {
			ceilings[c.Probe.String()] = append(ceilings[c.Probe.String()], c.Median/1e9)
			samples += c.Count
		}
		sampling = append(sampling, probing(p))
		t.Logf("recording %d: lost %.1f %% (%.1f to %.1f) of %.1f ms, and %.1f without a processor; %d samples in %.2f %% of the time", i, s.share, s.low, s.high, clock/1e6, off/1e6, samples, probing(p))
		if !(s.low <= s.share && s.share <= s.high) {
			t.Errorf("recording %d: lost %.1f %% is not between %.1f and %.1f", i, s.share, s.low, s.high)
		}
	}
	for name, medians := range ceilings {
		t.Logf("%s: %.1f to %.1f G per second", name, slices.Min(medians), slices.Max(medians))
	}
	var shares []float64
	for _, s := range lost {
		shares = append(shares, s.share)
	}
	common := 0
	for i, x := range lost {
		for _, y := range lost[i+1:] {
			if x.low <= y.high && y.low <= x.high {
				common++
			}
		}
	}
	pairs := recordings * (recordings - 1) / 2
	wanted := (95*pairs + 99) / 100
	if row(t, "lost time of one build", "intervals that overlap", common, pairs, wanted); common < wanted {
		t.Errorf("%d of %d pairs of intervals have values in common, expected 95 in 100", common, pairs)
	}
	t.Logf("lost %.1f to %.1f %%, median %.1f; %d of %d pairs of intervals have values in common", slices.Min(shares), slices.Max(shares), stats.Median(shares), common, pairs)
	if took := stats.Median(sampling); took > 0.5 {
		t.Errorf("samples of ceilings took %.2f %% of a recording, expected at most 0.5", took)
	}
}

// recordToEnd is a recording of an engine until it is closed, which takes the samples of
// ceilings that are missing.
func (a *audit) recordToEnd() *profile.Profile {
	a.t.Helper()
	var o opened
	b := a.open(&o, nil)
	for range rounds {
		a.round(b)
	}
	if err := o.close(); err != nil {
		a.t.Fatal(err)
	}
	return b.rec.Snapshot()
}

// probing is the part of a recording that samples of ceilings took, in per cent.
func probing(p *profile.Profile) float64 {
	return 100 * float64(p.Process.Probing) / float64(p.End-p.Start)
}
