package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Lowering chooses the rule of each step and the formats of each value. The
// backend publishes a table of rules; the pass records its choices in the plan,
// where layout, costs, profile and binding read them. No kernel has to guess the
// format of its operands.

// Format is a memory layout of a value other than the plain one. The plain
// format, row by row in the value's own type, is nil. Backends define their
// formats; the planner compares pointers and asks for sizes.
type Format struct {
	Name string
	// Stored reports that the format contains the codes of a quantized weight,
	// which kernels decode while they multiply.
	Stored bool
	// Holds reports whether rows of cols values can have the format; nil: all.
	Holds func(cols int) bool
	// Bytes is the size of rows x cols values; nil: that of the plain rows.
	Bytes func(rows, cols int) int64
	// Encode writes rows x cols plain f32 values in the format.
	Encode func(dst []byte, src []float32, rows, cols int)
}

func (f *Format) String() string {
	if f == nil {
		return "plain"
	}
	return f.Name
}

// Rule is one row of a backend's lowering table: one implementation of one op.
// The planner uses the first rule that applies. An op without rules reads and
// writes plain values.
type Rule struct {
	Class string // compute class: how it multiplies
	Op    *graph.OpDef
	// Kernel tells the rules of a class apart, for the backend alone.
	Kernel string
	// Rows are the row counts of the result that the rule is for; 0 in To: no
	// limit.
	From, To int
	// Weights reports whether the rule accepts a weight matrix (type, role,
	// size); nil if the op has none.
	Weights func(m Matrix) bool
	// Packing is the format that it reads the matrix in.
	Packing *Format
	// When may refuse a node because of its attributes or of the nodes that it is
	// fused with.
	When func(s *Step, n *graph.Node) bool
	// Reads are the accepted formats of the first operands, the best first; none:
	// plain. Operands is the number of these operands; 0 means 1.
	Reads    []*Format
	Operands int
	// Writes are the formats other than plain in which the step can write its
	// result; nil: none. Results is the number of the op's first results that it can
	// write so; 0 means 1.
	Writes  func(s *Step) []*Format
	Results int
	// Together reports that the step writes several formats in one pass.
	Together bool
	// Skips are operands of the op that the rule does not read: they are not kept
	// for the step, and their bytes do not count.
	Skips []int
}

// Matrix is the matrix operand of a product or the table of a lookup, as rules
// see it.
type Matrix struct {
	Leaf  *graph.Leaf // of a weight, a state or an input; nil where a step computes it
	DType tensor.DType
	N, K  int // rows, of one expert where there are several, and columns
}

// Choice is the rule by which a node runs at row counts up to To, from the
// previous choice on.
type Choice struct {
	To   int
	Rule *Rule
}

// Form is one format of a value in a plan, with its place.
type Form struct {
	Format *Format
	Place  Place
	Writer int // step that writes it; -1: it is there before the run
}

// applies reports whether a rule is for node n of step s at a row count.
func (r *Rule) applies(s *Step, n *graph.Node, rows int, m *Matrix, packing *Format) bool {
	return r.Op == n.Op && rows >= r.From && (r.To == 0 || rows <= r.To) &&
		(r.Weights == nil || m != nil && r.Weights(*m) && (!m.Weight() || r.Packing == packing)) &&
		(r.When == nil || r.When(s, n))
}

// Weight reports whether the matrix is a weight. A weight has one resident format
// for all its readers. State has every format that its readers need.
func (m *Matrix) Weight() bool { return m.Leaf != nil && m.Leaf.Kind == graph.WeightLeaf }

// table is the input of lowering.
type table struct {
	rules    []Rule
	stored   []tensor.DType // [Value.ID] of weights: the type that the backend holds them in
	packings []*Format      // [Value.ID] of weights: the one resident format
	host     []bool         // [Node.ID] it runs on the host (place.go)

	invariant, largest bool
}

