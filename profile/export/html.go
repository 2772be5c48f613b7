package export

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/term"
	"hotpath/profile"
	"hotpath/profile/internal/table"
	"hotpath/profile/report"
)

// The parts of an HTML report. It is one file that loads nothing: style,
// scripts and data are written into it, and its policy forbids all else. Names
// come from files: they are data to the scripts, which make text nodes of them.
var (
	//go:embed html/view.html
	viewHTML string
	//go:embed html/view.css
	viewCSS string
	//go:embed html/view.js
	viewJS string
	//go:embed html/report.js
	reportJS string
	//go:embed html/compare.js
	compareJS string
)

// page writes a page with data and the script that shows it. JSON escapes <, >
// and &, so data cannot end the element that holds it.
func page(w io.Writer, title string, data any, script string) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(data); err != nil {
		return err
	}
	_, err := strings.NewReplacer("{{.Title}}", html.EscapeString(term.Printable(title)), "{{.Style}}", viewCSS,
		"{{.Data}}", strings.TrimSpace(b.String()), "{{.Script}}", viewJS+"\n"+script).WriteString(w, viewHTML)
	return err
}

type viewCard struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

// viewProfile is what report.js shows.
type viewProfile struct {
	Created  string         `json:"created"`
	Cards    []viewCard     `json:"cards"`
	Facts    [][2]string    `json:"facts"`
	Warnings []string       `json:"warnings"`
	Ops      []string       `json:"ops"`    // by time
	Colors   map[string]int `json:"colors"` // of each op, the same in every page
	Ledger   []viewLedger   `json:"ledger"`
	Trees    []viewTree     `json:"trees"`
	Steps    []viewStep     `json:"steps"`
	Ceilings []viewCeilings `json:"ceilings"`
	Timeline viewTimeline   `json:"timeline"`
	Memory   viewMemory     `json:"memory"`
	Scopes   []viewScope    `json:"scopes"`
	Requests []viewTimes    `json:"requests"`
}

type viewLedger struct {
	Name  string   `json:"name"`
	Lane  int64    `json:"lane"`
	Parts [5]int64 `json:"parts"` // compute, barrier, dispatch, idle, residual
}

type viewNode struct {
	Name     string      `json:"n"`
	Kind     string      `json:"k"`
	Op       string      `json:"o,omitempty"`
	Time     int64       `json:"t"`
	Clock    int64       `json:"w"`
	Floor    int64       `json:"r"`
	Lost     int64       `json:"l"`
	Bytes    int64       `json:"b"`
	FLOPs    int64       `json:"f"`
	Calls    int64       `json:"m"`
	Children []*viewNode `json:"c,omitempty"`
}

// viewTree is the tree in one arrangement.
type viewTree struct {
	View profile.FlameView `json:"view"`
	Root *viewNode         `json:"root"`
}

type viewStep struct {
	Name   string `json:"name"`
	Plan   string `json:"plan"`
	Op     string `json:"op"`
	Kernel string `json:"kernel"`
	Class  string `json:"class"`
	Calls  int64  `json:"calls"`
	Self   int64  `json:"self"`
	Clock  int64  `json:"clock"`
	Wait   int64  `json:"wait"`
	P50    int64  `json:"p50"`
	P95    int64  `json:"p95"`
	P99    int64  `json:"p99"`
	FLOPs  int64  `json:"flops"`
	Bytes  int64  `json:"bytes"`
	Floor  int64  `json:"floor"`
	Lost   int64  `json:"lost"`
}

type viewCeilings struct {
	Backend string             `json:"backend"`
	Lanes   string             `json:"lanes"` // "" for all
	FLOPs   float64            `json:"flops"`
	Bytes   float64            `json:"bytes"`
	Class   map[string]float64 `json:"class"`
}

type viewScope struct {
	Name  string   `json:"name"`
	Depth int      `json:"depth"`
	Calls int64    `json:"calls"`
	Times [8]int64 `json:"times"` // total, self, min, mean, p50, p95, p99, max
}

type viewTimes struct {
	Name  string   `json:"name"`
	Count int64    `json:"count"`
	Times [5]int64 `json:"times"` // mean, p50, p95, p99, max
}

