package profile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// ErrFormat is matched by every error about a profile file that cannot be
// read.
var ErrFormat = errors.New("not a readable hotpath profile")

// maxFile bounds what ReadFile takes into memory.
const maxFile = 1 << 30

// Write encodes the profile as one JSON document.
func (p *Profile) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(p)
}

// WriteFile writes the profile so that the file is either the old one or the
// whole new one, never a part.
func (p *Profile) WriteFile(path string) error { return writeAtomic(path, p.Write) }

// ReadFile reads and checks a profile file.
func ReadFile(path string) (*Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %w: larger than %d bytes", path, ErrFormat, maxFile)
	}
	return Read(path, data)
}

// Read decodes and checks a profile. name is what errors call the file.
func Read(name string, data []byte) (*Profile, error) {
	p, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrFormat, err)
	}
	return p, nil
}

func read(data []byte) (*Profile, error) {
	if err := scan(data); err != nil {
		return nil, err
	}
	// The version comes first: what a newer writer put into the other fields
	// is not for this reader to judge.
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if head.Format != Format {
		return nil, fmt.Errorf("field format is %.40q, expected %q", head.Format, Format)
	}
	if head.Version > Version {
		return nil, fmt.Errorf("field version is %d, this program reads up to %d: a newer hotpath wrote it", head.Version, Version)
	}
	if head.Version < 1 {
		return nil, fmt.Errorf("field version is %d, expected 1 to %d", head.Version, Version)
	}
	p := new(Profile)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if head.Version < 3 { // which say nothing of runs side by side
		for i := range p.Plans {
			p.Plans[i].Elapsed = p.Plans[i].Ledger.Wall
		}
		p.Elapsed = p.Ledger.Wall
	}
	p.Version = Version // what it is written as from here on
	return p, nil
}

// minObject is less than the encoded size of any of our records.
const minObject = 16

// scan bounds what decoding can allocate by the size of the file: no record of
// ours is empty, so a file of many records is a long file, and none is null.
func scan(data []byte) error {
	var objects int
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			objects++
		case c == 'n':
			return fmt.Errorf("null at byte %d, expected a value", i)
		}
	}
	if objects > len(data)/minObject+16 {
		return fmt.Errorf("%d records in %d bytes, expected at least %d bytes each", objects, len(data), minObject)
	}
	return nil
}