// newTable asks a backend for its rules and chooses the resident format of each
// weight: the format of the first rule that accepts any number of rows and serves
// all readers. Products choose before lookups, because lookups read few rows.
func newTable(g *graph.Graph, be Backend, host []bool, invariant bool) *table {
	t := &table{rules: be.Rules(invariant), largest: be.Caps().Largest, stored: make([]tensor.DType, len(g.Values)), packings: make([]*Format, len(g.Values)), host: host, invariant: invariant}
	us, as := uses(g, alive(g)), be.Caps().StoredAs
	for _, n := range g.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.WeightLeaf {
			continue
		}
		v := n.Out[0]
		readers := slices.DeleteFunc(us[v.ID], func(n *graph.Node) bool { return host[n.ID] }) // which reads the file's rows
		if t.stored[v.ID] = v.DType; as != nil {
			t.stored[v.ID] = as(v, readers)
		}
		byWork := slices.Clone(readers)
		slices.SortStableFunc(byWork, func(a, b *graph.Node) int { return lookup(a) - lookup(b) })
		for _, r := range byWork {
			if f, ok := t.packing(v, r, readers); ok {
				t.packings[v.ID] = f
				break
			}
		}
	}
	return t
}

// lookup is 1 for nodes that only read rows of a table.
func lookup(n *graph.Node) int {
	if n.Op == graph.OpEmbed {
		return 1
	}
	return 0
}

// matrix describes the matrix operand of n; nil if it has none.
func (t *table) matrix(n *graph.Node) *Matrix {
	if n.Op.Matrix == 0 {
		return nil
	}
	v := n.In[n.Op.Matrix-1]
	m := &Matrix{Leaf: v.Node.Leaf, DType: v.DType, N: v.Shape.NumRows(tensor.Bind{}), K: v.Shape.RowLen()}
	if n.Op == graph.OpGroupedLinear {
		m.N = n.Out[0].Shape.RowLen()
	}
	if m.Weight() {
		m.DType = t.stored[v.ID]
	}
	return m
}

// packing returns the format of the reader's first rule for any number of rows
// that the other readers of v have rules for too. The file's rows, nil, serve
// every reader. ok is false if the reader has no rules.
func (t *table) packing(v *graph.Value, reader *graph.Node, readers []*graph.Node) (*Format, bool) {
	takes := func(r *Rule, n *graph.Node) bool {
		m := t.matrix(n)
		return r.Op == n.Op && r.To == 0 && r.Weights != nil && m != nil && r.Weights(*m)
	}
	for i := range t.rules {
		r := &t.rules[i]
		if !takes(r, reader) {
			continue
		}
		serves := func(n *graph.Node) bool {
			if n.Op.Matrix == 0 {
				return false
			}
			for k, in := range n.In {
				if (in == v) != (k == n.Op.Matrix-1) {
					return false
				}
			}
			return slices.ContainsFunc(t.rules, func(o Rule) bool { return takes(&o, n) && o.Packing == r.Packing })
		}
		if r.Packing == nil || !slices.ContainsFunc(readers, func(n *graph.Node) bool { return !serves(n) }) {
			return r.Packing, true
		}
	}
	return nil, false
}

// rowRange is the range of row counts for which n needs rules in a bucket.
// Routing may give an expert any number of rows. An expert with fewer rows than
// the bucket's minimum number of tokens uses the rule for that minimum.
func rowRange(n *graph.Node, least, most tensor.Bind) (from, to int) {
	d := n.Out[0].Shape.Outer
	from, to = d.Size(least), d.Size(most)
	if n.Op == graph.OpGroupedLinear {
		from = least.T
	}
	return min(max(1, from), to), to
}

// choices are the rules by which node n of step s runs in the plan's bucket.
func (p *Plan) choices(s *Step, n *graph.Node, t *table) ([]Choice, error) {
	rules := t.rules
	if s.Host || !slices.ContainsFunc(rules, func(r Rule) bool { return r.Op == n.Op }) {
		return nil, nil
	}
	m := t.matrix(n)
	var packing *Format
	if m != nil {
		packing = t.packings[n.In[n.Op.Matrix-1].ID]
	}
	var out []Choice
	rows, to := rowRange(n, p.Min, p.Max)
	if t.largest {
		rows = to
	}
	for rows <= to {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.applies(s, n, rows, m, packing) })
		if i < 0 {
			if m == nil {
				return nil, nil // as if there were no rules for the op
			}
			return nil, fmt.Errorf("%s: no rule for %s of %d rows with %v [%d,%d], packed as %s", n.Name, n.Op.Name, rows, m.DType, m.N, m.K, packing)
		}
		last := to // the last row count before the rule ends or a better one begins
		if rules[i].To > 0 {
			last = min(last, rules[i].To)
		}
		for j := range rules[:i] {
			if b := &rules[j]; b.Op == n.Op && b.From > rows {
				last = min(last, b.From-1)
			}
		}
		if k := len(out) - 1; k >= 0 && out[k].Rule == &rules[i] {
			out[k].To = last
		} else {
			out = append(out, Choice{last, &rules[i]})
		}
		rows = last + 1
	}
	return out, nil
}

