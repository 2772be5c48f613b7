package profile

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// stepColumn is one column of the step tables: head and text for people, field
// and raw for CSV. A column may be missing from either.
type stepColumn struct {
	head  string
	right bool
	text  func(*Profile, StepResult) string
	field string
	raw   func(*Profile, StepResult) string
}

var stepColumns = []stepColumn{
	{field: "plan", raw: func(_ *Profile, s StepResult) string { return s.Plan.ID }},
	{"phase", false, phase, "phase", phase},
	{field: "device", raw: func(_ *Profile, s StepResult) string { return s.Plan.deviceName() }},
	{field: "layer", raw: func(_ *Profile, s StepResult) string { return strconv.Itoa(s.Step.Layer) }},
	{"step", false, name, "name", name},
	{"op", false, op, "op", op},
	{"kernel", false, kernel, "kernel", kernel},
	{field: "class", raw: func(_ *Profile, s StepResult) string { return s.Step.Class }},
	{"calls", true, calls, "calls", calls},
	{"total ms", true, func(_ *Profile, s StepResult) string { return ms(s.Total) },
		"total_ns", func(_ *Profile, s StepResult) string { return integer(s.Total) }},
	{"self ms", true, func(_ *Profile, s StepResult) string { return ms(s.Self) },
		"self_ns", func(_ *Profile, s StepResult) string { return integer(s.Self) }},
	{"clock ms", true, func(_ *Profile, s StepResult) string { return ms(s.Clock) },
		"clock_ns", func(_ *Profile, s StepResult) string { return integer(s.Clock) }},
	{"%", true, func(p *Profile, s StepResult) string { return fmt.Sprintf("%.2f", share(p, s)) },
		"percent", func(p *Profile, s StepResult) string { return number(share(p, s)) }},
	{field: "span_min_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.Span.Min) }},
	{field: "span_mean_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.Span.Mean) }},
	{"p50 us", true, func(_ *Profile, s StepResult) string { return us(s.Span.P50) },
		"span_p50_ns", func(_ *Profile, s StepResult) string { return integer(s.Span.P50) }},
	{"p95 us", true, func(_ *Profile, s StepResult) string { return us(s.Span.P95) },
		"span_p95_ns", func(_ *Profile, s StepResult) string { return integer(s.Span.P95) }},
	{"p99 us", true, func(_ *Profile, s StepResult) string { return us(s.Span.P99) },
		"span_p99_ns", func(_ *Profile, s StepResult) string { return integer(s.Span.P99) }},
	{field: "span_max_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.Span.Max) }},
	{field: "wait_lane_ns", raw: func(_ *Profile, s StepResult) string { return integer(sum(s.LaneWait)) }},
	{"uneven %", true, func(_ *Profile, s StepResult) string { return fmt.Sprintf("%.1f", s.Imbalance()) },
		"imbalance_percent", func(_ *Profile, s StepResult) string { return number(s.Imbalance()) }},
	{field: "flops", raw: func(_ *Profile, s StepResult) string { return integer(s.FLOPs) }},
	{field: "bytes", raw: func(_ *Profile, s StepResult) string { return integer(s.Bytes) }},
	{field: "alloc_bytes", raw: func(_ *Profile, s StepResult) string { return integer(s.Step.Alloc) }},
	{"GFLOP/s", true, func(_ *Profile, s StepResult) string { return rate(s.GFLOPS()) },
		"gflops", func(_ *Profile, s StepResult) string { return number(s.GFLOPS()) }},
	{"GB/s", true, func(_ *Profile, s StepResult) string { return rate(s.GBps()) },
		"gbps", func(_ *Profile, s StepResult) string { return number(s.GBps()) }},
	{"FLOP/B", true, func(_ *Profile, s StepResult) string { return rate(s.Intensity()) },
		"intensity", func(_ *Profile, s StepResult) string { return number(s.Intensity()) }},
	{"roofline %", true, func(_ *Profile, s StepResult) string { return roof(s.Floor, s.Clock) },
		"roofline_percent", func(_ *Profile, s StepResult) string { return number(s.Roofline()) }},
	{"lost ms", true, func(_ *Profile, s StepResult) string { return lostRange(s) },
		"lost_ns", func(_ *Profile, s StepResult) string { return integer(s.Lost) }},
	{field: "heap_objects", raw: func(_ *Profile, s StepResult) string { return counted(s.Heap, s.heap().Objects) }},
	{field: "heap_bytes", raw: func(_ *Profile, s StepResult) string { return counted(s.Heap, s.heap().Bytes) }},
	{field: "floor_low_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.FloorLow) }},
	{field: "floor_high_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.FloorHigh) }},
	{field: "off_cpu_lane_ns", raw: func(_ *Profile, s StepResult) string { return integer(s.OffCPU) }},
}

func phase(_ *Profile, s StepResult) string  { return s.Plan.Phase }
func name(_ *Profile, s StepResult) string   { return s.Step.Name }
func op(_ *Profile, s StepResult) string     { return s.Step.Op }
func kernel(_ *Profile, s StepResult) string { return s.Step.Kernel }
func calls(_ *Profile, s StepResult) string  { return integer(s.Calls) }

// counted is empty where nobody counted: 0 would say that there was nothing.
func counted(h *HeapCount, n int64) string {
	if h == nil {
		return ""
	}
	return integer(n)
}

// share is the step's compute as a part of all lane time, so that the shares
// of all steps add up to the ledger's compute.
func share(p *Profile, s StepResult) float64 { return percent(s.LaneTime(), p.Ledger.LaneTime) }

func stepsTable(p *Profile, o ReportOptions) table {
	top := p.Top(o.Top, o.By)
	t := table{title: "steps", note: fmt.Sprintf("top %d by %s; total is self and the wait before it, lane time / lanes in flight; clock is until the last lane ends, and lost what of it is beyond the roofline; p50, p95 and p99 are of single calls", len(top), o.By)}
	if slices.ContainsFunc(top, func(s StepResult) bool { return s.Lost < 0 }) {
		t.note += "; " + aboveNote
	}
	for _, c := range stepColumns {
		if c.text != nil {
			t.cols = append(t.cols, col{c.head, c.right})
		}
	}
	for _, s := range top {
		var cells []string
		for _, c := range stepColumns {
			if c.text != nil {
				cells = append(cells, c.text(p, s))
			}
		}
		t.add(plain, cells...)
	}
	return t
}

// CSV writes one row a step, in plan order, in nanoseconds and plain numbers.
func CSV(w io.Writer, p *Profile) error {
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
	for _, s := range p.Where(func(StepResult) bool { return true }) {
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

func percentCell(v float64) string { return fmt.Sprintf("%.2f", v) }

func ms(ns int64) string        { return fmt.Sprintf("%.3f", float64(ns)/1e6) }
func us(ns int64) string        { return fmt.Sprintf("%.1f", float64(ns)/1e3) }
func integer(n int64) string    { return strconv.FormatInt(n, 10) }
func number(v float64) string   { return strconv.FormatFloat(v, 'g', -1, 64) }
func rate(perNs float64) string { return fmt.Sprintf("%.1f", perNs) }

// roof and lost are dashes where no ceiling is known: a number would be a lie.
// A step whose work is not known has no floor, and all of it is lost.
func roof(floor, clock int64) string {
	if floor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", percent(floor, clock))
}

// lostRange is the lost time of a step with the interval of its ceilings.
func lostRange(s StepResult) string {
	text := lost(s.Floor, s.Lost)
	if s.FloorHigh > 0 {
		text += fmt.Sprintf(" (%s to %s)", ms(s.Clock-s.FloorHigh), ms(s.Clock-s.FloorLow))
	}
	return text
}

func lost(floor, lost int64) string {
	if floor == 0 && lost == 0 {
		return "-"
	}
	return ms(lost)
}

// si writes a number with three digits and its decimal prefix, ready for a
// unit.
func si(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for ; v >= 1000 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " " + prefixes[i]
}
