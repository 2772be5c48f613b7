package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// zeros is a source of weights that are 0.
type zeros map[string]weights.Tensor

func (s zeros) Weight(name string) (weights.Tensor, error) { return s[name], nil }
func (zeros) Drop(weights.Tensor)                          {}

// open binds a graph whose weights are 0, for its largest sizes alone.
func open(t *testing.T, be *Backend, g *graph.Graph, source zeros) *plan.Session {
	t.Helper()
	prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, source), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A layer of a decoder takes five kernels for one row: norms, rotation and the write into
// the cache are parts of its products. For up to 8 rows queries, keys and values have
// the last two if their matrices are bf16 on the card: if an embedding reads a matrix too,
// it is not, and its product has a kernel of its own. Kernels begin early.
func TestLayerOfFewRowsIsFused(t *testing.T) {
	const dim, heads, kv, head, ffn = 512, 8, 2, 64, 1024
	several := []string{"k_norm", "k_several", "k_attend_row_64", "k_few16_bf16", "k_norm", "k_wide", "k_few16_bf16"}
	for _, c := range []struct {
		rows   int
		d      tensor.DType // of matrices in the file
		tables string       // matrices that an embedding reads too
		bare   bool         // queries, keys and values read an input, which is in f32
		want   []string
	}{
		{1, tensor.BF16, "", false, []string{"k_stream_bf16", "k_attend_row_64", "k_stream_bf16", "k_stream_bf16", "k_stream_bf16"}},
		{1, tensor.F32, "k", false, []string{"k_norm", "k_stream_bf16", "k_one_f32", "k_stream_bf16", "k_rope", "k_rope_kv", "k_attend_row_64", "k_stream_bf16", "k_stream_bf16", "k_stream_bf16", "k_embed"}},
		{8, tensor.BF16, "", false, several},
		{8, tensor.F32, "", false, several},
		{8, tensor.F16, "", false, several},
		{8, tensor.Q5_0, "", false, several},
		{8, tensor.Q8_0, "", false, []string{"k_norm", "k_few16_q8_0", "k_rope", "k_rope_kv", "k_attend_row_64", "k_few16_q8_0", "k_norm", "k_few16_glu_q8_0", "k_few16_q8_0"}},
		{8, tensor.F32, "qkv", false, []string{"k_norm", "k_few16_f32", "k_rope", "k_rope_kv", "k_attend_row_64", "k_few16_bf16", "k_norm", "k_wide", "k_few16_bf16", "k_embed", "k_embed", "k_embed"}},
		{8, tensor.F32, "k", false, []string{"k_norm", "k_few16_bf16", "k_few16_f32", "k_few16_bf16", "k_rope", "k_rope_kv", "k_attend_row_64", "k_few16_bf16", "k_norm", "k_wide", "k_few16_bf16", "k_embed"}},
		{16, tensor.BF16, "", false, []string{"k_norm", "k_few16", "k_rope", "k_rope_kv", "k_attend", "k_few16", "k_norm", "k_wide", "k_few16"}},
		{8, tensor.BF16, "", true, []string{"k_add", "k_round", "k_several", "k_attend_row_64", "k_few16_bf16", "k_norm", "k_wide", "k_few16_bf16"}},
	} {
		t.Run(fmt.Sprintf("%d rows of %s %s %v", c.rows, c.d, c.tables, c.bare), func(t *testing.T) {
			f := newFake()
			be, err := newBackend(Options{}, f)
			if err != nil {
				t.Fatal(err)
			}
			source := zeros{}
			b := graph.NewBuilder(tensor.Bind{T: c.rows, S: c.rows, R: 1})
			b.WeightType = func(name string) (tensor.DType, error) {
				if strings.HasSuffix(name, "norm") {
					return tensor.F32, nil
				}
				return c.d, nil
			}
			weight := func(name string, shape ...int) *graph.Value {
				d, _ := b.WeightType(name)
				bytes := d.RowBytes(shape[len(shape)-1])
				if len(shape) > 1 {
					bytes *= shape[0]
				}
				source[name] = weights.Tensor{DType: d, Data: make([]byte, bytes)}
				return b.Weight(name, graph.RoleOther, tensor.Static(shape...))
			}
			rows, seqs := tensor.Of(tensor.T, 1), tensor.Of(tensor.S, 1)
			ints := func(name string, s tensor.Shape) *graph.Value { return b.Input(name, tensor.I32, s) }
			x, y := b.Input("x", tensor.F32, tensor.Rows(rows, dim)), b.Input("y", tensor.F32, tensor.Rows(rows, dim))
			pos, slots := ints("pos", tensor.Rows(rows)), ints("slots", tensor.Rows(rows))
			starts, lens, table := ints("starts", tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1})), ints("lens", tensor.Rows(seqs)), ints("table", tensor.Rows(seqs, 4))
			cache := tensor.Static(64*graph.KVBlock, kv*head)
			ks, vs := b.State("k", graph.RoleKV, tensor.F16, cache), b.State("v", graph.RoleKV, tensor.F16, cache)

			sum := b.Add("sum", x, y)
			h := b.RMSNorm("first", sum, weight("first_norm", dim), 1e-6, 0)
			if c.bare {
				h = x
			}
			turned := func(name string, n int) *graph.Value {
				return b.Rope(name+"_rope", b.Linear(name+"_proj", h, weight(name, n*head, dim), nil), pos, nil, graph.RopeAttr{HeadDim: head, Base: 1e4})
			}
			q, k := turned("q", heads), turned("k", kv)
			ks, vs = b.KVWrite("write", ks, vs, k, b.Linear("v_proj", h, weight("v", kv*head, dim), nil), slots)
			a := graph.AttentionKVAttr{AttentionAttr: graph.AttentionAttr{Heads: heads, KVHeads: kv, HeadDim: head, Causal: true}}
			o := b.Linear("o_proj", b.AttentionKV("attention", q, ks, vs, starts, lens, table, a), weight("o", dim, heads*head), nil)
			sum = b.Add("sum2", sum, o)
			h = b.RMSNorm("second", sum, weight("second_norm", dim), 1e-6, 0)
			glu := b.GLU("glu", b.Linear("gate", h, weight("gate", ffn, dim), nil), b.Linear("up", h, weight("up", ffn, dim), nil), graph.SiLU)
			outs := []*graph.Value{b.Linear("down_proj", glu, weight("down", dim, ffn), nil), sum}
			for _, name := range c.tables {
				table := b.Weight(string(name), graph.RoleOther, tensor.Static(map[rune]int{'q': heads, 'k': kv, 'v': kv}[name]*head, dim))
				outs = append(outs, b.Embed("embed_"+string(name), table, pos, 1))
			}
			g, err := b.Freeze(outs...)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, be, g, source)
			var got []string
			for i, l := range f.lists[1] {
				if l.kernel != "k_transfer" {
					got = append(got, l.kernel)
				}
				if l.early != (i > 1) {
					t.Errorf("launch %d, %s, begins early: %v", i, l.kernel, l.early)
				}
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("kernels %v, expected %v", got, c.want)
			}
			if err := errors.Join(s.Close(), be.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Blocks hold what they share of x, fit into shared memory, and most of the card has
// work.
func TestShapeOfSeveralRows(t *testing.T) {
	for _, c := range []struct {
		name     string
		pairs, k int
		want     severalShape
	}{
		{"queries, keys and values", 1536, 2048, severalShape{132, 1, 8}},
		{"long rows", 1024, 8192, severalShape{33, 4, 8}},
		{"narrow rows", 480, 576, severalShape{60, 1, 8}},
		{"tiny", 3, 8, severalShape{1, 1, 8}},
	} {
		s := shapeSeveral(c.pairs, c.k, 132)
		if s != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, s, c.want)
		}
		parts := ((c.k+63)/64 + s.splits - 1) / s.splits
		if (parts+s.split-1)/s.split > severalParts {
			t.Errorf("%s: a warp has %d of %d parts of k", c.name, s.split, parts)
		}
		if bytes := severalShared(s, c.pairs); bytes > severalMost {
			t.Errorf("%s: %d bytes of shared memory", c.name, bytes)
		}
	}
	for k := 8; k <= mostOfSeveral; k += 8 {
		if s := shapeSeveral(1000, k, 132); s.splits == 0 {
			t.Fatalf("no shape for rows of %d values", k)
		}
	}
}

// Units have equal shares of large matrices, and the blocks of a cluster one tile.
func TestShapeOfTallProducts(t *testing.T) {
	for _, c := range []struct {
		name                         string
		tiles, steps, blocks, splits int
	}{
		{"gated", 256, 32, 256, 1},
		{"down", 32, 128, 32, 4},
		{"head", 2004, 32, 264, 1},
		{"few tiles of short rows", 100, 3, 100, 1},
	} {
		if blocks, splits := shapeTall(c.tiles, c.steps, 132); blocks != c.blocks || splits != c.splits {
			t.Errorf("%s: %d blocks of %d that share k, expected %d of %d", c.name, blocks, splits, c.blocks, c.splits)
		}
	}
	for _, k := range tallKernels {
		if bytes := k.shared() + 2*k.rows*68*4 + 16*k.stages; bytes > mostShared {
			t.Errorf("%s: %d bytes of shared memory: two blocks do not fit on a unit", k.name(), bytes)
		}
	}
}