// lower sets Choices and Reads of all steps and the formats of all values. It
// adds convert steps for readers that accept no format that the writer can write.
func (p *Plan) lower(t *table) error {
	p.Forms = make([][]Form, len(p.Graph.Values))
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Choices = make([][]Choice, len(s.Nodes))
		for k, n := range s.Nodes {
			var err error
			if s.Choices[k], err = p.choices(s, n, t); err != nil {
				return err
			}
		}
		s.In = slices.DeleteFunc(s.In, func(v *graph.Value) bool { return s.ignores(v) })
	}
	for i := range p.Steps {
		for _, v := range p.Steps[i].Out {
			if buffer(v) == v {
				p.Forms[v.ID] = p.formsOf(v, i)
			}
		}
	}
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil && n.Leaf.Kind != graph.WeightLeaf {
			p.Forms[n.Out[0].ID] = p.stateForms(n.Out[0])
		}
	}
	p.addConverts()
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Reads = make([]*Format, len(s.In))
		for k, v := range s.In {
			if taken := p.taken(s, v); len(taken) > 0 && !isWeight(v) {
				j := slices.IndexFunc(taken, func(f *Format) bool { return p.has(v, f) })
				s.Reads[k] = taken[j]
			}
		}
	}
	return nil
}

// ignores reports whether none of the step's chosen rules reads v.
func (s *Step) ignores(v *graph.Value) bool {
	for _, n := range s.Nodes {
		for k, in := range n.In {
			if in == v && !s.skips(n, k) {
				return false
			}
		}
	}
	return true
}

func isWeight(v *graph.Value) bool { return v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf }

// taken are the formats of v that step s accepts, the best first.
func (p *Plan) taken(s *Step, v *graph.Value) []*Format {
	var out []*Format
	for k, n := range s.Nodes {
		for j, in := range n.In {
			if in != v {
				continue
			}
			fs := []*Format{nil}
			if s.Choices[k] != nil {
				fs = operandFormats(n, j, s.Choices[k], v)
			}
			if out == nil {
				out = fs
			} else {
				out = slices.DeleteFunc(slices.Clone(out), func(f *Format) bool { return !slices.Contains(fs, f) })
			}
		}
	}
	return out
}

// operandFormats are the formats of operand j, v, that all choices of n accept.
func operandFormats(n *graph.Node, j int, choices []Choice, v *graph.Value) []*Format {
	if j == n.Op.Matrix-1 {
		if len(choices) == 1 && !isWeight(v) {
			return []*Format{choices[0].Rule.Packing}
		}
		return []*Format{nil}
	}
	var out []*Format
	for i, c := range choices {
		reads := c.Rule.Reads
		if reads == nil || j >= max(1, c.Rule.Operands) {
			reads = []*Format{nil}
		}
		if i == 0 {
			out = slices.Clone(reads)
			continue
		}
		out = slices.DeleteFunc(out, func(f *Format) bool { return !slices.Contains(reads, f) })
	}
	return slices.DeleteFunc(out, func(f *Format) bool { return f != nil && f.Holds != nil && !f.Holds(v.Shape.RowLen()) })
}

// readers calls f for each step that reads v, with the formats that the step
// accepts.
func (p *Plan) readers(v *graph.Value, f func(s *Step, taken []*Format)) {
	for i := range p.Steps {
		if s := &p.Steps[i]; slices.Contains(s.In, v) {
			f(s, p.taken(s, v))
		}
	}
}

