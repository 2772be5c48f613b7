package profile

// Round accounts for the workers of one round. In a round each worker has runs of
// its own, so no run's ledger contains the workers without a run. A Round belongs
// to one caller, who reuses it for the next round. A nil Round records nothing.
//
// The caller calls Begin, each worker Enter and, after each of its runs, Ran. The
// caller calls End when all workers are done. No method allocates or takes a lock
// that workers share.
type Round struct {
	fold    *roundFold
	workers []roundWorker
}

// roundWorker is what one worker stamps.
type roundWorker struct {
	entered     int64 // 0: it was not called in
	first, last int64 // from the start of its first run to the end of its last
	inRuns      int64
	runs        int64
	void        bool // a run of it left no stamps

	_ [128 - 48]byte // two workers never share a pair of cache lines
}

// roundFold is all rounds of a name and number of workers; Recorder.mu guards it.
type roundFold struct {
	rec   *Recorder
	stats RoundStats
}

// Round prepares rounds of these workers, including workers that a round does not
// use. Rounds with the same name and number of workers are folded together, as
// plans with the same id are; use one recorder per model to separate two models
// of the same shape. Overlapping rounds count separately.
func (r *Recorder) Round(name, phase string, workers []string) *Round {
	if r.none() || len(workers) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.rounds {
		if f.stats.Name == name && len(f.stats.ByWorker) == len(workers) {
			return &Round{fold: f, workers: make([]roundWorker, len(workers))}
		}
	}
	f := &roundFold{rec: r, stats: RoundStats{Name: name, Phase: phase, ByWorker: make([]WorkerStats, len(workers))}}
	for i, w := range workers {
		f.stats.ByWorker[i].Worker = w
	}
	r.rounds = append(r.rounds, f)
	return &Round{fold: f, workers: make([]roundWorker, len(workers))}
}

// Begin forgets the round before.
func (r *Round) Begin() {
	if r != nil {
		clear(r.workers)
	}
}

// Enter records that a worker was called. The round starts when the first worker
// is called.
func (r *Round) Enter(worker int) {
	if r != nil {
		r.workers[worker].entered = Now()
	}
}

// Ran records the time of one run of the worker: [Run.Start] and [Run.End]. Both
// are 0 for a run that failed or was not recorded; then the round is left out.
func (r *Round) Ran(worker int, start, end int64) {
	if r == nil {
		return
	}
	w := &r.workers[worker]
	if start <= 0 || end < start || start < w.last {
		w.void = true
		return
	}
	if w.runs == 0 {
		w.first = start
	}
	w.last = end
	w.inRuns += end - start
	w.runs++
}

// End aggregates the round, or leaves it out if one of its runs was not recorded.
// The ledgers of the runs' plans contain the runs in both cases.
func (r *Round) End() {
	if r != nil {
		r.end(Now())
	}
}

func (r *Round) end(end int64) {
	var begin, runs int64
	for i := range r.workers {
		w := &r.workers[i]
		if w.void {
			return
		}
		if w.entered != 0 && (begin == 0 || w.entered < begin) {
			begin = w.entered
		}
		runs += w.runs
	}
	if runs == 0 {
		return
	}
	r.fold.rec.mu.Lock()
	defer r.fold.rec.mu.Unlock()
	s := &r.fold.stats
	s.Rounds++
	s.Wall += end - begin
	for i := range r.workers {
		s.ByWorker[i].addRound(&r.workers[i], begin, end)
	}
}

// RoundStats aggregates rounds of workers with runs of their own. It contains
// only time outside of runs; the ledgers of the plans contain the runs.
type RoundStats struct {
	Name     string        `json:"name"`
	Phase    string        `json:"phase,omitempty"`
	Rounds   int64         `json:"rounds"`
	Wall     int64         `json:"wall_ns"` // Σ from the first worker's entry to the end
	ByWorker []WorkerStats `json:"by_worker"`
}

// WorkerStats is one worker over all rounds: their wall time = InRuns + Dispatch
// + Idle.
type WorkerStats struct {
	Worker   string `json:"worker"`
	Runs     int64  `json:"runs"`
	InRuns   int64  `json:"in_runs_ns"`
	Dispatch int64  `json:"dispatch_ns"` // before its first run, and between its runs
	Idle     int64  `json:"idle_ns"`     // after its last run, and all of a round without one
}

func (s *WorkerStats) addRound(w *roundWorker, begin, end int64) {
	if w.runs == 0 {
		s.Idle += end - begin
		return
	}
	s.Runs += w.runs
	s.InRuns += w.inRuns
	s.Dispatch += w.first - begin + w.last - w.first - w.inRuns
	s.Idle += end - w.last
}

// Outside is the worker's time without a run, as a ledger.
func (s *WorkerStats) Outside() Ledger {
	return Ledger{LaneTime: s.Dispatch + s.Idle, Dispatch: s.Dispatch, Idle: s.Idle}
}

// Outside is the time of workers without a run, as a ledger. Together with the
// ledgers of the plans that ran in the rounds, it adds up to the rounds' wall
// time × workers.
func (s *RoundStats) Outside() Ledger {
	var l Ledger
	for i := range s.ByWorker {
		l.addLedger(s.ByWorker[i].Outside())
	}
	return l
}
