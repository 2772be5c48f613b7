package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// half is a format of two bytes per value.
var half = &plan.Format{
	Name:  "half",
	Holds: func(cols int) bool { return cols%8 == 0 },
	Bytes: func(rows, cols int) int64 { return 2 * int64(rows) * int64(cols) },
}

// panels is a format of weights.
var panels = &plan.Format{Name: "panels", Bytes: func(rows, cols int) int64 { return int64(rows) * int64(cols) }}

// ruled is a backend with rules.
type ruled struct {
	fused
	rules []plan.Rule
}

func (r ruled) Rules(bool) []plan.Rule { return r.rules }

func lowered(t *testing.T, g *graph.Graph, err error, buckets []tensor.Bind, rules ...plan.Rule) *plan.Program {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if buckets == nil {
		buckets = []tensor.Bind{g.Max}
	}
	p, err := plan.Compile("test", g, ruled{fused{ref.New(), nil}, rules}, buckets, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func anyMatrix(plan.Matrix) bool { return true }

// formats writes the formats of v, in order.
func formats(p *plan.Plan, v *graph.Value) string {
	var out []string
	for _, f := range p.Forms[v.ID] {
		out = append(out, f.Format.String())
	}
	return strings.Join(out, "+")
}

var (
	// inHalf multiplies operands in half, or plain ones.
	inHalf = plan.Rule{Class: "half", Op: graph.OpLinear, Weights: anyMatrix, Reads: []*plan.Format{half, nil}}
	// onlyHalf takes no plain operand.
	onlyHalf = plan.Rule{Class: "half", Op: graph.OpLinear, Weights: anyMatrix, Reads: []*plan.Format{half}}
	// roundingNorm writes half, or both formats in one pass.
	roundingNorm = plan.Rule{Class: "f32", Op: graph.OpNorm, Together: true, Writes: func(*plan.Step) []*plan.Format { return []*plan.Format{half} }}
	// roundingMul writes half instead of plain.
	roundingMul = plan.Rule{Class: "f32", Op: graph.OpMul, Writes: func(*plan.Step) []*plan.Format { return []*plan.Format{half} }}
)

// TestForms: a value lies in the format that its readers like best, if its
// writer can write it; in two where some want it plain and the writer writes both
// in one pass; and plain otherwise.
func TestForms(t *testing.T) {
	type values = map[string]string
	for _, c := range []struct {
		name  string
		rules []plan.Rule
		cols  int
		want  values
	}{
		{"products and sums read", []plan.Rule{inHalf, roundingNorm, roundingMul}, 8, values{"norm": "plain+half", "mul": "half", "sum": "plain"}},
		{"nobody writes it", []plan.Rule{inHalf}, 8, values{"norm": "plain", "mul": "plain", "sum": "plain"}},
		{"nobody reads it", []plan.Rule{roundingNorm, roundingMul}, 8, values{"norm": "plain", "mul": "plain", "sum": "plain"}},
		{"rows that it cannot hold", []plan.Rule{inHalf, roundingNorm, roundingMul}, 12, values{"norm": "plain", "mul": "plain", "sum": "plain"}},
	} {
		b := graph.NewBuilder(max9)
		x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, c.cols)), b.Input("w", tensor.F32, tensor.Static(c.cols))
		matrix := func(name string) *graph.Value { return b.Weight(name, graph.RoleUp, tensor.Static(c.cols, c.cols)) }
		norm := b.RMSNorm("norm", x, w, 1e-5, 0)
		mul := b.Mul("mul", x, x)
		sum := b.Add("sum", norm, b.Linear("a", norm, matrix("wa"), nil))
		y := b.Add("y", sum, b.Linear("b", mul, matrix("wb"), nil))
		g, err := b.Freeze(y)
		p := lowered(t, g, err, nil, c.rules...).Plans[0]
		got := values{"norm": formats(p, norm), "mul": formats(p, mul), "sum": formats(p, sum)}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: formats are %v, expected %v", c.name, got, c.want)
		}
		plain := int64((9*c.cols*4 + 63) / 64 * 64)
		want := map[string]int64{"plain": plain, "half": (plain/2 + 63) / 64 * 64}
		want["plain+half"] = want["plain"] + want["half"]
		for v, f := range map[*graph.Value]string{norm: c.want["norm"], mul: c.want["mul"]} {
			if got := p.Place(v).Bytes; got != want[f] {
				t.Errorf("%s: %s as %s has %d bytes, expected %d", c.name, v, f, got, want[f])
			}
		}
	}
}

