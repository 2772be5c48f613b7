// Package profile holds what hotpath knows about where time, bytes and FLOPs
// went: the records that a run is stamped into, the ledger that accounts for
// them, the scopes of the user's own code, the reports and the exporters.
//
// It is public and imports nothing else of hotpath, so a profile can be read,
// queried and exported by programs that never load a model.
//
// # From a run to a report
//
// An engine registers each plan once with a [Recorder], takes a preallocated
// [Run] before it dispatches, lets every lane stamp its own slots without
// locks or allocation, and gives the run back:
//
//	h, err := rec.Plan(plan)
//	run := h.Acquire()
//	run.Start = profile.Now()
//	// each lane stamps Wake, then Arrive, Begin, End of its steps, then Done
//	run.End = profile.Now()
//	// fill run.Costs from the bound inputs
//	err = h.Release(run)
//
// [Recorder.Snapshot] turns the aggregates into a [Profile]: immutable data
// that [Text], [Markdown], [CSV] and [Export] render: as text, tables, pprof, a
// trace for Perfetto, flame graphs, and one HTML page. [Compare] tells with
// statistics what changed between recordings.
//
// # The ledger
//
// For each run, wall × lanes = compute + barrier wait + dispatch + idle +
// residual. The first four are stamped; the residual is what the stamps do not
// explain. It is never clamped: a negative one says that stamps overlap.
//
// # Errors
//
// A stamp that should be there and is not makes [PlanHandle.Release] return an
// error, keeps the run out of the aggregates, and stays visible in
// [Recorder.Err] and in [Profile.Warnings]. Files are hostile until checked:
// [Read] names the file, the field and what it expected. Nothing here panics
// on bad input.
package profile
