// Package profile records where time, bytes and FLOPs go: in hotpath's own steps
// and in the user's scopes around them. It compares them with the limits of the
// machine.
//
//	rec := profile.NewRecorder(profile.Options{})
//	m, err := hotpath.Open("model", hotpath.Options{Profile: rec})
//	// use the model; profile.Scope adds scopes of your own
//	p := rec.Snapshot()
//	err = p.WriteFile("run.json")
//	err = report.Text(os.Stderr, p, report.Options{})
//	err = export.Export("run.html", p)
//
// A [Recorder] records while the model runs. [Recorder.Snapshot] returns a
// [Profile] at any time. A Profile is immutable. It can be queried
// ([Profile.Top], [Profile.Where], [Profile.ByOp], [Profile.Tree],
// [Profile.ScopesByName]) and written as JSON ([Profile.WriteFile]; [Read] opens
// it again). [Scope] adds the program's own work, and [Recorder.Counter] its own
// counters.
//
// This package contains the recorder and the data model. Reports, comparisons and
// exporters are separate packages, so that a program that only records does not
// link them. Each package may import only the packages above it:
//
//	profile          recorder, model, queries, JSON
//	profile/report   text, Markdown and CSV for people
//	profile/compare  what changed between recordings, with statistics
//	profile/export   pprof, traces, flame graphs, HTML; by a file's ending
//
// None of them imports the engine, so programs that never load a model can read,
// query and export profiles.
//
// # The ledger
//
// For each run, wall × lanes = compute + barrier wait + dispatch + idle +
// residual. A lane is a worker. The first four terms are stamped at both ends.
// The residual is time that no stamp explains, such as the time between the end
// of one step's work and the beginning of the next. It is never clamped: a
// negative residual means that stamps overlap.
//
// Several runs may be in flight at once, for instance if each worker has its own
// batch. Such runs share the wall-clock time in proportion to their lanes. The
// result is [PlanStats.Elapsed]. Elapsed times of plans add up to the wall-clock
// time; wall times of runs do not. A [Round] records workers without a run,
// because their last run has ended and others continue. [Profile.Ledger] includes
// them.
//
// # The roofline
//
// A step cannot be faster than its FLOPs at the ceiling of its compute class, or
// than its bytes at the rate of the memory level that holds them. That bound is
// [StepStats.Floor]. Ceilings are sampled between runs ([ProbeStats]), unless the
// caller sets them ([Recorder.SetCeilings]). [StepStats.Clock] is the wall-clock
// time of a step until its last lane ends, and [StepStats.Lost] is Clock minus
// Floor, without time in which a lane had no processor. If one lane works while
// others wait, the time of the others is lost.
// [StepStats.Roof] splits the time by cause. A step that is faster than the
// ceilings allow is one of [Profile.Contradictions].
//
// # Recording an engine
//
// An engine registers each plan once with a Recorder. For each run it acquires a
// preallocated [Run] before it dispatches. Every lane stamps its own slots
// without locks or allocation. Then the engine releases the run:
//
//	h, err := rec.Plan(plan)
//	run := h.Acquire()
//	run.Start = profile.Now()
//	// each lane stamps Wake, then Arrive, Begin, End of its steps, then Done
//	run.End = profile.Now()
//	// fill run.Costs from the bound inputs, or say by run.Costing who will
//	err = h.Release(run)
//
// If workers have runs of their own, a [Round] records the workers without one.
//
// # Errors
//
// If a stamp is missing, [PlanHandle.Release] returns an error and the run is not
// aggregated. [Recorder.Err] and [Profile.Warnings] report it. Files are hostile
// until checked: [Read] names the file, the field and what it expected. Nothing
// here panics on bad input.
package profile
