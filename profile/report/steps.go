package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// stepColumn is one column of the step tables: head and text for people, field
// and raw for CSV. A column may be missing from either.
type stepColumn struct {
	head  string
	right bool
	text  func(*profile.Profile, profile.StepResult) string
	field string
	raw   func(*profile.Profile, profile.StepResult) string
}

var stepColumns = []stepColumn{
	{field: "plan", raw: func(_ *profile.Profile, s profile.StepResult) string { return s.Plan.ID }},
	{"phase", false, phase, "phase", phase},
	{field: "device", raw: func(_ *profile.Profile, s profile.StepResult) string { return s.Plan.DeviceName() }},
	{field: "layer", raw: func(_ *profile.Profile, s profile.StepResult) string { return strconv.Itoa(s.Step.Layer) }},
	{"step", false, name, "name", name},
	{"op", false, op, "op", op},
	{"kernel", false, kernel, "kernel", kernel},
	{field: "class", raw: func(_ *profile.Profile, s profile.StepResult) string { return s.Step.Class }},
	{"calls", true, calls, "calls", calls},
	{"total ms", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Ms(s.Total) },
		"total_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Total) }},
	{"self ms", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Ms(s.Self) },
		"self_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Self) }},
	{"clock ms", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Ms(s.Clock) },
		"clock_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Clock) }},
	{"%", true, func(p *profile.Profile, s profile.StepResult) string { return fmt.Sprintf("%.2f", share(p, s)) },
		"percent", func(p *profile.Profile, s profile.StepResult) string { return table.Number(share(p, s)) }},
	{field: "span_min_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.Min) }},
	{field: "span_mean_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.Mean) }},
	{"p50 us", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Us(s.Span.P50) },
		"span_p50_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.P50) }},
	{"p95 us", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Us(s.Span.P95) },
		"span_p95_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.P95) }},
	{"p99 us", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Us(s.Span.P99) },
		"span_p99_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.P99) }},
	{field: "span_max_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Span.Max) }},
	{field: "wait_lane_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(table.Sum(s.LaneWait)) }},
	{"uneven %", true, uneven, "imbalance_percent", imbalance},
	{field: "flops", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.FLOPs) }},
	{field: "bytes", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Bytes) }},
	{field: "alloc_bytes", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Step.Alloc) }},
	{"GFLOP/s", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Rate(s.GFLOPS()) },
		"gflops", func(_ *profile.Profile, s profile.StepResult) string { return table.Number(s.GFLOPS()) }},
	{"GB/s", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Rate(s.GBps()) },
		"gbps", func(_ *profile.Profile, s profile.StepResult) string { return table.Number(s.GBps()) }},
	{"FLOP/B", true, func(_ *profile.Profile, s profile.StepResult) string { return table.Rate(s.Intensity()) },
		"intensity", func(_ *profile.Profile, s profile.StepResult) string { return table.Number(s.Intensity()) }},
	{"roofline %", true, func(_ *profile.Profile, s profile.StepResult) string { return roof(s.Floor, s.Clock) },
		"roofline_percent", func(_ *profile.Profile, s profile.StepResult) string { return table.Number(s.Roofline()) }},
	{"lost ms", true, func(_ *profile.Profile, s profile.StepResult) string { return lostRange(s) },
		"lost_ns", func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.Lost) }},
	{field: "heap_objects", raw: func(_ *profile.Profile, s profile.StepResult) string { return counted(s.Heap, s.HeapCounted().Objects) }},
	{field: "heap_bytes", raw: func(_ *profile.Profile, s profile.StepResult) string { return counted(s.Heap, s.HeapCounted().Bytes) }},
	{field: "floor_low_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.FloorLow) }},
	{field: "floor_high_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.FloorHigh) }},
	{field: "off_cpu_lane_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.OffCPU) }},
	{field: "lost_low_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.LostLow) }},
	{field: "lost_high_ns", raw: func(_ *profile.Profile, s profile.StepResult) string { return table.Integer(s.LostHigh) }},
}

func phase(_ *profile.Profile, s profile.StepResult) string  { return s.Plan.Phase }
func name(_ *profile.Profile, s profile.StepResult) string   { return s.Step.Name }
func op(_ *profile.Profile, s profile.StepResult) string     { return s.Step.Op }
func kernel(_ *profile.Profile, s profile.StepResult) string { return s.Step.Kernel }
func calls(_ *profile.Profile, s profile.StepResult) string  { return table.Integer(s.Calls) }

// uneven is a dash if the recording does not have the lanes of single calls.
func uneven(_ *profile.Profile, s profile.StepResult) string {
	if v, known := s.Imbalance(); known {
		return fmt.Sprintf("%.1f", v)
	}
	return "-"
}

func imbalance(_ *profile.Profile, s profile.StepResult) string {
	if v, known := s.Imbalance(); known {
		return table.Number(v)
	}
	return ""
}

// counted is empty if allocations were not counted: 0 would mean that there were none.
func counted(h *profile.HeapCount, n int64) string {
	if h == nil {
		return ""
	}
	return table.Integer(n)
}

// share is the step's compute as a part of all lane time, so that the shares
// of all steps add up to the ledger's compute.
func share(p *profile.Profile, s profile.StepResult) float64 {
	return table.Percent(s.LaneTime(), p.Ledger.LaneTime)
}

func stepsTable(p *profile.Profile, o Options) table.Table {
	top := p.Top(o.Top, o.By)
	t := table.Table{Title: "steps", Note: fmt.Sprintf("top %d by %s; total is self and the wait before it, lane time / lanes in flight; clock is until the last lane ends, and lost what of it is beyond the roofline; p50, p95 and p99 are of single calls; uneven is how much longer the busiest lane of a call computed than the mean of its lanes", len(top), o.By)}
	if slices.ContainsFunc(top, func(s profile.StepResult) bool { return s.Lost < 0 }) {
		t.Note += "; " + aboveNote
	}
	for _, c := range stepColumns {
		if c.text != nil {
			t.Cols = append(t.Cols, table.Col{Head: c.head, Right: c.right})
		}
	}
	for _, s := range top {
		var cells []string
		for _, c := range stepColumns {
			if c.text != nil {
				cells = append(cells, c.text(p, s))
			}
		}
		t.Add(table.Plain, cells...)
	}
	return t
}

// CSV writes one row a step, in plan order, in nanoseconds and plain numbers.
func CSV(w io.Writer, p *profile.Profile) error {
	return writeCSV(w, p, p.Where(func(profile.StepResult) bool { return true }))
}

// TopCSV writes o.Top steps that ran as CSV, all of them if it is 0 or less, the
// first by o.By before the others.
func TopCSV(w io.Writer, p *profile.Profile, o Options) error {
	return writeCSV(w, p, p.Top(o.Top, o.By))
}

func writeCSV(w io.Writer, p *profile.Profile, steps []profile.StepResult) error {
	out := csv.NewWriter(w)
	var cells []string
	for _, c := range stepColumns {
		if c.raw != nil {
			cells = append(cells, c.field)
		}
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	for _, s := range steps {
		cells = cells[:0]
		for _, c := range stepColumns {
			if c.raw != nil {
				cells = append(cells, c.raw(p, s))
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// roof and lost are dashes if no ceiling is known. A step with unknown work has
// no floor, and all of its time is lost.
func roof(floor, clock int64) string {
	if floor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", table.Percent(floor, clock))
}

// lostRange is the lost time of a step with its interval.
func lostRange(s profile.StepResult) string {
	text := lost(s.Floor, s.Lost)
	if s.LostHigh > s.LostLow {
		text += fmt.Sprintf(" (%s to %s)", table.Ms(s.LostLow), table.Ms(s.LostHigh))
	}
	return text
}

func lost(floor, lost int64) string {
	if floor == 0 && lost == 0 {
		return "-"
	}
	return table.Ms(lost)
}
