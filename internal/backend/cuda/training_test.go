package cuda

import (
	"context"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/optest"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// Every gradient of the op bench compiles and binds, for a single row and for many,
// in bf16 and in f32.
func TestGradientsBind(t *testing.T) {
	optest.KeepOperands()
	for _, o := range []Options{{Narrow: true}, {F32: true}} {
		be, err := newBackend(o, newFake())
		if err != nil {
			t.Fatal(err)
		}
		for _, bind := range []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 131, S: 5, R: 40}} {
			for _, c := range optest.Cases() {
				if !optest.Differentiable(c, bind) {
					continue
				}
				b, outs, err := optest.Backward(c, bind)
				if err != nil {
					t.Errorf("%s: %v", c.Name, err)
					continue
				}
				r, err := b.Open(be, optest.Options{}, outs...)
				if err != nil {
					t.Errorf("%+v, %s, %d rows: %v", o, c.Name, bind.T, err)
					continue
				}
				if err := r.Session.Close(); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
		if err := be.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// trainingPlan binds a training step of a small GPT-2 on a fake card.
func trainingPlan(t *testing.T, f *fake) (*plan.Plan, []launch) {
	t.Helper()
	be, err := newBackend(Options{Narrow: true}, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	st, err := weights.Open(testmodels.Dir(t, "gpt2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	most := tensor.Bind{T: 200, S: 4, R: 200}
	g, _, _, err := m.BuildTrain(most, model.TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := plan.Compile("train", g, be, []tensor.Bind{most}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return prog.Plans[0], f.lists[1]
}

// The values of a training step that products read are bf16, and nothing rounds or
// turns them on their way. The residual stream and its gradient stay f32.
func TestTrainingFormats(t *testing.T) {
	p, launches := trainingPlan(t, newFake())
	formats := func(v *graph.Value) string {
		var names []string
		for _, f := range p.Forms[v.ID] {
			names = append(names, f.Format.String())
		}
		return strings.Join(names, "+")
	}
	want := map[string]string{ // by the end of the name of a step
		"/q_proj+k_proj+v_proj": "bf16", "/attention": "bf16", "/o_proj": "bf16", "/up_proj": "bf16", "/act": "bf16", "blk.0/down_proj": "bf16",
		"head": "bf16 in padded rows", "cross_entropy/dlogits": "bf16 in padded rows", "head/dx": "bf16", "grad/blk.0/down_proj/dx": "bf16",
		"/act/dx": "bf16", "/up_proj/dx": "bf16", "/o_proj/dx": "bf16", "/attn_norm/sum": "bf16", "/attn_add/sum": "plain+bf16", "blk.0/ffn_add/sum": "plain+bf16", "/dqkv": "bf16",
	}
	seen := map[string]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		for end, format := range want {
			if !strings.HasSuffix(s.Name, end) {
				continue
			}
			seen[end] = true
			results := s.Root().Out
			if s.Kind == "attention" {
				results = results[:1]
			}
			for _, v := range results {
				if got := formats(v); got != format {
					t.Errorf("%s of %s is %s, expected %s", v, s.Name, got, format)
				}
			}
		}
	}
	for end := range want {
		if !seen[end] {
			t.Errorf("no step %s", end)
		}
	}
	for _, n := range p.Graph.Nodes {
		if n.Op != graph.OpLinear {
			continue
		}
		if got := formats(n.In[1]); got != "plain+bf16" {
			t.Errorf("the matrix of %s is %s, expected plain+bf16", n.Name, got)
		}
	}
	count := map[string]int{}
	for _, l := range launches {
		count[l.kernel]++
	}
	for _, kernel := range []string{"k_gemm_f32", "k_decode_bf16", "k_tensor_f32"} {
		if count[kernel] > 0 {
			t.Errorf("%d launches of %s, expected none", count[kernel], kernel)
		}
	}
	if most := 2; count["k_round"] > most { // scatter_rows writes f32 for two products
		t.Errorf("%d launches of k_round, expected %d at most", count["k_round"], most)
	}
	for prefix, least := range map[string]int{"k_dx_": 9, "k_dw_": 13, "k_wg_": 9, "k_norm_dx_": 5, "k_norm_dw_": 5, "k_col_sum_8": 12, "k_flash_dkv_": 2} {
		got := 0
		for kernel, n := range count {
			if strings.HasPrefix(kernel, prefix) {
				got += n
			}
		}
		if got != least {
			t.Errorf("%d launches of %s, expected %d", got, prefix, least)
		}
	}
}

// Kernels of gradients exist, and each is the best for some gradient of a model.
func TestGradientTiles(t *testing.T) {
	const units = 132
	used := map[string]bool{}
	for _, rows := range []int{256, 2048, 32768} {
		for _, c := range [][2]int{{768, 768}, {3072, 768}, {768, 3072}, {50257, 768}, {256, 256}} {
			used[chooseGradient(rows, c[1], c[0], units).name("k_dx")] = true
			tile, chunks := chooseChunks(c[0], c[1], rows, units)
			used[tile.name("k_dw")] = true
			t.Logf("dw [%d,%d] of %d rows: %s, %d tiles in %d chunks", c[0], c[1], rows, tile.name("k_dw"), tile.tilesOf(c[0], []int{c[1]}, false), chunks)
			if chunks < 1 || chunks > (rows+63)/64 {
				t.Errorf("dw %v of %d rows: %d chunks", c, rows, chunks)
			}
		}
	}
	for _, tile := range gradientTiles {
		for _, kernel := range []string{"k_dx", "k_dw"} {
			if !slices.Contains(kernelNames, tile.name(kernel)) {
				t.Errorf("no kernel %s", tile.name(kernel))
			}
			if !used[tile.name(kernel)] {
				t.Errorf("%s is chosen for no gradient", tile.name(kernel))
			}
		}
	}
}