// formsOf decides the formats of v, which step w writes:
//   - plain alone, if the writer cannot write the format that the first reader
//     prefers;
//   - that format alone, if all readers prefer it;
//   - both, if the writer writes both in one pass;
//   - otherwise plain alone.
func (p *Plan) formsOf(v *graph.Value, w int) []Form {
	s := &p.Steps[w]
	plain := []Form{{Writer: w}}
	if !s.ends(v) || isOutput(p.Graph, v) || v.DType != tensor.F32 {
		return plain
	}
	var best *Format
	others := false
	p.readers(v, func(_ *Step, taken []*Format) {
		switch {
		case len(taken) == 0 || taken[0] == nil:
			others = true
		case best == nil:
			best = taken[0]
		case best != taken[0]:
			others = true
		}
	})
	writes, together := s.writes()
	switch {
	case best == nil || !slices.Contains(writes, best):
		return plain
	case !others:
		return []Form{{Format: best, Writer: w}}
	case together:
		return append(plain, Form{Format: best, Writer: w})
	}
	return plain
}

// ends reports whether v is a result of the step that its rules write in formats,
// and that no node of it reads: the root's, or one of siblings.
func (s *Step) ends(v *graph.Value) bool {
	return v.Index < s.results(v.Node) && !slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool { return slices.Contains(n.In, v) })
}

// results is the number of n's first results that every choice can write in formats.
func (s *Step) results(n *graph.Node) int {
	least := 1
	for i, c := range s.Choices[slices.Index(s.Nodes, n)] {
		if r := max(1, c.Rule.Results); i == 0 || r < least {
			least = r
		}
	}
	return least
}

// writes are the formats other than plain that every choice of the step can
// write. together reports whether all choices write several in one pass.
func (s *Step) writes() (out []*Format, together bool) {
	first := true
	together = true
	for k, cs := range s.Choices {
		if !slices.Contains(s.Core(), s.Nodes[k]) {
			continue
		}
		for _, c := range cs {
			var fs []*Format
			if c.Rule.Writes != nil {
				fs = c.Rule.Writes(s)
			}
			together = together && c.Rule.Together
			if first {
				out, first = slices.Clone(fs), false
				continue
			}
			out = slices.DeleteFunc(out, func(f *Format) bool { return !slices.Contains(fs, f) })
		}
	}
	return out, together && !first
}

// stateForms are the formats of an input or a state: plain and, for state, the
// additional formats that its readers need.
func (p *Plan) stateForms(v *graph.Value) []Form {
	writer, out := -1, []Form{{Writer: -1}}
	if v.Node.Leaf.Kind != graph.StateLeaf || v.DType != tensor.F32 {
		return out
	}
	for i := range p.Steps {
		for _, o := range p.Steps[i].Out {
			if o != v && buffer(o) == v {
				writer = i
			}
		}
	}
	out[0].Writer = writer
	for i := range p.Steps {
		for _, in := range p.Steps[i].In {
			if buffer(in) != v {
				continue
			}
			taken := p.taken(&p.Steps[i], in)
			if len(taken) > 0 && taken[0] != nil && !slices.ContainsFunc(out, func(f Form) bool { return f.Format == taken[0] }) {
				out = append(out, Form{Format: taken[0], Writer: writer})
			}
		}
	}
	return out
}

// has reports whether the plan stores v in a format.
func (p *Plan) has(v *graph.Value, f *Format) bool {
	return slices.ContainsFunc(p.Forms[buffer(v).ID], func(o Form) bool { return o.Format == f })
}

// Form returns the place of v in a format; ok is false if the plan has no such
// form.
func (p *Plan) Form(v *graph.Value, f *Format) (pl Place, ok bool) {
	for _, o := range p.Forms[buffer(v).ID] {
		if o.Format == f {
			return o.Place, true
		}
	}
	return Place{}, false
}

// ReadAs is the format in which step s reads v.
func (s *Step) ReadAs(v *graph.Value) *Format {
	if i := slices.Index(s.In, v); i >= 0 && s.Reads != nil {
		return s.Reads[i]
	}
	return nil
}
