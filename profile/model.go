package profile

import (
	"maps"
	"time"

	"hotpath/profile/internal/table"
)

// Version is the version of the schema that this package writes. It reads this
// version and all earlier ones. Version 2 added samples of runs, buffers of plans
// and the heap; 3 the time that overlapping runs share; 4 rounds of workers with
// runs of their own, and the clock time of steps. Fields that were added later
// are omitted if unknown, and older programs skip them.
const Version = 4

// Format is the first field of every profile file.
const Format = "hotpath-profile"

// Profile is the immutable result of a recording. Files contain it; reports and
// exporters read it. Times are nanoseconds, moments are readings of [Now] in the
// recorded process.
type Profile struct {
	Format   string              `json:"format"`
	Version  int                 `json:"version"`
	Created  time.Time           `json:"created"`
	Start    int64               `json:"start_ns"` // when the recorder was made
	End      int64               `json:"end_ns"`   // when the snapshot was taken
	Facts    Facts               `json:"facts"`
	Ceilings map[string]Ceilings `json:"ceilings,omitempty"` // by backend, "" for all others
	Ledger   Ledger              `json:"ledger"`             // sum over the plans, and of workers without a run
	Elapsed  int64               `json:"elapsed_ns"`         // with at least one run in flight
	Plans    []PlanStats         `json:"plans,omitempty"`
	Rounds   []RoundStats        `json:"rounds,omitempty"`
	Scopes   []ScopeStats        `json:"scopes,omitempty"` // parents before children
	Requests *RequestStats       `json:"requests,omitempty"`
	Counters []CounterStats      `json:"counters,omitempty"`
	Memory   map[string]int64    `json:"memory_bytes,omitempty"` // by class; the Go heap among them
	Devices  []DeviceMemory      `json:"devices,omitempty"`
	Overhead *Overhead           `json:"overhead,omitempty"`
	Go       *GoStats            `json:"go,omitempty"` // what the Go runtime did meanwhile

	Process   *ProcessStats   `json:"process,omitempty"`   // the whole of it
	Processor *ProcessorStats `json:"processor,omitempty"` // what the system counted meanwhile
	Resident  *Residency      `json:"resident,omitempty"`  // who holds the memory of the process
	Probes    []ProbeStats    `json:"probes,omitempty"`    // ceilings, sampled between runs
	Canaries  *Canaries       `json:"canaries,omitempty"`

	BadRuns   int64    `json:"bad_runs,omitempty"`  // left out because of missing stamps
	Abandoned int64    `json:"abandoned,omitempty"` // given back before they completed
	Warnings  []string `json:"warnings,omitempty"`

	Runs        []RawRun     `json:"raw_runs,omitempty"`       // the first and last of each plan
	ScopeEvents []ScopeEvent `json:"raw_scopes,omitempty"`     // the first and last
	RunScopes   []int        `json:"raw_run_scopes,omitempty"` // of each of Runs: 1 and the position in Scopes of the scope that it began in; 0: none
}

// Facts describes the machine and the model.
type Facts struct {
	CPU       string            `json:"cpu,omitempty"`
	Tier      string            `json:"tier,omitempty"` // avx512, neon: the kernels in use
	Cores     int               `json:"cores,omitempty"`
	Threads   int               `json:"threads,omitempty"`
	Device    string            `json:"device,omitempty"`
	Go        string            `json:"go,omitempty"`
	OS        string            `json:"os,omitempty"`
	Arch      string            `json:"arch,omitempty"`
	Model     string            `json:"model,omitempty"`
	Params    int64             `json:"params,omitempty"`
	Precision string            `json:"precision,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"`
}

func (f Facts) merge(n Facts) Facts {
	for _, s := range []struct {
		to   *string
		from string
	}{
		{&f.CPU, n.CPU}, {&f.Tier, n.Tier}, {&f.Device, n.Device}, {&f.Go, n.Go}, {&f.OS, n.OS},
		{&f.Arch, n.Arch}, {&f.Model, n.Model}, {&f.Precision, n.Precision},
	} {
		if s.from != "" {
			*s.to = s.from
		}
	}
	if n.Cores != 0 {
		f.Cores = n.Cores
	}
	if n.Threads != 0 {
		f.Threads = n.Threads
	}
	if n.Params != 0 {
		f.Params = n.Params
	}
	extra := maps.Clone(f.Extra)
	if extra == nil && len(n.Extra) > 0 {
		extra = map[string]string{}
	}
	maps.Copy(extra, n.Extra)
	f.Extra = extra
	return f
}