// TestConvert: where a reader takes no format that the writer can write, the plan
// has a step that converts, once for all such readers, and Check holds that it
// comes before them.
func TestConvert(t *testing.T) {
	b := graph.NewBuilder(max9)
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	s := b.Scale("s", x, 2)
	a := b.Linear("a", s, b.Weight("wa", graph.RoleUp, tensor.Static(8, 8)), nil)
	y := b.Add("y", a, b.Linear("b", s, b.Weight("wb", graph.RoleUp, tensor.Static(8, 8)), nil))
	g, err := b.Freeze(y)
	p := lowered(t, g, err, nil, onlyHalf).Plans[0]
	if got, want := kinds(p), "scale convert linear linear add"; got != want {
		t.Fatalf("steps are %s, expected %s", got, want)
	}
	if got := formats(p, s); got != "plain+half" {
		t.Errorf("the converted value lies as %s", got)
	}
	for i, step := range p.Steps {
		if step.Index != i {
			t.Errorf("step %d has index %d", i, step.Index)
		}
		if step.Kind == "linear" && step.ReadAs(s) != half {
			t.Errorf("%s reads its operand as %s", step.Name, step.ReadAs(s))
		}
	}
	if f := p.Forms[s.ID]; f[0].Writer != 0 || f[1].Writer != 1 {
		t.Errorf("the forms are written by steps %d and %d, expected 0 and 1", f[0].Writer, f[1].Writer)
	}
	p.Steps[1], p.Steps[2] = p.Steps[2], p.Steps[1]
	if err := plan.Check(p); err == nil || !strings.Contains(err.Error(), "as half") {
		t.Errorf("a product before the step that converts its operand: Check says %v", err)
	}
}

// TestCheckForms: a plan whose step reads a format that nobody writes is refused.
func TestCheckForms(t *testing.T) {
	b := graph.NewBuilder(max9)
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	n := b.RMSNorm("n", x, b.Input("w", tensor.F32, tensor.Static(8)), 1e-5, 0)
	g, err := b.Freeze(b.Linear("y", n, b.Weight("w2", graph.RoleUp, tensor.Static(8, 8)), nil))
	p := lowered(t, g, err, nil, inHalf, roundingNorm).Plans[0]
	p.Steps[1].Reads[slices.Index(p.Steps[1].In, n)] = nil
	if err := plan.Check(p); err == nil || !strings.Contains(err.Error(), "as plain") {
		t.Errorf("a step that reads a value in a format that it has not: Check says %v", err)
	}
}

// TestChoices: a step runs by the first rule that applies, by the number of rows;
// buckets have the choices of their own rows, and what changes within a bucket
// keeps its value plain.
func TestChoices(t *testing.T) {
	few := plan.Rule{Class: "few", Op: graph.OpLinear, Weights: anyMatrix, From: 2, To: 4}
	build := func() (*graph.Graph, *graph.Value, error) {
		b := graph.NewBuilder(max9)
		x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
		n := b.RMSNorm("n", x, b.Input("w", tensor.F32, tensor.Static(8)), 1e-5, 0)
		g, err := b.Freeze(b.Linear("y", n, b.Weight("w2", graph.RoleUp, tensor.Static(8, 8)), nil))
		return g, n, err
	}
	choices := func(p *plan.Plan) (out []string) {
		for _, c := range p.Steps[1].Choices[0] {
			out = append(out, fmt.Sprintf("%s..%d", c.Rule.Class, c.To))
		}
		return out
	}
	g, n, err := build()
	p := lowered(t, g, err, nil, few, inHalf, roundingNorm)
	if got := choices(p.Plans[0]); fmt.Sprint(got) != "[half..1 few..4 half..9]" {
		t.Errorf("choices are %v", got)
	}
	if got := formats(p.Plans[0], n); got != "plain" {
		t.Errorf("the operand of rules that disagree lies as %s", got)
	}
	if p.Uniform() {
		t.Error("a program whose rules change with the rows is said to be uniform")
	}
	g, n, err = build()
	p = lowered(t, g, err, []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 4, S: 4, R: 4}, max9}, few, inHalf, roundingNorm)
	for i, want := range []string{"[half..1] half", "[few..4] plain", "[half..9] half"} {
		if got := fmt.Sprint(choices(p.Plans[i]), " ", formats(p.Plans[i], n)); got != want {
			t.Errorf("bucket %d: %s, expected %s", i, got, want)
		}
	}
	g, _, err = build()
	if !lowered(t, g, err, nil, inHalf).Uniform() {
		t.Error("a program with one rule is not uniform")
	}
}

