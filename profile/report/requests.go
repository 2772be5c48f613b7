package report

import (
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

func requestsTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "requests", Cols: []table.Col{table.Left(""), table.Right("count"), table.Right("mean ms"), table.Right("p50"), table.Right("p95"), table.Right("p99"), table.Right("max")}}
	q := p.Requests
	if q == nil {
		return t
	}
	t.Note = fmt.Sprintf("%d prompt and %d output tokens", q.PromptTokens, q.OutputTokens)
	for _, r := range RequestRows(q) {
		t.Add(table.Plain, r.Name, table.Integer(r.D.Count), table.Ms(r.D.Mean), table.Ms(r.D.P50), table.Ms(r.D.P95), table.Ms(r.D.P99), table.Ms(r.D.Max))
	}
	return t
}

// partsTable lists the part of each request in shared runs.
func partsTable(p *profile.Profile, o Options) table.Table {
	t := table.Table{Title: "by request", Note: "shares of batched runs: by tokens, and in attention by what each attends to; ms on the clock, waits included",
		Cols: []table.Col{table.Left("request"), table.Right("runs"), table.Right("tokens"), table.Right("ms"), table.Right("%"), table.Right("GFLOP"), table.Right("MB moved")}}
	parts := p.ByRequest()
	var all float64
	for _, r := range parts {
		all += r.Time
	}
	if len(parts) > o.Top && o.Top > 0 {
		parts = parts[:o.Top]
	}
	for _, r := range parts {
		t.Add(table.Plain, r.Request, table.Integer(r.Runs), table.Integer(r.Tokens), table.Fms(r.Time), table.PercentCell(table.PercentOf(r.Time, all)), fmt.Sprintf("%.3f", r.FLOPs/1e9), fmt.Sprintf("%.1f", r.Bytes/1e6))
	}
	return t
}

type requestRow struct {
	Name string
	D    profile.Dist
}

// RequestRows is what is known of requests.
func RequestRows(q *profile.RequestStats) []requestRow {
	rows := []requestRow{{"duration", q.Duration}, {"time to first token", q.FirstToken},
		{"  tokenize", q.Tokenize}, {"  compile", q.Compile}, {"  queue", q.Queue}, {"  prefill and sample", q.Prefill}, {"  hand over", q.Hand},
		{"time per output token", q.PerToken}}
	return slices.DeleteFunc(rows, func(r requestRow) bool { return r.D.Count == 0 })
}
