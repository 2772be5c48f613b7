package train

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/batch"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/weights"
)

// objectiveCase is a row of testdata/objectives.json.
type objectiveCase struct {
	Name, Model, Kind string
	Config            ObjectiveConfig
	LoRA              LoRAConfig
	Examples          []Example
	Masked            [][2][]int32 // ids as the model sees them, targets
	Loss              float64
	Grads             map[string][]float64
}

func objectiveCases(t *testing.T) []objectiveCase {
	t.Helper()
	data, err := os.ReadFile("testdata/objectives.json")
	must(t, err)
	var cs []objectiveCase
	must(t, json.Unmarshal(data, &cs))
	for i := range cs {
		for _, path := range []*string{&cs[i].Model, &cs[i].Config.Teacher, &cs[i].Config.Reference} {
			if *path != "" {
				*path = filepath.Join("..", *path)
			}
		}
	}
	return cs
}

// TestObjectivesMatchPyTorch holds loss and gradients of every objective
// against PyTorch and sentence-transformers in double precision.
func TestObjectivesMatchPyTorch(t *testing.T) {
	seen := map[string]bool{"lm": true} // TestLossesMatchPyTorch
	for _, c := range objectiveCases(t) {
		seen[c.Config.Type] = true
		for _, kind := range []string{"ref", "cpu2", "chunks"} {
			t.Run(strings.ReplaceAll(c.Name, " ", "-")+"/"+kind, func(t *testing.T) {
				r := c.run(t, Options{Backend: backends[kind](t)})
				if n := chunks(r.sess.Program().Plans[0]); kind == "chunks" && (n > 1) != slices.Contains([]string{"lm", "mlm", "sft", "distill"}, c.Config.name()) {
					t.Errorf("%d chunks of logits", n)
				}
				grads := r.gradients(t)
				for _, p := range r.parts.Params {
					if p.Fresh {
						grads["fresh "+p.Key] = read(t, r, p.M)
					}
				}
				var all float64
				for _, g := range c.Grads {
					all += g[0] * g[0]
				}
				for name, w := range c.Grads {
					if f, ok := grads[name]; !ok {
						t.Errorf("%s has no gradient", name)
					} else if d := digestError(f, w, 1e-3*math.Sqrt(all)); !(d <= 1e-4) {
						t.Errorf("%s deviates by %g of its norm", name, d)
					}
				}
			})
		}
	}
	for name := range objectives {
		if !seen[name] {
			t.Errorf("objective %s has no golden", name)
		}
	}
}

// run makes one run without moments over the examples, and compares the loss.
func (c *objectiveCase) run(t *testing.T, o Options) *runner {
	t.Helper()
	st, err := weights.Open(c.Model)
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	kind := Kind(slices.Index(kindNames[:], c.Kind))
	examples := c.Examples
	for _, m := range c.Masked {
		examples = append(examples, Example{Seqs: []Sequence{{IDs: m[0]}}})
	}
	src, err := NewMemory(kind, examples)
	must(t, err)
	cfg := DefaultConfig()
	cfg.Model, cfg.Objective = c.Model, c.Config
	obj, err := newObjective(setting{cfg: &cfg, model: m, opts: o, stats: src.Stats(), all: src.Stats()})
	must(t, err)
	t.Cleanup(func() { must(t, obj.close()) })
	if !slices.Contains(obj.kinds(), kind) {
		t.Fatalf("%s does not learn from examples of kind %s", c.Name, kind)
	}
	most := obj.most(1000, src.Stats())
	r, err := openRunner(t.Context(), m, o, task{obj: obj, lora: c.LoRA.options()}, most)
	must(t, err)
	t.Cleanup(func() { must(t, r.close()) })
	kinds := map[*graph.Value]int{} // which signs a weight has
	for _, d := range r.parts.Adapters {
		kinds[d.A], kinds[d.B] = 1, 2
	}
	for _, p := range r.parts.Params {
		if !p.Fresh || p.Role == graph.RoleBias {
			continue
		}
		k, ok := kinds[p.Value]
		if !ok {
			k = 3
		}
		f := read(t, r, p.Value)
		for i := range f {
			if f[i] = 1; p.Role != graph.RoleNorm {
				f[i] = 0.1 * float32(sign(i, k))
			}
		}
		must(t, r.sess.WriteState(p.Value, f))
	}
	b := newBatches(src, obj, most, 1000, 1)
	must(t, b.plan())
	if len(b.runs) != 1 || b.runs[0].examples != len(examples) {
		t.Fatalf("runs %+v of %d examples", b.runs, len(examples))
	}
	must(t, b.fill(t.Context(), r.in, b.runs[0]))
	if c.Masked != nil { // with the golden's masks
		r.in.Reset()
		for _, m := range c.Masked {
			at := r.in.sequence(&Sequence{IDs: m[0]}, len(m[0]))
			for i, id := range m[1] {
				if id >= 0 {
					r.in.Target(at+i, id)
				}
			}
		}
	}
	loss, _, err := r.runStep(t.Context(), grad.Hyper{Eps: 1}, 1)
	must(t, err)
	if d := math.Abs(float64(loss)/c.Loss - 1); !(d <= 1e-5) {
		t.Errorf("loss %g, PyTorch's is %g", loss, c.Loss)
	}
	return r
}