// PlanStats is one plan over all its runs.
type PlanStats struct {
	Plan
	Ledger Ledger       `json:"ledger"`
	ByLane []LaneLedger `json:"by_lane"`
	Stats  []StepStats  `json:"step_stats"`             // [step]
	Run    Dist         `json:"run"`                    // of wall time
	First  int64        `json:"first_run_ns,omitempty"` // the cold one: it touches its memory for the first time

	// Elapsed is the plan's part of the time in which runs were in flight. For
	// runs that never overlapped others it is their wall time. Overlapping runs
	// share each moment in proportion to their lanes.
	Elapsed int64 `json:"elapsed_ns"`

	Samples *RunSamples `json:"samples,omitempty"`

	// ExactSwitches reports that the system marked the steps that lost their
	// processor. Otherwise such steps are inferred: they took much longer than
	// usual.
	ExactSwitches bool `json:"exact_switches,omitempty"`

	ByScope []ScopePart `json:"by_scope,omitempty"`

	Tokens    int64 `json:"tokens,omitempty"`
	Sequences int64 `json:"sequences,omitempty"`
	Rows      int64 `json:"rows,omitempty"`

	// Heap is what was allocated on the Go heap while runs were in flight, by
	// the whole process; nil where [Options.Heap] did not ask for it.
	Heap *HeapCount `json:"heap,omitempty"`
}

// TokensPerSecond is over the time that the plan's runs took of the machine.
func (p *PlanStats) TokensPerSecond() float64 { return table.PerTime(p.Tokens, p.Elapsed) * 1e9 }

// AtOnce is the average number of runs of this width in flight at once; 1 if runs
// never overlapped.
func (p *PlanStats) AtOnce() float64 {
	if p.Elapsed <= 0 || p.Elapsed >= p.Ledger.Wall {
		return 1
	}
	return float64(p.Ledger.Wall) / float64(p.Elapsed)
}

// LanesAtOnce is how many lanes were in flight at once while the plan's runs
// were, on average.
func (p *PlanStats) LanesAtOnce() float64 { return float64(len(p.Lanes)) * p.AtOnce() }

// elapsedOf turns wall time of the plan's runs into time of the machine.
func (p *PlanStats) elapsedOf(wall int64) int64 {
	if n := p.AtOnce(); n > 1 {
		return int64(float64(wall) / n)
	}
	return wall
}

// BytesPerToken is the number of bytes that the plan's steps moved per token.
func (p *PlanStats) BytesPerToken() float64 {
	var bytes int64
	for i := range p.Stats {
		bytes += p.Stats[i].Bytes
	}
	return table.PerTime(bytes, p.Tokens)
}

// StepStats is one step over all runs. Total and Self are wall-equivalent: lane
// time divided by the number of lanes of all runs in flight. So Total, Self and
// the ledger's waits add up to wall-clock time.
//
// Clock is the wall-clock time of the step, from the beginning of its first lane
// to the end of its last, whether other lanes worked or waited. Compare Clock
// with the limits of the machine. Steps and runs that overlap share the clock in
// proportion to their lanes, so the sum over steps never exceeds the elapsed
// time.
type StepStats struct {
	Calls int64 `json:"calls"`
	Total int64 `json:"total_ns"` // Self and the wait at the barrier before it
	Self  int64 `json:"self_ns"`  // compute
	Clock int64 `json:"clock_ns"` // Self and what other lanes waited meanwhile
	Floor int64 `json:"floor_ns"` // max(FLOPs/peak, bytes/bandwidth); 0 where no ceiling is known
	Lost  int64 `json:"lost_ns"`  // Clock − OffClock − Floor; 0 where no ceiling is known
	// LostLow and LostHigh hold what another recording of the same build loses, with
	// about 95 per cent: 0 to all of the time if there are too few runs to know. Both
	// are 0 if no ceilings were sampled.
	LostLow  int64 `json:"lost_low_ns,omitempty"`
	LostHigh int64 `json:"lost_high_ns,omitempty"`
	// FloorLow and FloorHigh are the floor at the highest and at the lowest of the
	// ceilings that were sampled through the recording; both 0 where none were.
	FloorLow  int64 `json:"floor_low_ns,omitempty"`
	FloorHigh int64 `json:"floor_high_ns,omitempty"`
	// Roof tells the parts of Clock; nil where no ceilings were sampled.
	Roof  *RoofSplit `json:"roof,omitempty"`
	FLOPs int64      `json:"flops"`
	Bytes int64      `json:"bytes"`
	Span  Dist       `json:"span"` // elapsed per call: first Begin to last End; behind a barrier from the end of all steps before

	LaneCompute []int64 `json:"lane_compute_ns"` // [lane]
	LaneWait    []int64 `json:"lane_wait_ns"`    // [lane]

	// Longest is the time of the busiest lane of each call, added up. Even is what each
	// lane would take if those that take part in a call had equal parts. Both leave out
	// the time without a processor if the system marks it, and are 0 in older files.
	Longest int64 `json:"longest_lane_ns,omitempty"`
	Even    int64 `json:"even_lane_ns,omitempty"`

	// OffCPU is how much of LaneCompute, over all lanes, had no processor:
	// measured by lane and run, and placed in the steps that lost it.
	OffCPU int64 `json:"off_cpu_ns,omitempty"`
	// OffClock is how much of Clock a lane had no processor: no kernel lost it.
	OffClock int64 `json:"off_clock_ns,omitempty"`

	// Heap is what was allocated on the Go heap while the step ran; nil where
	// [Options.Heap] did not ask for it, or the backend does not say.
	Heap *HeapCount `json:"heap,omitempty"`
}

