package export

import (
	"cmp"
	"slices"

	"hotpath/profile"
)

// viewWall is all kept runs of all plans on the clock of the wall, and the time
// in which there was none.
type viewWall struct {
	From   int64       `json:"from"`
	To     int64       `json:"to"`
	Rows   int         `json:"rows"`
	Runs   []wallRun   `json:"runs"`
	Blanks []wallBlank `json:"blanks"`
	Scopes []wallScope `json:"scopes"`
	Above  int         `json:"above"` // rows of scopes
}

type wallRun struct {
	Plan   int        `json:"p"`
	Index  int64      `json:"i"`
	Start  int64      `json:"s"`
	End    int64      `json:"e"`
	Tokens int        `json:"k"`
	Row    int        `json:"r"` // of its first lane
	Lanes  [][2]int64 `json:"l"` // wake and done of each; 0, 0 where it was not called
	Detail int        `json:"d"` // in the timeline of single runs, -1 where it is not there
}

// wallBlank is time in which no run was in flight, as far as runs were kept.
type wallBlank struct {
	From    int64 `json:"s"`
	To      int64 `json:"e"`
	Missing int64 `json:"n"` // runs that took place here and were not kept
}

type wallScope struct {
	Name  string `json:"n"`
	Row   int    `json:"r"`
	Start int64  `json:"s"`
	End   int64  `json:"e"`
}

// Bounds of the chart: more rows, scopes and runs than these are no picture.
const (
	wallScopeRows = 5
	wallScopes    = 4000
	wallRuns      = 8000
)

// wallOf lays out all kept runs. A run occupies as many rows as it has lanes, the
// lowest free ones: a run of all workers fills all rows, and concurrent runs of
// one worker each are below each other.
func wallOf(p *profile.Profile, detail []viewRun) viewWall {
	w := viewWall{From: p.Start, To: p.End, Runs: []wallRun{}, Blanks: []wallBlank{}, Scopes: []wallScope{}}
	type key struct {
		plan  int
		index int64
	}
	details := map[key]int{}
	for i, r := range detail {
		details[key{r.Plan, r.Index}] = i
	}
	order := make([]int, 0, len(p.Runs))
	for i := range p.Runs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Runs[a].Start, p.Runs[b].Start) })
	order = order[:min(len(order), wallRuns)]
	var busy []int64 // until when each row is
	for _, i := range order {
		r := &p.Runs[i]
		out := wallRun{Plan: r.Plan, Index: r.Index, Start: r.Start, End: r.End, Tokens: r.Tokens, Detail: -1}
		if d, ok := details[key{r.Plan, r.Index}]; ok {
			out.Detail = d
		}
		for j := range r.Lanes {
			l := &r.Lanes[j]
			if l.Absent {
				out.Lanes = append(out.Lanes, [2]int64{})
				continue
			}
			out.Lanes = append(out.Lanes, [2]int64{l.Wake, l.Done})
		}
		n := len(r.Lanes)
		for free := 0; free < n; {
			if out.Row+free == len(busy) {
				busy = append(busy, 0)
			}
			if busy[out.Row+free] <= r.Start {
				free++
				continue
			}
			out.Row += free + 1
			free = 0
		}
		for k := range n {
			busy[out.Row+k] = r.End
		}
		w.Runs = append(w.Runs, out)
	}
	w.Rows = len(busy)
	w.blanks()
	w.scopes(p)
	return w
}

// blanks finds the time without a run. If the numbers of a plan's runs jump, the
// missing runs happened there and were not kept.
func (w *viewWall) blanks() {
	last := map[int]*wallRun{}
	until := w.From
	for i := range w.Runs {
		r := &w.Runs[i]
		if r.Start > until {
			w.Blanks = append(w.Blanks, wallBlank{From: until, To: r.Start})
		}
		missing := r.Index
		if before := last[r.Plan]; before != nil {
			missing -= before.Index + 1
		}
		if n := len(w.Blanks); missing > 0 && n > 0 {
			w.Blanks[n-1].Missing += missing
		}
		last[r.Plan] = r
		until = max(until, r.End)
	}
	if w.To > until {
		w.Blanks = append(w.Blanks, wallBlank{From: until, To: w.To})
	}
}

func (w *viewWall) scopes(p *profile.Profile) {
	events := slices.Clone(p.ScopeEvents)
	slices.SortStableFunc(events, func(a, b profile.ScopeEvent) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	depth := map[uint64]int{} // of each frame
	for _, e := range events {
		row := 0
		if d, ok := depth[e.Under]; ok {
			row = d + 1
		}
		depth[e.Frame] = row
		if row < wallScopeRows && len(w.Scopes) < wallScopes {
			w.Scopes = append(w.Scopes, wallScope{p.Scopes[e.Scope].Name, row, e.Start, e.End})
			w.Above = max(w.Above, row+1)
		}
	}
}
