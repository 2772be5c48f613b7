package compare

import (
	"strings"

	"hotpath/profile"
)

// matchSteps pairs the steps of two compilations of one program. Steps that
// compute a node in common belong to one row: nearly always one on each side,
// and more where a fusion was made or undone.
func matchSteps(a, b *profile.PlanStats) []Diff {
	type ref struct{ side, step int }
	row := map[ref]int{}      // of each step
	owner := map[string]int{} // row of each node
	parent := []int{}         // rows that were joined
	find := func(r int) int {
		for parent[r] != r {
			r = parent[r]
		}
		return r
	}
	for side, plan := range []*profile.PlanStats{a, b} {
		for i := range plan.Steps {
			at := -1
			for _, n := range plan.Steps[i].Parts() {
				r, ok := owner[n.Name]
				switch {
				case !ok && at < 0:
					at = len(parent)
					parent = append(parent, at)
				case ok && at < 0:
					at = find(r)
				case ok:
					// The earlier row takes the later one in, which keeps
					// rows in A's order.
					x, y := find(r), find(at)
					at = min(x, y)
					parent[max(x, y)] = at
				}
				owner[n.Name] = at
			}
			row[ref{side, i}] = at
		}
	}
	index := map[int]int{}
	var out []Diff
	for side, plan := range []*profile.PlanStats{a, b} {
		for i := range plan.Steps {
			s := &plan.Steps[i]
			key := find(row[ref{side, i}])
			k, ok := index[key]
			if !ok {
				k = len(out)
				index[key] = k
				out = append(out, Diff{Name: s.Name, Op: s.Op, Layer: s.Layer, kind: s.MainOp(), Frames: profile.StackOf(plan, s, profile.Node{Name: s.Name, Op: s.Op})})
			}
			d := &out[k]
			if side == 1 {
				d.b = append(d.b, i)
				continue
			}
			if len(d.a) > 0 {
				d.Name += " + " + s.Name[strings.LastIndexByte(s.Name, '/')+1:]
			}
			d.a = append(d.a, i)
		}
	}
	return out
}

// foldRows gathers rows by a key, in order of appearance.
func foldRows(rows []Diff, key func(*Diff) (name string, layer int)) []Diff {
	index := map[string]int{}
	var out []Diff
	for i := range rows {
		name, layer := key(&rows[i])
		k, ok := index[name]
		if !ok {
			k = len(out)
			index[name] = k
			out = append(out, Diff{Name: name, Layer: layer})
		}
		out[k].a = append(out[k].a, rows[i].a...)
		out[k].b = append(out[k].b, rows[i].b...)
	}
	return out
}
