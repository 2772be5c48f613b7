package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hotpath/profile"
)

// The processes of a trace: rows that belong together in the viewer.
const (
	tracePidLanes = 1 + iota
	tracePidScopes
	tracePidRequests
)

// writeTrace writes the kept runs, scopes, requests and counter samples in the
// Chrome trace format. Each lane is a thread. Events that would not nest in
// their thread, such as overlapping device kernels, become asynchronous ones.
func writeTrace(w io.Writer, p *profile.Profile) error {
	t := &traceWriter{w: newTraceBuffer(w)}
	t.write(p)
	return t.err
}

func newTraceBuffer(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 1<<16) }

func (t *traceWriter) write(p *profile.Profile) {
	t.raw(`{"displayTimeUnit":"ns","otherData":`)
	t.json(map[string]any{"format": profile.Format, "version": profile.Version, "model": p.Facts.Model})
	t.raw(`,"traceEvents":[`)
	t.lanes(p)
	t.scopes(p)
	t.requests(p)
	t.counters(p)
	t.raw("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
}

type traceWriter struct {
	w      *bufio.Writer
	err    error
	events int
	async  int
	digits [20]byte
}

type arg struct {
	key   string
	value any
}

// span is an event with a duration, before it is known whether it nests.
type span struct {
	name, cat  string
	start, end int64
	args       []arg
}

func (t *traceWriter) raw(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

// json writes a value. Numbers and plain names are most of a trace, and need no
// reflection.
func (t *traceWriter) json(v any) {
	switch v := v.(type) {
	case string:
		if plainText(v) {
			t.raw(`"`)
			t.raw(v)
			t.raw(`"`)
			return
		}
	case int:
		t.number(int64(v))
		return
	case int64:
		t.number(v)
		return
	}
	b, err := json.Marshal(v)
	if err != nil && t.err == nil {
		t.err = err
	}
	t.raw(string(b))
}

func (t *traceWriter) number(n int64) {
	if t.err == nil {
		_, t.err = t.w.Write(strconv.AppendInt(t.digits[:0], n, 10))
	}
}

// plainText reports whether a string stands for itself in JSON.
func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// threadID is unique over all processes, as Perfetto requires. It is not 0, which
// is the system's idle thread.
func threadID(pid, row int) int { return pid<<20 + row + 1 }

// micros is exact: the trace counts in microseconds, we in nanoseconds, none
// of them below 0.
func micros(ns int64) string {
	b := strconv.AppendInt(make([]byte, 0, 24), ns/1000, 10)
	rest := ns % 1000
	return string(append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10)))
}

// event writes one event. fields are the fields specific to its kind, with a
// leading comma.
func (t *traceWriter) event(ph, name, cat string, pid, tid int, ts int64, fields string, args []arg) {
	if t.events > 0 {
		t.raw(",")
	}
	t.events++
	t.raw("\n" + `{"ph":"` + ph + `","name":`)
	t.json(name)
	if cat != "" {
		t.raw(`,"cat":`)
		t.json(cat)
	}
	t.raw(`,"pid":` + strconv.Itoa(pid) + `,"tid":` + strconv.Itoa(tid) + `,"ts":` + micros(ts) + fields)
	if len(args) > 0 {
		t.raw(`,"args":{`)
		for i, a := range args {
			if i > 0 {
				t.raw(",")
			}
			t.json(a.key)
			t.raw(":")
			t.json(a.value)
		}
		t.raw("}")
	}
	t.raw("}")
}

func (t *traceWriter) name(kind string, pid, tid int, name string) {
	t.event("M", kind, "", pid, tid, 0, "", []arg{{"name", name}})
}

// thread writes the spans of one thread. A span that starts inside another and
// ends after it cannot be drawn in the same thread and is written as a pair of
// asynchronous events.
func (t *traceWriter) thread(pid, tid int, spans []span) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var open []int64 // ends of the enclosing spans
	for _, s := range spans {
		for len(open) > 0 && open[len(open)-1] <= s.start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1] < s.end {
			t.asyncPair(pid, tid, s)
			continue
		}
		open = append(open, s.end)
		t.event("X", s.name, s.cat, pid, tid, s.start, `,"dur":`+micros(s.end-s.start), s.args)
	}
}

func (t *traceWriter) asyncPair(pid, tid int, s span) {
	t.async++
	id := `,"id":"` + strconv.Itoa(t.async) + `"`
	t.event("b", s.name, s.cat, pid, tid, s.start, id, s.args)
	t.event("e", s.name, s.cat, pid, tid, s.end, id, nil)
}

