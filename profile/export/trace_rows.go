package export

import (
	"container/heap"
	"sort"

	"hotpath/profile"
)

// rowsOf assigns a row to each scope. A scope is in the row of the scope that encloses
// it, if no other scope is open there, otherwise in the first free row. So concurrent
// goroutines are drawn side by side. Events are sorted by start. The work is n log n,
// also if many scopes are open at the same time.
func rowsOf(events []profile.ScopeEvent) []int {
	var (
		out  = make([]int, len(events))
		rows [][]int            // the open scopes of each row, the innermost last
		tops = map[uint64]int{} // the row whose innermost open scope is a frame
		ends scopeQueue         // all open scopes
		free = &rowQueue{}      // rows without an open scope
	)
	top := func(row int) *profile.ScopeEvent { return &events[rows[row][len(rows[row])-1]] }
	for i := range events {
		e := &events[i]
		// A scope does not end after the scopes that enclose it in its row, so the
		// innermost scope of a row ends first.
		for len(ends) > 0 && ends[0].end <= e.Start {
			row := heap.Pop(&ends).(rowEnd).row
			if frame := top(row).Frame; tops[frame] == row {
				delete(tops, frame)
			}
			if rows[row] = rows[row][:len(rows[row])-1]; len(rows[row]) == 0 {
				heap.Push(free, row)
			} else {
				tops[top(row).Frame] = row
			}
		}
		row, under := tops[e.Under]
		switch {
		case under && top(row).End >= e.End:
			delete(tops, e.Under)
		case free.Len() > 0:
			row = heap.Pop(free).(int)
		default:
			row = len(rows)
			rows = append(rows, nil)
		}
		rows[row] = append(rows[row], i)
		tops[e.Frame] = row
		heap.Push(&ends, rowEnd{e.End, row})
		out[i] = row
	}
	return out
}

type rowEnd struct {
	end int64
	row int
}

type scopeQueue []rowEnd

func (s scopeQueue) Len() int           { return len(s) }
func (s scopeQueue) Less(i, j int) bool { return s[i].end < s[j].end }
func (s scopeQueue) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *scopeQueue) Push(x any)        { *s = append(*s, x.(rowEnd)) }
func (s *scopeQueue) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

type rowQueue struct{ sort.IntSlice }

func (q *rowQueue) Push(x any) { q.IntSlice = append(q.IntSlice, x.(int)) }
func (q *rowQueue) Pop() any {
	last := q.IntSlice[len(q.IntSlice)-1]
	q.IntSlice = q.IntSlice[:len(q.IntSlice)-1]
	return last
}
