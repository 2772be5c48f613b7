package profile

import (
	"fmt"
	"maps"
	"runtime/metrics"
	"slices"
	"time"

	"hotpath/profile/internal/table"
)

// Snapshot returns a copy of everything recorded so far. Recording continues
// meanwhile.
func (r *Recorder) Snapshot() *Profile {
	if r.none() {
		now := Now()
		return &Profile{Format: Format, Version: Version, Created: time.Now().UTC().Round(0), Start: now, End: now}
	}
	// No run is folded until the aggregates are copied: those of plans, requests and the
	// elapsed time are of the same runs.
	r.folding.Lock()
	r.foldReleased(nil) // what it finds is kept by fail
	p := &Profile{Format: Format, Version: Version, Created: time.Now().UTC().Round(0), Start: r.start, End: Now()}
	r.mu.Lock()
	p.Facts = r.facts.merge(Facts{})
	p.Ceilings = make(map[string]Ceilings, len(r.ceilings))
	for backend, c := range r.ceilings {
		p.Ceilings[backend] = c.clone()
	}
	p.Memory, p.Devices = maps.Clone(r.memory), r.deviceMemory()
	if r.overhead != nil {
		o := *r.overhead
		p.Overhead = &o
	}
	plans := slices.Clone(r.plans)
	for _, f := range r.rounds {
		if f.stats.Rounds > 0 {
			s := f.stats
			s.ByWorker = slices.Clone(s.ByWorker)
			p.Rounds = append(p.Rounds, s)
			p.Ledger.addLedger(s.Outside())
		}
	}
	counters := slices.Clone(r.counters)
	if r.wait.counter.everHad() {
		counters = append(counters, r.wait.counter)
	}
	p.BadRuns, p.Abandoned = r.badRuns, r.abandoned
	if r.firstErr != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d runs left out, the first because of: %v", r.badRuns, r.firstErr))
	}
	if r.refused > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("more than %d counters: %d calls for a further one got none", r.opts.Counters, r.refused))
	}
	if r.further > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("more than %d plans: %d calls for a further one got none, and its runs are not recorded", r.opts.Plans, r.further))
	}
	if r.odd > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d values left out, the first because of: %v", r.odd, r.firstOdd))
	}
	if q := &r.requests; q.duration.count > 0 || len(q.parts.parts) > 0 {
		p.Requests = &RequestStats{Duration: q.duration.dist(), FirstToken: q.firstToken.dist(), PerToken: q.perToken.dist(),
			Tokenize: q.tokenize.dist(), Compile: q.compile.dist(), Queue: q.queue.dist(), Prefill: q.prefill.dist(), Hand: q.hand.dist(),
			PromptTokens: q.prompt, OutputTokens: q.output, Kept: q.kept.all(),
			Parts: slices.Clone(q.parts.parts)}
	}
	times := slices.Clone(r.requests.parts.times)
	r.mu.Unlock()

	var probing int64
	if p.Probes, probing = r.probes.snapshot(); len(p.Probes) > 0 {
		p.sampledCeilings()
	}
	open, busy := r.elapsed.snapshot()
	p.Elapsed = busy
	folding := r.folded
	share := make(map[*Plan]float64, len(plans)) // of its runs' time that a plan has on the clock
	if r.opts.Canary {
		p.Canaries = seal(plans)
	}
	for i, f := range plans {
		p.addPlan(f, open)
		if s := &p.Plans[i]; s.Ledger.Wall > 0 {
			share[&f.plan] = float64(s.Elapsed) / float64(s.Ledger.Wall)
		}
	}
	r.folding.Unlock()
	if p.Requests != nil {
		onClock(p.Requests.Parts, times, share)
	}
	for _, c := range counters {
		p.addCounter(c)
	}
	if p.Overhead == nil && p.Ledger.Runs > 0 {
		p.Overhead = p.estimateOverhead(folding + probing)
	}
	r.scopes.snapshot(p)
	p.Process = &ProcessStats{Before: r.before, BeforeCPU: r.began.User + r.began.System, Scoped: min(r.scopes.top.until(p.End), p.End-p.Start),
		InRuns: p.Elapsed, Probing: probing, Folding: folding, Recorder: r.bytes(plans)}
	addHeap(p.Memory)
	p.Go = r.gc.since()
	p.Resident = r.residency()
	if now, ok := readProcessor(); ok {
		since := now.minus(r.began)
		p.Processor = &since
	}
	return p
}