// writeHTML writes the report of a recording as one page.
func writeHTML(w io.Writer, p *profile.Profile) error {
	v := &viewProfile{Created: p.Created.UTC().Format("2 January 2006, 15:04:05 UTC"), Cards: cards(p), Warnings: p.Warnings,
		Ops: []string{}, Ledger: []viewLedger{}, Steps: []viewStep{}, Ceilings: []viewCeilings{}, Scopes: []viewScope{}, Requests: []viewTimes{},
		Timeline: timelineOf(p), Memory: memoryOf(p), Facts: [][2]string{}}
	for _, row := range report.FactsTable(p, report.Options{}).Rows {
		v.Facts = append(v.Facts, [2]string{row[0], row[1]})
	}
	v.Colors = map[string]int{}
	for _, g := range p.ByOp() {
		v.Ops = append(v.Ops, g.Name)
		v.Colors[g.Name] = OpColor(g.Name)
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		if l := &s.Ledger; l.Runs > 0 {
			v.Ledger = append(v.Ledger, viewLedger{strings.TrimSpace(cmp.Or(s.Name, s.ID) + " " + s.Phase), l.LaneTime,
				[5]int64{l.Compute, l.Barrier, l.Dispatch, l.Idle, l.Residual}})
		}
	}
	for i := range p.Rounds {
		l := p.Rounds[i].Outside()
		v.Ledger = append(v.Ledger, viewLedger{p.Rounds[i].Name + ", workers without a run", l.LaneTime, [5]int64{2: l.Dispatch, 3: l.Idle}})
	}
	for _, view := range profile.FlameViews {
		v.Trees = append(v.Trees, viewTree{view, newViewNode(p.TreeBy(view))})
	}
	for _, s := range p.Top(-1, profile.ByTime) {
		v.Colors[s.Step.MainOp()] = OpColor(s.Step.MainOp())
		v.Steps = append(v.Steps, viewStep{Name: s.Step.Name, Plan: cmp.Or(s.Plan.Name, s.Plan.ID), Op: s.Step.MainOp(), Kernel: s.Step.Kernel, Class: s.Step.Class,
			Calls: s.Calls, Self: s.Self, Clock: s.Clock, Wait: s.Total - s.Self, P50: s.Span.P50, P95: s.Span.P95, P99: s.Span.P99,
			FLOPs: s.FLOPs, Bytes: s.Bytes, Floor: s.Floor, Lost: s.Lost})
	}
	for _, backend := range slices.Sorted(maps.Keys(p.Ceilings)) {
		if c := p.Ceilings[backend]; c.Known() {
			v.Ceilings = append(v.Ceilings, viewCeilings{backend, "", c.FLOPs, c.Bytes, c.Class})
			if one := c.One; one != nil && p.OnFewerLanes(c.Lanes) {
				v.Ceilings = append(v.Ceilings, viewCeilings{backend, ", one lane", one.FLOPs, one.Bytes, one.Class})
			}
		}
	}
	p.EachScope(func(s *profile.ScopeStats, depth int) {
		c := &s.Call
		v.Scopes = append(v.Scopes, viewScope{s.Name, depth, s.Calls, [8]int64{s.Total, s.Self, c.Min, c.Mean, c.P50, c.P95, c.P99, c.Max}})
	})
	if q := p.Requests; q != nil {
		for _, r := range report.RequestRows(q) {
			v.Requests = append(v.Requests, viewTimes{r.Name, r.D.Count, [5]int64{r.D.Mean, r.D.P50, r.D.P95, r.D.P99, r.D.Max}})
		}
	}
	return page(w, profile.Subject(p), v, reportJS)
}

func newViewNode(n *profile.TreeNode) *viewNode {
	v := &viewNode{Name: n.Name, Kind: n.Kind, Op: n.Op, Time: n.Time, Clock: n.Clock, Floor: n.Floor, Lost: n.Lost, Bytes: n.Bytes, FLOPs: n.FLOPs, Calls: n.Calls}
	for _, c := range n.Children {
		v.Children = append(v.Children, newViewNode(c))
	}
	return v
}

// cards are the numbers that come first.
func cards(p *profile.Profile) []viewCard {
	var tokens, flops, floor, lost int64
	for i := range p.Plans {
		tokens += p.Plans[i].Tokens
		for j := range p.Plans[i].Stats {
			st := &p.Plans[i].Stats[j]
			flops, floor, lost = flops+st.FLOPs, floor+st.Floor, lost+st.Lost
		}
	}
	l := &p.Ledger
	runs := table.Count(int(l.Runs), "run")
	if l.Wall > p.Elapsed+p.Elapsed/100 {
		runs += ", side by side: " + table.Human(l.Wall) + " in all"
	}
	cards := []viewCard{{"time", table.Human(p.Elapsed), runs}}
	if tokens > 0 && p.Elapsed > 0 {
		cards = append(cards, viewCard{"tokens a second", fmt.Sprintf("%.0f", table.PerTime(tokens, p.Elapsed)*1e9), fmt.Sprintf("%d in all", tokens)})
	}
	if flops > 0 {
		cards = append(cards, viewCard{"compute", table.Si(table.PerTime(flops, p.Elapsed)*1e9) + "FLOP/s", table.Si(float64(flops)) + "FLOP"})
	}
	cards = append(cards, viewCard{"computing", fmt.Sprintf("%.1f %%", table.Percent(l.Compute, l.LaneTime)), "of wall time × lanes"})
	if floor > 0 {
		cards = append(cards, viewCard{"of the roofline", fmt.Sprintf("%.1f %%", table.Percent(floor, floor+lost)), table.Human(lost) + " lost beyond it"})
	}
	cards = append(cards, viewCard{"unexplained", fmt.Sprintf("%.2f %%", l.ResidualPercent()), "residual of the ledger"})
	if q := p.Requests; q != nil && q.FirstToken.Count > 0 {
		cards = append(cards, viewCard{"first token", table.Human(q.FirstToken.P50), "p95 " + table.Human(q.FirstToken.P95)})
	}
	if q := p.Requests; q != nil && q.PerToken.Count > 0 {
		cards = append(cards, viewCard{"per token", table.Human(q.PerToken.P50), "p95 " + table.Human(q.PerToken.P95)})
	}
	if o := p.Overhead; o != nil {
		cards = append(cards, viewCard{"recording cost", fmt.Sprintf("%.2f %%", o.Percent()), o.Sure()})
	}
	return cards
}