// TestPackings: a weight has the format of the first rule for any number of rows
// that serves all who read it, and the file's rows otherwise.
func TestPackings(t *testing.T) {
	packed := plan.Rule{Class: "f32", Op: graph.OpLinear, Weights: anyMatrix, Packing: panels}
	rows := plan.Rule{Class: "f32", Op: graph.OpLinear, Weights: anyMatrix}
	lookup := plan.Rule{Class: "f32", Op: graph.OpEmbed, Weights: anyMatrix, Packing: panels}
	plainLookup := plan.Rule{Class: "f32", Op: graph.OpEmbed, Weights: anyMatrix}
	for _, c := range []struct {
		name  string
		rules []plan.Rule
		want  [2]*plan.Format // of a matrix, and of one that is a table too
	}{
		{"no rules", nil, [2]*plan.Format{}},
		{"tables have none", []plan.Rule{packed, rows}, [2]*plan.Format{panels, nil}},
		{"tables have one", []plan.Rule{packed, rows, lookup, plainLookup}, [2]*plan.Format{panels, panels}},
		{"rows are better", []plan.Rule{rows, packed}, [2]*plan.Format{}},
	} {
		b := graph.NewBuilder(max9)
		ids := b.Input("ids", tensor.I32, tensor.Rows(dimT))
		table, w := b.Weight("table", graph.RoleEmbedding, tensor.Static(16, 8)), b.Weight("w", graph.RoleUp, tensor.Static(8, 8))
		y := b.Linear("head", b.Linear("up", b.Embed("e", table, ids, 1), w, nil), table, nil)
		g, err := b.Freeze(y)
		p := lowered(t, g, err, nil, c.rules...)
		for i, v := range []*graph.Value{w, table} {
			if got := p.Packing(v); got != c.want[i] {
				t.Errorf("%s: %s is packed as %s, expected %s", c.name, v, got, c.want[i])
			}
		}
	}
}

// TestStateForms: state that products read packed lies in both formats; its
// writer writes both, or a step behind it converts.
func TestStateForms(t *testing.T) {
	read := plan.Rule{Class: "f32", Op: graph.OpLinear, Weights: anyMatrix, Packing: panels}
	update := plan.Rule{Class: "f32", Op: graph.OpAdamW, Together: true, Writes: func(*plan.Step) []*plan.Format { return []*plan.Format{panels} }}
	for _, c := range []struct {
		rules []plan.Rule
		want  string
	}{
		{[]plan.Rule{read, update}, "linear adamw"},
		{[]plan.Rule{read}, "linear adamw convert"},
	} {
		b := graph.NewBuilder(max9)
		state := func(name string) *graph.Value { return b.State(name, graph.RoleUp, tensor.F32, tensor.Static(8, 8)) }
		w, m, v := state("w"), state("m"), state("v")
		y := b.Linear("y", b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), w, nil)
		b.AdamW("step", w, m, v, b.Input("g", tensor.F32, tensor.Static(8, 8)), b.Input("norm", tensor.F32, tensor.Static(1)),
			b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen)), graph.AdamWAttr{})
		g, err := b.Freeze(y)
		p := lowered(t, g, err, nil, c.rules...).Plans[0]
		if got := kinds(p); got != c.want {
			t.Fatalf("steps are %s, expected %s", got, c.want)
		}
		if got := formats(p, w); got != "plain+panels" {
			t.Errorf("the weight lies as %s", got)
		}
		if got, want := p.ArenaBytes[plan.State], int64(3*256+64); got != want {
			t.Errorf("state has %d bytes, expected %d", got, want)
		}
	}
}

// TestAlikeStepsAreOneKind: steps of different layers cost the same, in whatever
// formats their operands lie.
func TestAlikeStepsAreOneKind(t *testing.T) {
	b := graph.NewBuilder(max9)
	x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("w", tensor.F32, tensor.Static(8))
	matrix := b.Input("matrix", tensor.F32, tensor.Static(8, 8))
	for range 3 {
		x = b.Add("sum", x, b.Linear("product", b.RMSNorm("norm", x, w, 1e-5, 0), matrix, nil))
	}
	g, err := b.Freeze(x)
	p := lowered(t, g, err, nil, inHalf, roundingNorm)
	if got := formats(p.Plans[0], g.Outputs[0].Node.In[1].Node.In[0]); got != "half" {
		t.Fatalf("the operand of a product lies as %s", got)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(p.Backend, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Attach(profile.NewRecorder(profile.Options{}), plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	if got := plan.CostKinds(s, 0); got != 3 {
		t.Errorf("norms, products and sums of three layers are %d kinds, expected 3", got)
	}
}

// TestStateFormsOfBuckets: buckets agree on the formats and places of state,
// whichever steps write them.
func TestStateFormsOfBuckets(t *testing.T) {
	read := plan.Rule{Class: "f32", Op: graph.OpLinear, Weights: anyMatrix, Packing: panels}
	several := plan.Rule{Class: "half", Op: graph.OpMul, From: 2, Reads: []*plan.Format{half}}
	b := graph.NewBuilder(max9)
	state := func(name string) *graph.Value { return b.State(name, graph.RoleUp, tensor.F32, tensor.Static(8, 8)) }
	w, m, v := state("w"), state("m"), state("v")
	x := b.Scale("s", b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), 2)
	y := b.Linear("y", b.Mul("mul", x, b.Input("u", tensor.F32, tensor.Rows(dimT, 8))), w, nil)
	b.AdamW("step", w, m, v, b.Input("g", tensor.F32, tensor.Static(8, 8)), b.Input("norm", tensor.F32, tensor.Static(1)),
		b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen)), graph.AdamWAttr{})
	g, err := b.Freeze(y)
	p := lowered(t, g, err, []tensor.Bind{{T: 1, S: 1, R: 1}, max9}, several, read)
	for i, want := range []string{"scale mul linear adamw convert", "scale convert mul linear adamw convert"} {
		if got := kinds(p.Plans[i]); got != want {
			t.Errorf("bucket %d: steps are %s, expected %s", i, got, want)
		}
	}
}