// maxBeside is how many threads a lane may have. Runs beyond that share the last
// one, where they are asynchronous events. It bounds the search for a free one.
const maxBeside = 256

// lanes writes one thread per lane name: the workers of a team keep their threads
// over all plans. If a run began while another run used one of its lanes, as runs
// of single workers do, it gets additional threads.
func (t *traceWriter) lanes(p *profile.Profile) {
	var names []string
	var stops []flowStop
	threads, ends := map[string][]span{}, map[string][]int64{}
	order := make([]int, len(p.Runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Runs[a].Start, p.Runs[b].Start) })
	for _, i := range order {
		r := &p.Runs[i]
		plan := &p.Plans[r.Plan]
		busy := make([][]int64, len(plan.Lanes)) // per lane: when each of its threads is free
		for l, name := range plan.Lanes {
			busy[l] = ends[name]
		}
		n, beside := 0, ""
		for n < maxBeside-1 && slices.ContainsFunc(busy, func(until []int64) bool { return n < len(until) && until[n] > r.Start }) {
			n++
		}
		if n > 0 {
			beside = fmt.Sprintf(", run %d at once", n+1)
		}
		for l, name := range plan.Lanes {
			for len(ends[name]) <= n {
				ends[name] = append(ends[name], 0)
			}
			ends[name][n] = max(ends[name][n], r.End)
			name += beside
			if _, ok := threads[name]; !ok {
				names = append(names, name)
			}
			threads[name] = append(threads[name], laneSpans(plan, r, l)...)
			if l == 0 {
				for _, s := range r.Requests() {
					stops = append(stops, flowStop{s.Request, name, r.Start})
				}
			}
		}
	}
	if len(names) == 0 {
		return
	}
	t.name("process_name", tracePidLanes, threadID(tracePidLanes, 0), "hotpath lanes")
	for row, name := range names {
		tid := threadID(tracePidLanes, row)
		t.name("thread_name", tracePidLanes, tid, name)
		t.event("M", "thread_sort_index", "", tracePidLanes, tid, 0, "", []arg{{"sort_index", row}})
		t.thread(tracePidLanes, tid, threads[name])
	}
	t.flows(names, stops)
	for i := range p.Runs {
		r := &p.Runs[i]
		if plan := &p.Plans[r.Plan]; r.Tokens > 0 && r.End > r.Start {
			rate := float64(r.Tokens) / float64(r.End-r.Start) * 1e9 * plan.AtOnce() // of all that were in flight
			t.event("C", plan.Phase+" tok/s", "", tracePidLanes, threadID(tracePidLanes, 0), r.Start, "", []arg{{"tok/s", rate}})
		}
	}
}

// flowStop is the beginning of one run of a request.
type flowStop struct {
	request, lane string
	at            int64
}

// flows links the runs of each request, from the first to the last: a viewer
// draws arrows between them. What has one run only has nothing to link.
func (t *traceWriter) flows(lanes []string, stops []flowStop) {
	var order []string
	by := map[string][]flowStop{}
	row := make(map[string]int, len(lanes))
	for i, name := range lanes {
		row[name] = i
	}
	for _, s := range stops {
		if by[s.request] == nil {
			order = append(order, s.request)
		}
		by[s.request] = append(by[s.request], s)
	}
	for _, request := range order {
		all := by[request]
		if len(all) < 2 {
			continue
		}
		t.async++
		for i, s := range all {
			ph, fields := "t", `,"id":"`+strconv.Itoa(t.async)+`"`
			switch i {
			case 0:
				ph = "s"
			case len(all) - 1:
				ph, fields = "f", fields+`,"bp":"e"`
			}
			t.event(ph, "request", "request", tracePidLanes, threadID(tracePidLanes, row[s.lane]), s.at, fields, []arg{{"request", request}})
		}
	}
}