// stampsAStep is how often a lane reads the clock for a step, at most.
const stampsAStep = 2

// estimateOverhead multiplies the number of stamps by the current cost of one
// stamp and adds the time of folding.
func (p *Profile) estimateOverhead(folding int64) *Overhead {
	const readings = 512
	start := Now()
	for range readings - 1 {
		Now()
	}
	each := float64(Now()-start) / readings
	var stamps float64 // on one lane: the others stamp at the same time
	for i := range p.Plans {
		stamps += float64(p.Plans[i].Ledger.Runs) * float64(len(p.Plans[i].Steps)*stampsAStep+2)
	}
	return &Overhead{With: p.Ledger.Wall + folding, Without: max(0, p.Ledger.Wall-int64(stamps*each)), Estimated: true}
}

// addPlan adds a plan's aggregates. open is the shared time that is not divided among
// plans yet.
func (p *Profile) addPlan(f *planFold, open map[*planFold]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := PlanStats{Plan: f.plan.clone(), Run: f.wall.dist(), First: f.first, Tokens: f.tokens, Sequences: f.seqs, Rows: f.rows}
	off := make([][]int64, len(f.lanes)) // [lane][step]
	for i, l := range f.lanes {
		off[i], l.OffCPU, l.Guessed = f.offCPU(i)
		l.OffCompute, l.Blind = table.Sum(off[i]), f.times[i].blind.Load()
		l.clampOff()
		s.ByLane = append(s.ByLane, LaneLedger{s.Lanes[i], l})
		s.Ledger.addLedger(l)
	}
	// The lanes of a run share its wall time and are one run.
	s.Ledger.Runs, s.Ledger.Wall = f.runs, f.wall.sum
	s.Elapsed = f.rec.elapsed.of(f, open, s.Ledger.Wall)
	ceilings := p.CeilingsOf(s.Backend)
	if s.HostLanes == 0 { // a device is not shared with the lanes of others
		ceilings = ceilings.at(s.LanesAtOnce())
	}
	for i := range f.steps {
		var without int64
		for _, steps := range off {
			if steps != nil {
				without += steps[i]
			}
		}
		s.Stats = append(s.Stats, f.stats(&s, i, ceilings, without))
		if f.entered {
			heap := f.steps[i].heap
			s.Stats[i].Heap = &heap
		}
	}
	s.ByScope = f.scopeParts()
	s.Samples, s.ExactSwitches = f.samples.snapshot(f.exact), f.exact
	if roof := p.roofline(&s); roof != nil {
		reach, moved := s.reach(), s.Samples.moves(&s.Plan, ceilings)
		for i := range s.Stats {
			roof.place(&s.Stats[i], workOf(&s, i, reach), moved)
		}
	}
	if f.rec.opts.Heap && f.runs > 0 {
		heap := f.heap
		s.Heap = &heap
	}
	if f.runs == 0 {
		s.Buffers = nil // it held nothing
	}
	index := len(p.Plans)
	p.Plans = append(p.Plans, s)
	p.Ledger.addLedger(s.Ledger)
	for _, run := range f.kept.all() {
		p.Runs, p.RunScopes = append(p.Runs, rawRun(index, run, f.costsOf(run))), append(p.RunScopes, int(run.scope))
	}
	if f.runs > 0 && cap(f.kept.last) == 0 && f.rec.opts.Events > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("plan %q: one run has %d records, more than the %d that may be kept: the trace has none of it",
			s.ID, len(s.Steps)*len(s.Lanes), f.rec.opts.Events))
	}
}

// roofline returns the sampled ceilings for a plan's steps; nil if the backend
// has ceilings of its own or there are too few samples.
func (p *Profile) roofline(s *PlanStats) *roofline {
	if p.CeilingsOf(s.Backend).Source != SampledSource || s.HostLanes > 0 {
		return nil
	}
	return newRoofline(p.Probes, s.LanesAtOnce())
}

