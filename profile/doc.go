// Package profile tells where time, bytes and FLOPs went: of hotpath's own
// steps, of the user's scopes around them, and how far from what the machine
// allows.
//
//	rec := profile.NewRecorder(profile.Options{})
//	m, err := hotpath.Open("model", hotpath.Options{Profile: rec})
//	// use the model; profile.Scope adds scopes of your own
//	p := rec.Snapshot()
//	err = p.WriteFile("run.json")
//	err = report.Text(os.Stderr, p, report.Options{})
//	err = export.Export("run.html", p)
//
// A [Recorder] records while the model runs, and [Recorder.Snapshot] turns what
// it has into a [Profile] at any time: immutable data to query ([Profile.Top],
// [Profile.Where], [Profile.ByOp], [Profile.Tree], [Profile.ScopesByName]) and to
// write as JSON ([Profile.WriteFile]; [Read] opens it again). [Scope] puts the
// program's own work beside the model's, and [Recorder.Counter] its own figures.
//
// This package records and holds the model of a profile. What reads profiles is in
// packages of its own, which a program that only records does not link. Imports go
// one way; each package may import those above it:
//
//	profile          recorder, model, queries, JSON
//	profile/report   text, Markdown and CSV for people
//	profile/compare  what changed between recordings, with statistics
//	profile/export   pprof, traces, flame graphs, HTML; by a file's ending
//
// None of them imports the engine, so a profile can be read, queried and exported
// by programs that never load a model.
//
// # The ledger
//
// For each run, wall × lanes = compute + barrier wait + dispatch + idle +
// residual; a lane is a worker. The first four are stamped at both ends; the
// residual is what the stamps do not explain, such as time between the end of one
// step's work and the beginning of the next. It is never clamped: a negative one
// says that stamps overlap.
//
// Runs may be in flight side by side, as workers with a batch each are. They
// share the time that a clock on the wall shows by their lanes: that is
// [PlanStats.Elapsed], which adds up, where the wall times of runs do not.
// Workers that have no run then, because their last one has ended and others go
// on, are told by a [Round]: [Profile.Ledger] is closed over them too.
//
// # The roofline
//
// A step cannot take less than its FLOPs at the ceiling of its compute class, nor
// less than its bytes at the rate of the memory that they lie in: that is
// [StepStats.Floor]. Ceilings are sampled between runs ([ProbeStats]), unless a
// caller has set some ([Recorder.SetCeilings]). What a step takes on the clock, until
// its last lane ends, is [StepStats.Clock], and what that has beyond the floor is
// [StepStats.Lost]: a step that one lane does while others wait has lost their time.
// [StepStats.Roof] tells what the time was spent for. A step that is faster than the
// ceilings allow is one of [Profile.Contradictions].
//
// # Recording an engine
//
// An engine registers each plan once with a Recorder, takes a preallocated
// [Run] before it dispatches, lets every lane stamp its own slots without
// locks or allocation, and gives the run back:
//
//	h, err := rec.Plan(plan)
//	run := h.Acquire()
//	run.Start = profile.Now()
//	// each lane stamps Wake, then Arrive, Begin, End of its steps, then Done
//	run.End = profile.Now()
//	// fill run.Costs from the bound inputs, or say by run.Costing who will
//	err = h.Release(run)
//
// Where workers have runs of their own, a [Round] says which of them had none.
//
// # Errors
//
// A stamp that should be there and is not makes [PlanHandle.Release] return an
// error, keeps the run out of the aggregates, and stays visible in
// [Recorder.Err] and in [Profile.Warnings]. Files are hostile until checked:
// [Read] names the file, the field and what it expected. Nothing here panics
// on bad input.
package profile