// TestCheckFindsWrongForms: Check refuses forms that lie beside their value or
// over each other, outputs that are not plain, and a format that a step's rules
// do not take.
func TestCheckFindsWrongForms(t *testing.T) {
	b := graph.NewBuilder(max9)
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	n := b.RMSNorm("n", x, b.Input("w", tensor.F32, tensor.Static(8)), 1e-5, 0)
	y := b.Add("y", n, b.Linear("l", n, b.Weight("w2", graph.RoleUp, tensor.Static(8, 8)), nil))
	g, err := b.Freeze(y)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(p *plan.Plan)
	}{
		{"nothing", "", func(*plan.Plan) {}},
		{"beside its value", "outside", func(p *plan.Plan) { p.Forms[n.ID][1].Place.Offset += 64 }},
		{"over each other", "overlap", func(p *plan.Plan) { p.Forms[n.ID][1].Place.Offset = p.Forms[n.ID][0].Place.Offset }},
		{"an output", "plain", func(p *plan.Plan) { p.Forms[y.ID][0].Format = half }},
		{"not taken", "does not take", func(p *plan.Plan) { p.Steps[2].Reads[slices.Index(p.Steps[2].In, n)] = half }},
	} {
		p := lowered(t, g, nil, nil, inHalf, roundingNorm).Plans[0]
		if got := kinds(p); got != "norm linear add" {
			t.Fatalf("steps are %s", got)
		}
		c.change(p)
		switch err := plan.Check(p); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: Check says %v, expected %q", c.name, err, c.want)
		}
	}
}

// TestFormatsThatOneStepCannotRead: operands of one step that take no common
// format of a value are an error of Compile, not a kernel that reads the wrong one.
func TestFormatsThatOneStepCannotRead(t *testing.T) {
	mulAddHalf := plan.Rule{Class: "half", Op: graph.OpMul, Reads: []*plan.Format{half}}
	b := graph.NewBuilder(max9)
	x := b.Scale("x", b.Input("in", tensor.F32, tensor.Rows(dimT, 8)), 2)
	g, err := b.Freeze(b.Add("add", b.Mul("mul", x, b.Input("u", tensor.F32, tensor.Rows(dimT, 8))), x))
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Compile("test", g, ruled{fused{ref.New(), []plan.Pattern{mulAdd}}, []plan.Rule{mulAddHalf}}, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err == nil || !strings.Contains(err.Error(), "does not take") {
		t.Errorf("a step that takes one value in two formats: Compile says %v", err)
	}
}

// TestFormsOfSiblings: each of several products of one input may end in a format, and
// a rule may read more operands than the first in one.
func TestFormsOfSiblings(t *testing.T) {
	rounding := inHalf
	rounding.Writes = func(*plan.Step) []*plan.Format { return []*plan.Format{half} }
	b := graph.NewBuilder(max9)
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	product := func(name string) *graph.Value {
		return b.Linear(name, x, b.Weight("w"+name, graph.RoleUp, tensor.Static(8, 8)), nil)
	}
	p, q := product("p"), product("q")
	g, err := b.Freeze(b.Mul("y", p, q))
	if err != nil {
		t.Fatal(err)
	}
	siblings := []plan.Pattern{{Kind: "linear+linear", Root: graph.OpLinear, Siblings: func(_, _ *graph.Node) bool { return true }}}
	for operands, want := range map[int]string{0: "half plain", 2: "half half"} {
		reads := plan.Rule{Class: "half", Op: graph.OpMul, Reads: []*plan.Format{half, nil}, Operands: operands}
		prog, err := plan.Compile("test", g, ruled{fused{ref.New(), siblings}, []plan.Rule{rounding, reads}}, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		one := prog.Plans[0]
		if got := formats(one, p) + " " + formats(one, q); kinds(one) != "linear+linear mul" || got != want {
			t.Errorf("%d operands: steps %s, formats %s, expected %s", operands, kinds(one), got, want)
		}
	}
}