// check holds what every report and exporter relies on.
func (p *Profile) check() error {
	if p.Elapsed < 0 {
		return fmt.Errorf("elapsed_ns is %d, expected none below 0", p.Elapsed)
	}
	for i := range p.Plans {
		if err := p.Plans[i].checkStats(); err != nil {
			return fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	for backend, c := range p.Ceilings {
		if err := c.check(); err != nil {
			return fmt.Errorf("ceilings[%q]: %w", backend, err)
		}
	}
	for i, s := range p.Scopes {
		if s.ID != i || s.Parent < -1 || s.Parent >= i {
			return fmt.Errorf("scopes[%d]: id %d under %d, expected id %d under an earlier one", i, s.ID, s.Parent, i)
		}
		if min(s.Calls, s.Total, s.Self, s.Open) < 0 {
			return fmt.Errorf("scopes[%d]: %d calls, total %d, self %d, %d open, expected none below 0", i, s.Calls, s.Total, s.Self, s.Open)
		}
		if err := s.Heap.check(); err != nil {
			return fmt.Errorf("scopes[%d]: heap: %w", i, err)
		}
	}
	for i, e := range p.ScopeEvents {
		if e.Scope < 0 || e.Scope >= len(p.Scopes) || e.Start < 0 || e.End < e.Start {
			return fmt.Errorf("raw_scopes[%d]: scope %d from %d to %d, expected one of %d scopes and times in order", i, e.Scope, e.Start, e.End, len(p.Scopes))
		}
	}
	for i, c := range p.Counters {
		for j, sample := range c.Kept {
			if sample.At < 0 {
				return fmt.Errorf("counters[%d].raw[%d]: at %d, expected no moment below 0", i, j, sample.At)
			}
		}
	}
	if p.Requests != nil {
		for i := range p.Requests.Kept {
			if err := p.Requests.Kept[i].check(); err != nil {
				return fmt.Errorf("requests.raw[%d]: %w", i, err)
			}
		}
	}
	for i := range p.Runs {
		if err := p.checkRun(&p.Runs[i]); err != nil {
			return fmt.Errorf("raw_runs[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *PlanStats) checkStats() error {
	if err := s.Plan.check(); err != nil {
		return err
	}
	if len(s.ByLane) != len(s.Lanes) || len(s.Stats) != len(s.Steps) {
		return fmt.Errorf("by_lane has %d and step_stats %d entries, expected %d and %d", len(s.ByLane), len(s.Stats), len(s.Lanes), len(s.Steps))
	}
	for i := range s.Stats {
		if st := &s.Stats[i]; len(st.LaneCompute) != len(s.Lanes) || len(st.LaneWait) != len(s.Lanes) {
			return fmt.Errorf("step_stats[%d]: %d compute and %d wait times, expected one of each for %d lanes", i, len(st.LaneCompute), len(st.LaneWait), len(s.Lanes))
		}
		if err := s.Stats[i].check(); err != nil {
			return fmt.Errorf("step_stats[%d]: %w", i, err)
		}
	}
	if l := &s.Ledger; min(l.Runs, l.Wall, l.LaneTime, l.Compute) < 0 {
		return fmt.Errorf("ledger: %d runs, wall %d, lane time %d, compute %d, expected none below 0", l.Runs, l.Wall, l.LaneTime, l.Compute)
	}
	if err := s.Heap.check(); err != nil {
		return fmt.Errorf("heap: %w", err)
	}
	if s.Elapsed < 0 || s.Elapsed > s.Ledger.Wall {
		return fmt.Errorf("elapsed_ns is %d, expected 0 to the runs' %d", s.Elapsed, s.Ledger.Wall)
	}
	if s.Samples != nil {
		return s.Samples.check(len(s.Steps))
	}
	return nil
}

// check finds counts and times that nothing can have.
func (st *StepStats) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"calls", st.Calls}, {"total_ns", st.Total}, {"self_ns", st.Self}, {"floor_ns", st.Floor}, {"flops", st.FLOPs}, {"bytes", st.Bytes},
		{"span.min_ns", st.Span.Min}, {"lane_compute_ns", slices.Min(st.LaneCompute)}, {"lane_wait_ns", slices.Min(st.LaneWait)},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s is %d, expected none below 0", f.name, f.value)
		}
	}
	if err := st.Heap.check(); err != nil {
		return fmt.Errorf("heap: %w", err)
	}
	return nil
}

func (h *HeapCount) check() error {
	if h != nil && min(h.Objects, h.Bytes) < 0 {
		return fmt.Errorf("%d objects of %d bytes, expected none below 0", h.Objects, h.Bytes)
	}
	return nil
}

func (p *Profile) checkRun(r *RawRun) error {
	if r.Plan < 0 || r.Plan >= len(p.Plans) {
		return fmt.Errorf("plan %d, expected one of %d", r.Plan, len(p.Plans))
	}
	plan := &p.Plans[r.Plan].Plan
	run := Run{Start: r.Start, End: r.End, Lanes: make([]LaneSlots, len(r.Lanes)), Costs: make([]Cost, len(r.FLOPs))}
	if len(r.Bytes) != len(r.FLOPs) {
		return fmt.Errorf("%d byte counts for %d FLOP counts", len(r.Bytes), len(r.FLOPs))
	}
	if least := min(least(r.FLOPs), least(r.Bytes)); least < 0 {
		return fmt.Errorf("%d FLOPs or bytes of a step, expected none below 0", least)
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		run.Lanes[i] = LaneSlots{Wake: l.Wake, Done: l.Done, Absent: l.Absent, Arrive: l.Arrive, Begin: l.Begin, End: l.End}
	}
	return run.check(plan, make([]stepSpan, len(plan.Steps)))
}

// writeAtomic writes a temporary file beside path, syncs it and renames it
// over path. On an error path is as it was and the temporary file is gone.
func writeAtomic(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	b := bufio.NewWriterSize(f, 1<<16)
	if err = write(b); err != nil {
		return err
	}
	if err = b.Flush(); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	// The rename itself is durable once the folder is; not every file system
	// can sync a folder, and the file is whole either way.
	if d, derr := os.Open(dir); derr == nil {
		d.Sync()
		d.Close()
	}
	return nil
}
