package export

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/profile"
)

// plainRows is what rowsOf says, by looking at all rows for each event.
func plainRows(events []profile.ScopeEvent) []int {
	var out []int
	var rows [][]profile.ScopeEvent
	for _, e := range events {
		at := -1
		for row, open := range rows {
			for len(open) > 0 && open[len(open)-1].End <= e.Start {
				open = open[:len(open)-1]
			}
			rows[row] = open
			n := len(open)
			under := n > 0 && open[n-1].Frame == e.Under && open[n-1].End >= e.End
			if under || n == 0 && at < 0 {
				at = row
			}
			if under {
				break
			}
		}
		if at < 0 {
			at = len(rows)
			rows = append(rows, nil)
		}
		rows[at] = append(rows[at], e)
		out = append(out, at)
	}
	return out
}

func TestRowsOfScopes(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		events := make([]profile.ScopeEvent, r.IntN(60))
		for i := range events {
			start := r.Int64N(50)
			events[i] = profile.ScopeEvent{Frame: uint64(i + 1), Under: uint64(r.IntN(i + 1)), Start: start, End: start + r.Int64N(30)}
		}
		slices.SortStableFunc(events, func(a, b profile.ScopeEvent) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
		})
		if got, want := rowsOf(events), plainRows(events); !slices.Equal(got, want) {
			t.Fatalf("seed %d: rows %v, expected %v", seed, got, want)
		}
	}
}

// Scopes that are all open at the same time took time that grew with the square
// of their number: these would run into go test's own limit.
func TestRowsOfManyScopes(t *testing.T) {
	events := make([]profile.ScopeEvent, 500_000)
	for i := range events {
		events[i] = profile.ScopeEvent{Frame: uint64(i + 1), Start: int64(i), End: int64(i + 2*len(events))}
	}
	if rows := rowsOf(events); rows[len(rows)-1] != len(events)-1 {
		t.Errorf("the last scope has row %d, expected one of its own", rows[len(rows)-1])
	}
}

// The search for a free thread is bounded, however many runs there are at once.
func TestTraceOfManyRunsAtOnce(t *testing.T) {
	p := &profile.Profile{Plans: []profile.PlanStats{{Plan: profile.Plan{ID: "p", Lanes: []string{"a", "b"}}}}}
	for i := range int64(2 * maxBeside) {
		p.Runs = append(p.Runs, profile.RawRun{Start: i, End: 1000 + i, Lanes: []profile.RawLane{{Absent: true}, {Absent: true}}})
	}
	var b bytes.Buffer
	if err := writeTrace(&b, p); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b.Bytes(), []byte(`"thread_name"`)); n != 2*maxBeside {
		t.Errorf("%d threads, expected %d for each of 2 lanes", n, maxBeside)
	}
}
