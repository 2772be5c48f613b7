package opencl

import (
	"fmt"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

const (
	// oneLanes are the work items of a group of k_one, leastTeam those of a pair of
	// rows at least.
	oneLanes  = 128
	leastTeam = 32
	// oneLocal is local memory of k_one beside the row.
	oneLocal = 2 << 10
)

// rowRoom is how many values local memory holds for a row: few sizes, since each is
// compiled. It is 0 where the device has no room for the row.
func rowRoom(d description, k int) int { return roomFor(d, k, 16) }

// roomFor is the same for rows that take some bytes per four values.
func roomFor(d description, k, bytes int) int {
	room := 1024
	for room < k {
		room *= 2
	}
	if int64(bytes)*int64(room/4)+oneLocal > d.Local {
		return 0
	}
	return room
}

// codesBytes are the bytes per four values of a row that is kept in f32 and in codes:
// two planes, and per block of 32 a unit and two sums.
const codesBytes = 16 + 8 + 2

// codesRoom is rowRoom for products on integers. It is 0 where they are in f32: unless
// rounding is allowed, the device multiplies packed bytes and weights are in blocks
// of 32 codes.
func (b *Backend) codesRoom(t tensor.DType, k int) int {
	if !b.opts.Half || b.about.dots() == "" || t != tensor.Q8_0 && t != tensor.Q4_0 && t != tensor.Q4_1 {
		return 0
	}
	return roomFor(b.about, k, codesBytes)
}

// merges are the steps of a single row that take in their neighbours.
func (b *Backend) merges() []plan.Merge {
	held := func(width int) bool { return rowRoom(b.about, width) > 0 }
	return device.Merges(held, held)
}

// one is a single row, with the norm before it and what makes queries, keys and
// values of it.
func (b *binder) one(p *device.Products) {
	// Teams grow until every unit has two groups.
	pairs, units, team := p.Pairs(), b.be.about.Units, leastTeam
	for team < oneLanes && pairs*team < 2*units*oneLanes && p.K/8 >= 2*team {
		team *= 2
	}
	norm := b.RowNorm(p)
	ends, slots, kv := b.RowEnds(p)
	var turns [device.MostParts]turn
	for i, e := range ends {
		turns[i] = b.turnOf(e.Rope)
	}
	each := func(f func(i int) any) (out []any) {
		for i := range device.MostParts {
			out = append(out, f(i))
		}
		return out
	}
	operand := func(k int) func(i int) any {
		return func(i int) any {
			if i >= len(p.Nodes) {
				return address(0)
			}
			return b.Value(p.Nodes[i].In[k])
		}
	}
	arguments := []any{norm.X, norm.Add, norm.Sum, norm.Weight, norm.Bias}
	arguments = append(arguments, each(operand(1))...)
	arguments = append(arguments, each(func(i int) any { return ends[i].Y })...)
	arguments = append(arguments, each(operand(2))...)
	arguments = append(arguments, each(func(i int) any { return ends[i].Cache })...)
	arguments = append(arguments, slots)
	arguments = append(arguments, each(func(i int) any { return turns[i].pos })...)
	arguments = append(arguments, each(func(i int) any { return turns[i].length })...)
	arguments = append(arguments, each(func(i int) any { return turns[i].turns })...)
	arguments = append(arguments, each(func(i int) any { return turns[i].rope })...)
	arguments = append(arguments, each(func(i int) any { return p.Cols(i) })...)
	arguments = append(arguments, p.K, p.Gated, p.Act, norm.Kind, norm.Eps, norm.Offset, kv, team)
	many := min((pairs*team+oneLanes-1)/oneLanes, 8*units)
	t := b.DType(p.Nodes[0].In[1])
	c := oneCode(t, rowRoom(b.be.about, p.K))
	if room := b.be.codesRoom(t, p.K); room > 0 {
		c = codesCode(t, room, b.be.about.dots())
	}
	b.launchOf(c, "k_one", [2]extent{groups(many), groups(1)}, oneLanes, bundle(arguments))
}

// oneCode are the kernels for rows of up to room values.
func oneCode(t tensor.DType, room int) code {
	c := typed(t, "common", "act", "turn", "one")
	c.options += fmt.Sprintf(" -DROOM=%d", room)
	return c
}

// codesCode are the kernels on integers, with an option that names how bytes are
// multiplied.
func codesCode(t tensor.DType, room int, dots string) code {
	c := typed(t, "common", "act", "turn", "codes", "one")
	c.options += fmt.Sprintf(" -DROOM=%d -DCODES%s", room, dots)
	return c
}

// turn is how heads rotate. The zero value rotates nothing.
type turn struct {
	rope               graph.RopeAttr
	pos, length, turns address
}

// turnOf is the rotation of a node; nil rotates nothing.
func (b *binder) turnOf(n *graph.Node) turn {
	if n == nil {
		return turn{}
	}
	return turn{n.Attr.(graph.RopeAttr), b.Value(n.In[1]), b.Value(n.In[3]), b.turns(n)}
}