// CeilingsOf gives the ceilings of a backend, or those of all others, or none.
func (p *Profile) CeilingsOf(backend string) Ceilings {
	if c, ok := p.Ceilings[backend]; ok {
		return c
	}
	return p.Ceilings[""]
}

// stats is one step. off is the time of its lanes without a processor.
func (f *planFold) stats(p *PlanStats, step int, c Ceilings, off int64) StepStats {
	st, def, n := &f.steps[step], &p.Steps[step], int64(p.stepLanes(&p.Steps[step]))
	ofLane := func(times [][]int64) (of []int64) {
		for lane := range times {
			of = append(of, times[lane][step])
		}
		return of
	}
	laneCompute, laneWait := ofLane(f.compute), ofLane(f.wait)
	compute, wait := table.Sum(laneCompute), table.Sum(laneWait)
	s := StepStats{Calls: st.span.count, Total: p.elapsedOf((compute + wait) / n), Self: p.elapsedOf(compute / n), Clock: p.elapsedOf(st.clock()),
		FLOPs: st.flops, Bytes: st.bytes, Span: st.span.dist(),
		LaneCompute: laneCompute, LaneWait: laneWait, OffCPU: off, Longest: st.longest, Even: f.evenOf(step)}
	clock := st.off
	if !f.exact {
		clock = off / n // which lane the step waited for is not known
	}
	s.OffClock = min(p.elapsedOf(clock), s.Clock)
	if c.Known() && def.Op != TransferOp {
		s.Floor = int64(c.Floor(def.Class, st.flops, st.bytes))
		s.Lost = s.Clock - s.OffClock - s.Floor
	}
	return s
}

func rawRun(plan int, r *Run, costs []Cost) RawRun {
	raw := RawRun{Plan: plan, Index: r.index, Start: r.Start, End: r.End,
		Tokens: r.Tokens, Sequences: r.Sequences, Rows: r.Rows, Request: r.Request, Shares: slices.Clone(r.Shares)}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		lane := RawLane{Wake: l.Wake, Done: l.Done, Wait: l.Wait, Absent: l.Absent}
		for _, s := range l.Steps {
			lane.Arrive, lane.Begin, lane.End = append(lane.Arrive, s.Arrive), append(lane.Begin, s.Begin), append(lane.End, s.End)
		}
		raw.Lanes = append(raw.Lanes, lane)
	}
	for _, c := range costs {
		raw.FLOPs = append(raw.FLOPs, c.FLOPs)
		raw.Bytes = append(raw.Bytes, c.Bytes)
	}
	return raw
}

func (p *Profile) addCounter(c *Counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Counters = append(p.Counters, CounterStats{Name: c.name, Unit: c.unit, Last: c.value, Peak: c.peak, Samples: c.samples, Kept: c.kept.all()})
	if c.droppedInvalid > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("counter %q: %d values were not within ±%d and were left out", c.name, c.droppedInvalid, int64(most)))
	}
}

func (t *scopeTree) snapshot(p *Profile) {
	t.mu.RLock()
	nodes := slices.Clone(t.nodes)
	t.mu.RUnlock()
	for _, n := range nodes {
		n.mu.Lock()
		s := ScopeStats{ID: n.id, Parent: n.parent.id, Name: n.name, Calls: n.call.count, Total: n.total, Self: n.self,
			Open: n.open.Load(), Call: n.call.dist()}
		if t.rec.opts.Heap {
			heap := n.heap
			s.Heap = &heap
		}
		n.mu.Unlock()
		p.Scopes = append(p.Scopes, s)
		if n.name == otherScopes {
			p.Warnings = append(p.Warnings, fmt.Sprintf("more than %d scope paths: the later ones are folded into %q", t.limit, otherScopes))
		}
	}
	t.eventMu.Lock()
	defer t.eventMu.Unlock()
	for _, e := range t.events.all() {
		if e.Scope < len(nodes) { // a scope that was first opened after the copy
			p.ScopeEvents = append(p.ScopeEvents, e)
		}
	}
}

// addHeap adds the memory of the Go runtime. Packed weights are part of it,
// arenas are not.
func addHeap(memory map[string]int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	for i, class := range []string{"go heap objects", "go runtime total"} {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			memory[class] = int64(samples[i].Value.Uint64())
		}
	}
}