// TestMasking: of the chosen tokens about 80 per cent are masked, 10 per cent
// are others and 10 per cent stay, special tokens are never chosen, and the
// position in the data decides which.
func TestMasking(t *testing.T) {
	st, err := weights.Open(filepath.Join("..", "testmodels", "testdata", "bert"))
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	cfg := DefaultConfig()
	cfg.Objective = ObjectiveConfig{Type: "mlm", MaskRate: 0.2}
	obj, err := newObjective(setting{cfg: &cfg, model: m})
	must(t, err)
	o := obj.(*mlm)
	examples := make([]Example, 200)
	for i := range examples {
		ids := make([]int32, 50)
		for j := range ids {
			ids[j] = int32(20 + (i*7+j*13)%300)
		}
		cls, _ := o.tok.CLS()
		sep, _ := o.tok.SEP()
		ids[0], ids[49] = cls, sep
		examples[i].Seqs = []Sequence{{IDs: ids}}
	}
	src, err := NewMemory(Text, examples)
	must(t, err)
	most := o.most(10000, src.Stats())
	in := testInputs(most)
	fill := func(seed uint64) []int32 {
		b := newBatches(src, o, most, 10000, seed)
		must(t, b.plan())
		must(t, b.fill(t.Context(), in, b.runs[0]))
		return slices.Clone(in.Tokens[:in.Bind.T])
	}
	first := fill(1)
	var masked, kept, other float64
	for r := range in.Bind.R {
		row, want := in.Rows[r], in.Targets[r]
		if o.tok.IsSpecial(want) {
			t.Errorf("the special token %d was chosen", want)
		}
		switch got := in.Tokens[row]; got {
		case o.mask:
			masked++
		case want:
			kept++
		default:
			other++
		}
	}
	n := float64(in.Bind.R)
	if want := 200 * 10; int(n) != want { // 48 tokens at 0.2
		t.Errorf("%g tokens chosen, want %d", n, want)
	}
	for name, share := range map[string][2]float64{"masked": {masked / n, 0.8}, "other": {other / n, 0.1}, "kept": {kept / n, 0.1}} {
		if math.Abs(share[0]-share[1]) > 0.03 {
			t.Errorf("%s: %g of the chosen tokens, want %g", name, share[0], share[1])
		}
	}
	if !slices.Equal(first, fill(1)) || slices.Equal(first, fill(2)) {
		t.Error("the seed does not decide the masks")
	}
}

// TestDuplicatesAreNotNegatives: a document with the text of the right one is
// no wrong answer.
func TestDuplicatesAreNotNegatives(t *testing.T) {
	s := func(ids ...int32) Sequence { return Sequence{IDs: ids} }
	pairs := []Example{{Seqs: []Sequence{s(1, 2), s(7, 8)}}, {Seqs: []Sequence{s(3), s(7, 8)}}, {Seqs: []Sequence{s(4), s(9)}}}
	o := &contrastive{seen: map[uint64]int32{}}
	o.partner.i, o.same.i = make([]int32, 6), make([]int32, 6)
	in := &inputs{Batch: &batch.Batch{Tokens: make([]int32, 20), Pos: make([]int32, 20), QStart: make([]int32, 7)}}
	for range 2 { // texts are numbered anew in each run
		in.Reset()
		for i := range pairs {
			o.put(in, &pairs[i], nil)
		}
		if !slices.Equal(o.partner.i, []int32{1, -1, 3, -1, 5, -1}) || !slices.Equal(o.same.i, []int32{-1, 0, -1, 0, -1, 1}) {
			t.Errorf("partners %v, texts %v", o.partner.i, o.same.i)
		}
	}
	a := graph.InfoNCEAttr{}
	for c, want := range []bool{false, true, false, false, false, true} {
		if got := a.Counts(o.partner.i, o.same.i, 0, c); got != want {
			t.Errorf("row %d counts for the first anchor: %v", c, got)
		}
	}
}

func TestObjectiveConfig(t *testing.T) {
	for text, want := range map[string]string{
		`"contrastive"`: "",
		`{"type":"contrastive","dims":[8,4],"scale":50,"batch":64}`: "",
		`{"type":"mlm","mask_rate":0.3}`:                            "",
		`{"type":"mlm","mask_rat":0.3}`:                             "mask_rat",
		`{"type":"lm","beta":0.1}`:                                  "beta: expected it only with type dpo, not with lm",
		`{"type":"sgd"}`:                                            "field objective.type: expected one of classify, contrastive",
		`{"type":"mlm","mask_rate":1.5}`:                            "field objective.mask_rate",
		`{"type":"distill","teacher":"x","temperature":-1}`:         "field objective.temperature",
		`[1]`: "expected an object",
	} {
		_, err := ParseConfig("c.json", []byte(`{"model":"m","data":"d","out":"o","objective":`+text+`}`), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	c, err := ParseConfig("c.json", []byte(`{"model":"m","data":"d","out":"o"}`), []string{"objective.type=contrastive", "objective.scale=5"})
	must(t, err)
	if c.Objective.Type != "contrastive" || c.Objective.Scale != 5 {
		t.Errorf("objective %+v", c.Objective)
	}
}