func laneSpans(plan *profile.PlanStats, r *profile.RawRun, lane int) []span {
	l := &r.Lanes[lane]
	outside, cat := "idle", "wait"
	if lane == 0 {
		outside, cat = "dispatch", "dispatch"
	}
	of := []arg{{"plan", plan.ID}, {"run", r.Index}}
	if l.Absent {
		return []span{{outside, cat, r.Start, r.End, append(of, arg{"why", "not called into the run"})}}
	}
	args := []arg{{"plan", plan.ID}, {"phase", plan.Phase}, {"run", r.Index}, {"tokens", r.Tokens}, {"sequences", r.Sequences}}
	if requests := r.Requests(); len(requests) > 0 {
		names := make([]string, len(requests))
		for i, s := range requests {
			names[i] = s.Request
		}
		args = append(args, arg{"request", strings.Join(names, ", ")})
	}
	spans := []span{{cmp.Or(plan.Name, plan.ID), "run", min(r.Start, l.Wake), max(r.End, l.Done), args}}
	if l.Wake > r.Start {
		spans = append(spans, span{outside, cat, r.Start, l.Wake, append(of, arg{"why", "before the lane entered the run"})})
	}
	for s := range plan.Steps {
		if l.Begin[s] == 0 {
			continue
		}
		if l.Arrive[s] < l.Begin[s] {
			spans = append(spans, span{"barrier wait", "wait", l.Arrive[s], l.Begin[s], []arg{{"before", plan.Steps[s].Name}}})
		}
		spans = append(spans, span{plan.Steps[s].Name, plan.Steps[s].Op, l.Begin[s], l.End[s], stepArgs(&plan.Steps[s], r, s)})
	}
	if l.Done < r.End {
		spans = append(spans, span{outside, cat, l.Done, r.End, append(of, arg{"why", "after the lane left the run"})})
	}
	return spans
}

func stepArgs(s *profile.Step, r *profile.RawRun, step int) []arg {
	args := []arg{{"kernel", s.Kernel}, {"layer", s.Layer}, {"flops of all lanes", r.FLOPs[step]}, {"bytes of all lanes", r.Bytes[step]}}
	if len(s.Nodes) > 0 {
		names := make([]string, len(s.Nodes))
		for i, n := range s.Nodes {
			names[i] = n.Name
		}
		args = append(args, arg{"fused", strings.Join(names, ", ")})
	}
	return args
}

// scopes draws the kept scopes in the rows that rowsOf lays them out in.
func (t *traceWriter) scopes(p *profile.Profile) {
	if len(p.ScopeEvents) == 0 {
		return
	}
	events := slices.Clone(p.ScopeEvents)
	slices.SortStableFunc(events, func(a, b profile.ScopeEvent) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(a.Frame, b.Frame))
	})
	var rows [][]span
	for i, row := range rowsOf(events) {
		e := &events[i]
		s := &p.Scopes[e.Scope]
		args := []arg{{"calls in all", s.Calls}, {"self ns of all", s.Self}}
		if s.Parent >= 0 {
			args = append(args, arg{"under", p.Scopes[s.Parent].Name})
		}
		if row == len(rows) {
			rows = append(rows, nil)
		}
		rows[row] = append(rows[row], span{s.Name, "scope", e.Start, e.End, args})
	}
	t.name("process_name", tracePidScopes, threadID(tracePidScopes, 0), "scopes")
	for row, spans := range rows {
		tid := threadID(tracePidScopes, row)
		t.name("thread_name", tracePidScopes, tid, fmt.Sprintf("scopes %d", row))
		t.thread(tracePidScopes, tid, spans)
	}
}

func (t *traceWriter) requests(p *profile.Profile) {
	if p.Requests == nil || len(p.Requests.Kept) == 0 {
		return
	}
	t.name("process_name", tracePidRequests, threadID(tracePidRequests, 0), "requests")
	for i := range p.Requests.Kept {
		q := &p.Requests.Kept[i]
		name := cmp.Or(q.Name, "request")
		t.async++
		id := `,"id":"` + strconv.Itoa(t.async) + `"`
		t.event("b", name, "request", tracePidRequests, threadID(tracePidRequests, 0), q.Start, id,
			[]arg{{"request", q.ID}, {"prompt tokens", q.PromptTokens}, {"output tokens", q.OutputTokens}})
		if q.FirstToken != 0 {
			t.event("n", name, "request", tracePidRequests, threadID(tracePidRequests, 0), q.FirstToken, id, []arg{{"event", "first token"}})
		}
		t.event("e", name, "request", tracePidRequests, threadID(tracePidRequests, 0), q.End, id, nil)
	}
}

func (t *traceWriter) counters(p *profile.Profile) {
	for i := range p.Counters {
		c := &p.Counters[i]
		for _, s := range c.Kept {
			t.event("C", c.Name, "", tracePidLanes, threadID(tracePidLanes, 0), s.At, "", []arg{{cmp.Or(c.Unit, "value"), s.Value}})
		}
	}
}