// ScopeStats is one path of the user's scopes.
type ScopeStats struct {
	ID     int    `json:"id"`     // its position in Profile.Scopes
	Parent int    `json:"parent"` // -1 at the top
	Name   string `json:"name"`
	Calls  int64  `json:"calls"`    // completed, recursive ones included
	Total  int64  `json:"total_ns"` // outermost calls only
	Self   int64  `json:"self_ns"`  // while no child was open
	Open   int64  `json:"open,omitempty"`
	Call   Dist   `json:"call"`
	// Heap is what the whole process allocated while outermost calls were open;
	// nil where [Options.Heap] did not ask for it.
	Heap *HeapCount `json:"heap,omitempty"`
}

// ScopeEvent is one completed scope.
type ScopeEvent struct {
	Scope int    `json:"scope"`
	Frame uint64 `json:"frame"`
	Under uint64 `json:"under"` // the enclosing frame, 0 at the top
	Start int64  `json:"start_ns"`
	End   int64  `json:"end_ns"`
}

// RequestStats is all requests, with the first and last of them.
type RequestStats struct {
	Duration   Dist `json:"duration"`
	FirstToken Dist `json:"time_to_first_token"`
	PerToken   Dist `json:"time_per_output_token"`
	// The parts of FirstToken, as the caller sees it.
	Tokenize     Dist      `json:"tokenize"`
	Compile      Dist      `json:"compile"`
	Queue        Dist      `json:"queue"`
	Prefill      Dist      `json:"prefill"`
	Hand         Dist      `json:"hand_over"`
	PromptTokens int64     `json:"prompt_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	Kept         []Request `json:"raw,omitempty"`
	// Parts is the part of each request in the runs that it shared with others.
	Parts []RequestPart `json:"parts,omitempty"`
}

// CounterStats is one counter with its first and last samples.
type CounterStats struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit,omitempty"`
	Last    float64  `json:"last"`
	Peak    float64  `json:"peak"`
	Samples int64    `json:"samples"`
	Kept    []Sample `json:"raw,omitempty"`
}

// RawRun is the stamps of one run, as the lanes left them.
type RawRun struct {
	Plan      int       `json:"plan"`  // its position in Profile.Plans
	Index     int64     `json:"index"` // among the plan's runs
	Start     int64     `json:"start_ns"`
	End       int64     `json:"end_ns"`
	Tokens    int       `json:"tokens,omitempty"`
	Sequences int       `json:"sequences,omitempty"`
	Rows      int       `json:"rows,omitempty"`
	Request   string    `json:"request,omitempty"`
	Shares    []Share   `json:"shares,omitempty"`
	Lanes     []RawLane `json:"lanes"`
	FLOPs     []int64   `json:"flops"` // [step]
	Bytes     []int64   `json:"bytes"` // [step]
}

// RawLane is the stamps of one lane of a run; see [LaneSlots].
type RawLane struct {
	Wake   int64   `json:"wake_ns,omitempty"`
	Done   int64   `json:"done_ns,omitempty"`
	Wait   int64   `json:"wait_ns,omitempty"`
	Absent bool    `json:"absent,omitempty"`
	Arrive []int64 `json:"arrive_ns"` // [step]
	Begin  []int64 `json:"begin_ns"`  // [step]
	End    []int64 `json:"end_ns"`    // [step]
}
