package report

import (
	"cmp"
	"slices"
	"strings"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// treeLeast is the part of the whole below which the report leaves a branch
// out, in per cent.
const treeLeast = 1

func treeTable(p *profile.Profile, o Options) table.Table {
	t := table.Table{Title: "tree", Note: "branches from 1 % of the elapsed time; " + fusedNote, Cols: []table.Col{table.Left(""), table.Left(""), table.Right("calls"), table.Right("ms"), table.Right("%"), table.Right("GFLOP/s"), table.Right("GB/s"), table.Right("lost ms")}}
	root := p.Tree()
	limit := 4 * o.Top
	var walk func(n *profile.TreeNode, depth int)
	walk = func(n *profile.TreeNode, depth int) {
		share := table.Percent(n.Time, root.Time)
		if share < treeLeast && depth > 0 || n.Kind == "kernel" || limit > 0 && len(t.Rows) >= limit {
			return
		}
		cells := []string{strings.Repeat("  ", depth) + n.Name, n.Kind, table.Integer(n.Calls), table.Ms(n.Time), table.PercentCell(share), table.Rate(table.PerTime(n.FLOPs, n.Clock)), table.Rate(table.PerTime(n.Bytes, n.Clock)), lost(n.Floor, n.Lost)}
		if n.Kind == "wait" {
			cells = append(cells[:2], "", table.Ms(n.Time), table.PercentCell(share), "", "", "")
		}
		t.Add(table.Plain, cells...)
		children := slices.Clone(n.Children)
		slices.SortStableFunc(children, func(a, b *profile.TreeNode) int { return cmp.Compare(b.Time, a.Time) })
		for _, c := range children {
			walk(c, depth+1)
		}
	}
	if root.Time > 0 {
		walk(root, 0)
	}
	return t
}
