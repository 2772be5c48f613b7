package optest

import (
	"fmt"
	"math"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

var (
	dimT  = tensor.Of(tensor.T, 1)
	dimR  = tensor.Of(tensor.R, 1)
	dimS1 = tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}
)

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

// Cases is the table. Sizes are odd on purpose: tails live there.
func Cases() []Case {
	cs := []Case{
		{Name: "add", Build: func(b *Bench) []*graph.Value { return one(b.Add("y", b.F32(dimT, 37), b.F32(dimT, 37))) }},
		{Name: "mul", Build: func(b *Bench) []*graph.Value { return one(b.Mul("y", b.F32(dimT, 37), b.F32(dimT, 37))) }},
		{Name: "scale", Build: func(b *Bench) []*graph.Value { return one(b.Builder.Scale("y", b.F32(dimT, 37), -1.7)) }},
		{Name: "fill", Build: func(b *Bench) []*graph.Value { return one(b.Fill("y", tensor.Rows(dimT, 5), 2.5)) }},
		{Name: "add_row", Build: func(b *Bench) []*graph.Value {
			return one(b.AddRow("y", b.F32(dimT, 37), b.F32(tensor.Fixed(37))))
		}},
		{Name: "embed", Build: func(b *Bench) []*graph.Value {
			return one(b.Embed("y", b.F32(tensor.Fixed(11), 37), b.ids(11), 2.5))
		}},
		{Name: "embed stored", NoGrad: true, Build: func(b *Bench) []*graph.Value {
			return one(b.Embed("y", b.Stored(tensor.Q8_0, 11, 64), b.ids(11), 0))
		}},
		{Name: "layer norm", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.LayerNorm("y", b.F32(dimT, 37), b.F32(tensor.Fixed(37)), b.F32(tensor.Fixed(37)), 1e-5))
		}},
		{Name: "rms norm", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.RMSNorm("y", b.F32(dimT, 64), b.F32(tensor.Fixed(64)), 1e-5, 0))
		}},
		{Name: "rms norm of heads", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.RMSNorm("y", b.F32(dimT, 72), b.F32(tensor.Fixed(24)), 1e-5, 0))
		}},
		{Name: "layer norm, a weight for each of three heads", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.HeadNorm("y", b.F32(dimT, 72), b.F32(tensor.Fixed(72)), b.F32(tensor.Fixed(72)), 24, 1e-5))
		}},
		{Name: "shift", Build: func(b *Bench) []*graph.Value { return one(b.Shift("y", b.F32(dimT, 37), 1.5)) }},
		{Name: "buckets", Build: func(b *Bench) []*graph.Value {
			return one(b.Buckets("y", b.F32(tensor.Fixed(5), 3), []int{4, 0, 0, 2, 3, 4, 4}))
		}},
		{Name: "rms norm of heads, offset", Build: func(b *Bench) []*graph.Value {
			return one(b.RMSNorm("y", b.F32(dimT, 72), b.F32(tensor.Fixed(24)), 1e-5, 1))
		}},
		{Name: "gather", Build: func(b *Bench) []*graph.Value { return one(b.Gather("y", b.F32(dimT, 37), b.rows())) }},
		{Name: "l2norm", Build: func(b *Bench) []*graph.Value { return one(b.L2Norm("y", b.F32(dimT, 37))) }},
		{Name: "cross entropy", Build: func(b *Bench) []*graph.Value {
			nll, lse := b.CrossEntropy("y", b.F32(dimR, 53), b.targets(53))
			return []*graph.Value{nll, lse}
		}},
		{Name: "cross entropy, smoothed", Build: func(b *Bench) []*graph.Value {
			share := b.I32(tensor.Fixed(1), 0, func(int) int32 { return int32(math.Float32bits(0.1)) })
			nll, lse := b.SmoothedCrossEntropy("y", b.F32(dimR, 53), b.targets(53), share)
			return []*graph.Value{nll, lse}
		}},
		{Name: "dropout", Build: dropout(0.3)},
		{Name: "dropout of nothing", Build: dropout(0)},
		{Name: "mean", Build: func(b *Bench) []*graph.Value { return one(b.Mean("y", b.F32(dimR), b.targets(53))) }},
		{Name: "mean of all", Build: func(b *Bench) []*graph.Value { return one(b.Mean("y", b.F32(dimR), nil)) }},
		{Name: "sum squares and global norm", Build: func(b *Bench) []*graph.Value {
			p := b.SumSquares("a", b.F32(tensor.Fixed(97), 131))
			q := b.SumSquares("b", b.F32(tensor.Fixed(5)))
			return []*graph.Value{p, b.GlobalNorm("y", p, q)}
		}},
		{Name: "adamw", Build: adamw(0)},
		{Name: "adamw within its limit", Build: adamw(1e9)},
		{Name: "adamw beyond its limit", Build: adamw(1e-9)},
		{Name: "sgd", Build: sgd(0, graph.SGDAttr{})},
		{Name: "sgd, decay", Build: sgd(0, graph.SGDAttr{Decay: true})},
		{Name: "sgd, nesterov", Build: sgd(0, graph.SGDAttr{Decay: true, Nesterov: true})},
		{Name: "sgd beyond its limit", Build: sgd(1e-9, graph.SGDAttr{})},
		{Name: "accumulate, first", Build: accumulate(0)},
		{Name: "accumulate", Build: accumulate(1)},
		{Name: "kv", Tol: 2e-5, Build: kv(graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 24, Causal: true})},
		{Name: "kv f16", Tol: 2e-5, Build: kvOf(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 24, Causal: true})},
		{Name: "kv q8_0", Tol: 2e-5, Build: kvOf(tensor.Q8_0, graph.AttentionAttr{Heads: 2, KVHeads: 1, HeadDim: 64, Causal: true})},
		{Name: "rope then kv", Tol: 2e-5, Build: kvRoped(tensor.F32, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 24, Causal: true}, &graph.RopeAttr{HeadDim: 24, RotDim: 16, Base: 1e4, Scale: 1})},
		{Name: "rope then kv f16", Tol: 2e-5, Build: kvRoped(tensor.F16, graph.AttentionAttr{Heads: 2, KVHeads: 2, HeadDim: 32, Causal: true}, &graph.RopeAttr{HeadDim: 32, RotDim: 32, Base: 1e4, Scale: 1, Interleaved: true})},
		{Name: "kv decode", Tol: 2e-5, Build: kvDecode(tensor.F16, graph.AttentionAttr{Heads: 6, KVHeads: 1, HeadDim: 64, Causal: true})},
		{Name: "kv decode q8_0", Tol: 2e-5, Build: kvDecode(tensor.Q8_0, graph.AttentionAttr{Heads: 6, KVHeads: 2, HeadDim: 32, Causal: true, SoftCap: 3})},
		{Name: "kv decode window", Tol: 2e-5, Build: kvDecode(tensor.F32, graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 96, Causal: true, Window: 21})},
		{Name: "kv decode alibi", Tol: 2e-5, Build: kvDecode(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 32, Causal: true, Alibi: true})},
		{Name: "kv f16, heads of 64, window", Tol: 2e-5, Build: kvOf(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 64, Causal: true, Window: 9})},
		{Name: "kv f16, heads of 128", Tol: 2e-5, Build: kvOf(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 128, Causal: true})},
		{Name: "kv decode, heads of 128, capped", Tol: 2e-5, Build: kvDecode(tensor.F16, graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 128, Causal: true, SoftCap: 3})},
		{Name: "kv decode, heads of 64, alibi", Tol: 2e-5, Build: kvDecode(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 64, Causal: true, Alibi: true})},
		{Name: "kv long f16, heads of 128", Tol: 2e-5, Build: kvLong(tensor.F16, graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 128, Causal: true})},
		{Name: "kv long f16", Tol: 2e-5, Build: kvLong(tensor.F16, graph.AttentionAttr{Heads: 6, KVHeads: 2, HeadDim: 64, Causal: true})},
		{Name: "kv long q8_0, capped", Tol: 2e-5, Build: kvLong(tensor.Q8_0, graph.AttentionAttr{Heads: 5, KVHeads: 1, HeadDim: 32, Causal: true, SoftCap: 3})},
		{Name: "kv long f32, window", Tol: 2e-5, Build: kvLong(tensor.F32, graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 96, Causal: true, Window: 401})},
		{Name: "kv long, alibi", Tol: 2e-5, Build: kvLong(tensor.F16, graph.AttentionAttr{Heads: 8, KVHeads: 4, HeadDim: 32, Causal: true, Alibi: true})},
		{Name: "kv alibi", Tol: 2e-5, Build: kv(graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 16, Causal: true, Alibi: true})},
		{Name: "kv window", Tol: 2e-5, Build: kv(graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 16, Causal: true, Window: 70})},
		{Name: "linear then act", Build: func(b *Bench) []*graph.Value {
			h := b.Linear("h", b.F32(dimT, 48), b.F32(tensor.Fixed(40), 48), b.F32(tensor.Fixed(40)))
			return one(b.Act("y", h, graph.GELU))
		}},
		{Name: "two linears then glu", NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			x := b.F32(dimT, 96)
			g := b.Linear("g", x, b.Stored(tensor.Q4_1, 75, 96), b.F32(tensor.Fixed(75)))
			u := b.Linear("u", x, b.Stored(tensor.F32, 75, 96), nil)
			return one(b.GLU("y", g, u, graph.SiLU))
		}},
		{Name: "two stored linears then glu", NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			x := b.F32(dimT, 96)
			g := b.Linear("g", x, b.Stored(tensor.Q8_0, 75, 96), nil)
			u := b.Linear("u", x, b.Stored(tensor.Q4_1, 75, 96), nil)
			return one(b.GLU("y", g, u, graph.GELU))
		}},
		{Name: "add then norm, both read", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			s := b.Add("s", b.F32(dimT, 40), b.F32(dimT, 40))
			n := b.RMSNorm("n", s, b.F32(tensor.Fixed(40)), 1e-5, 0)
			return []*graph.Value{s, n}
		}},
	}
	for _, a := range []graph.AttentionAttr{
		{Heads: 4, KVHeads: 2, HeadDim: 24, Causal: true},
		{Heads: 2, KVHeads: 2, HeadDim: 32},
		{Heads: 3, KVHeads: 1, HeadDim: 20, Window: 4},
		{Heads: 2, KVHeads: 1, HeadDim: 16, Causal: true, Window: 3, SoftCap: 1.5},
		{Heads: 6, KVHeads: 2, HeadDim: 12, Causal: true, Alibi: true},
		{Heads: 2, KVHeads: 1, HeadDim: 48, Causal: true},
		{Heads: 1, KVHeads: 1, HeadDim: 64, Causal: true},
		{Heads: 2, KVHeads: 2, HeadDim: 80},
		{Heads: 1, KVHeads: 1, HeadDim: 96, Window: 5},
	} {
		cs = append(cs, Case{Name: fmt.Sprintf("attention %+v", a), Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			out, lse := b.Attention("y", b.F32(dimT, a.Heads*a.HeadDim), b.F32(dimT, a.KVHeads*a.HeadDim), b.F32(dimT, a.KVHeads*a.HeadDim), b.Starts(), a)
			return []*graph.Value{out, lse}
		}}, Case{Name: fmt.Sprintf("attention, dropout %+v", a), Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			a.Salt = 5
			out, lse := b.AttentionDropout("y", b.F32(dimT, a.Heads*a.HeadDim), b.F32(dimT, a.KVHeads*a.HeadDim), b.F32(dimT, a.KVHeads*a.HeadDim), b.Starts(), b.dropoutKey(0.3), a)
			return []*graph.Value{out, lse}
		}})
	}
	cs = append(cs, Case{Name: "sample", NoGrad: true, Build: func(b *Bench) []*graph.Value {
		how := b.F32(dimR, graph.SampleLen)
		for i := range b.floats[how] { // greedy, all tokens, and each filter alone and with others
			row := []float32{0.7, float32(i % 7), float32(i%3) * 0.45, float32(i%2) * 0.05}
			b.floats[how][i] = row[i%graph.SampleLen] * float32(min(i/graph.SampleLen, 1))
		}
		draw := b.I32(dimR, 2, func(i int) int32 { return int32(uint32(i*2654435761) >> (11 * (1 - i%2))) })
		// Through a table, since outputs are floats.
		return one(b.Embed("y", b.F32(tensor.Fixed(53), 5), b.Sample("ids", b.F32(dimR, 53), how, draw), 0))
	}})
	cs = append(cs, Case{Name: "ids of the run before", NoGrad: true, Build: func(b *Bench) []*graph.Value {
		ids := b.I32(dimR, 0, func(i int) int32 { return int32(i*i%54) - 1 }) // -1: none
		last := b.Keep("keep", b.State("last", graph.RoleOther, tensor.I32, tensor.Static(b.Bind.R)), ids)
		tokens := b.I32(dimT, 0, func(i int) int32 {
			if i%3 == 1 {
				return int32(i % 53)
			}
			return -1 - int32(i*5%b.Bind.R)
		})
		return one(b.Embed("y", b.F32(tensor.Fixed(53), 5), b.Resume("resume", tokens, last), 0))
	}})
	cs = append(cs, Case{Name: "positions", Build: func(b *Bench) []*graph.Value {
		// Through a table, since outputs are floats.
		return one(b.Embed("y", b.F32(tensor.Fixed(b.Bind.T+1), 5), b.Positions("p", b.ids(7), b.Starts(), 3), 0))
	}})
	for _, d := range []tensor.DType{tensor.F32, tensor.Q8_0} {
		cs = append(cs, Case{Name: "embed bag " + d.String(), NoGrad: true, Build: func(b *Bench) []*graph.Value {
			return one(b.EmbedBag("y", b.Stored(d, 11, 64), b.ids(11), b.Starts()))
		}})
	}
	cs = append(cs, Case{Name: "embed bag", Build: func(b *Bench) []*graph.Value {
		return one(b.EmbedBag("y", b.F32(tensor.Fixed(11), 37), b.ids(11), b.Starts()))
	}})
	for _, reach := range []int{0, 3, 200} {
		a := graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 20}
		tol := 2e-5
		if reach == 0 {
			tol = 1e-4 // the gradient of one bias for all keys is 0: rounding is all there is
		}
		cs = append(cs, Case{Name: fmt.Sprintf("attention by distance up to %d", reach), Tol: tol, Build: func(b *Bench) []*graph.Value {
			return one(b.AttentionRel("y", b.F32(dimT, 60), b.F32(dimT, 60), b.F32(dimT, 60), b.Starts(), b.F32(tensor.Fixed(3), 2*reach+1), nil, a))
		}})
		if reach == 0 {
			continue // as above: differences find nothing but rounding
		}
		cs = append(cs, Case{Name: fmt.Sprintf("attention by distance up to %d, dropout", reach), Tol: tol, Build: func(b *Bench) []*graph.Value {
			return one(b.AttentionRel("y", b.F32(dimT, 60), b.F32(dimT, 60), b.F32(dimT, 60), b.Starts(), b.F32(tensor.Fixed(3), 2*reach+1), b.dropoutKey(0.3), a))
		}})
	}
	for _, a := range []graph.RopeAttr{
		{HeadDim: 24, Base: 10000},
		{HeadDim: 16, Base: 500, Interleaved: true},
		{HeadDim: 20, RotDim: 12, Base: 10000, Scale: 2},
	} {
		cs = append(cs, Case{Name: fmt.Sprintf("rope %+v", a), Build: func(b *Bench) []*graph.Value {
			pos := b.I32(dimT, 0, func(i int) int32 { return int32(i * 5003 % 9000) }) // beyond any table too
			return one(b.Rope("y", b.F32(dimT, 3*a.HeadDim), pos, nil, a))
		}})
	}
	for _, a := range []graph.RopeAttr{
		{HeadDim: 24, RotDim: 16, Base: 500, Magnitude: 1.3, Context: 40},
		{HeadDim: 16, Base: 500, Interleaved: true, Context: 40, Stretch: 4},
	} {
		cs = append(cs, Case{Name: fmt.Sprintf("rope by length %+v", a), Build: func(b *Bench) []*graph.Value {
			pos := b.I32(dimT, 0, func(i int) int32 { return int32(i * 5003 % 9000) })
			length := b.I32(dimT, 0, func(i int) int32 { return int32(i * 3) }) // short and long ones
			var freqs *graph.Value
			if a.Stretch == 0 {
				freqs = b.Stored(tensor.F32, 2, 8)
			}
			return one(b.RopeByLength("y", b.F32(dimT, 3*a.HeadDim), pos, freqs, length, a))
		}})
	}
	for _, used := range []int{1, 3} {
		for _, d := range []tensor.DType{tensor.F32, tensor.BF16, tensor.Q8_0} {
			cs = append(cs, Case{Name: fmt.Sprintf("%d experts in %s", used, d), Tol: 2e-5, Build: experts(used, d)})
		}
	}
	cs = append(cs, Case{Name: "mul rows", Build: func(b *Bench) []*graph.Value {
		return one(b.MulRows("y", b.F32(dimT, 37), b.F32(dimT, 1)))
	}})
	for i := range graph.ActivationNames() {
		kind := graph.ActKind(i)
		cs = append(cs, Case{Name: "act " + kind.String(), Tol: 2e-6, Build: func(b *Bench) []*graph.Value {
			return one(b.Act("y", b.OffZero(b.Scaled(b.F32(dimT, 37), 2)), kind))
		}}, Case{Name: "glu " + kind.String(), Tol: 2e-6, Build: func(b *Bench) []*graph.Value {
			return one(b.GLU("y", b.OffZero(b.F32(dimT, 37)), b.F32(dimT, 37), kind))
		}})
	}
	side, err := graph.ParsePool("max+cls+weightedmean+mean+last+mean_sqrt_len")
	if err != nil {
		panic(err)
	}
	for _, k := range []graph.PoolKind{graph.PoolMean, graph.PoolCLS, graph.PoolLast, graph.PoolMax, graph.PoolMeanSqrt, graph.PoolWeighted, side} {
		cs = append(cs, Case{Name: "pool " + k.String(), Build: func(b *Bench) []*graph.Value {
			return one(b.Pool("y", b.Apart(b.F32(dimT, 37)), b.Starts(), k))
		}})
	}
	// Sequences without a token: the first half of the tokens is one sequence,
	// the rest another at the end, and those between are empty.
	cs = append(cs, Case{Name: "pool last, some empty", Build: func(b *Bench) []*graph.Value {
		starts := b.I32(dimS1, 0, func(i int) int32 {
			switch i {
			case 0:
				return 0
			case b.Bind.S:
				return int32(b.Bind.T)
			}
			return int32(b.Bind.T / 2)
		})
		return one(b.Pool("y", b.F32(dimT, 37), starts, graph.PoolLast))
	}})
	for _, d := range tensor.Codecs() {
		k := max(96, d.Info().BlockLen)
		// How a gradient passes a weight does not depend on its encoding.
		noGrad := d.Quantized() && d != tensor.Q8_0 && d != tensor.Q4_1
		cs = append(cs, Case{Name: "linear " + d.String(), NoGrad: noGrad, Build: func(b *Bench) []*graph.Value {
			return one(b.Linear("y", b.F32(dimT, k), b.Stored(d, 75, k), b.F32(tensor.Fixed(75))))
		}})
	}
	cs = append(cs, Case{Name: "embed Q4_K", NoGrad: true, Build: func(b *Bench) []*graph.Value {
		return one(b.Embed("y", b.Stored(tensor.Q4_K, 11, 256), b.ids(11), 0))
	}})
	for _, n := range []int{1, 33, 130} {
		cs = append(cs, Case{Name: fmt.Sprintf("linear 70x%d", n), Build: func(b *Bench) []*graph.Value {
			return one(b.Linear("y", b.F32(dimT, 70), b.F32(tensor.Fixed(n), 70), nil))
		}})
	}
	return slices.Concat(cs, objectives(), chains(), largeHeads(), siblings(), blocks(), layers(), sums(), long(), gradients())
}

// experts is a mixture of five matrices, of which one is never chosen.
func experts(used int, d tensor.DType) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		const count = 5
		logits := b.F32(dimT, count)
		for i := count - 1; i < len(b.floats[logits]); i += count {
			b.floats[logits][i] = -100
		}
		r := b.Route("route", logits, graph.RouteAttr{Used: used, Normalize: used > 1})
		x := b.Gather("x", b.F32(dimT, 64), r.Rows)
		y := b.GroupedLinear("y", x, b.Stored(d, count*45, 64), r.Offsets)
		return []*graph.Value{b.Combine("out", y, r), r.Weights}
	}
}

func (b *Bench) ids(vocab int32) *graph.Value {
	return b.I32(dimT, 0, func(i int) int32 { return int32(i*i+3*i) % vocab })
}

func (b *Bench) rows() *graph.Value {
	return b.I32(dimR, 0, func(i int) int32 { return int32(i * 7 % b.Bind.T) })
}

func (b *Bench) targets(vocab int32) *graph.Value {
	return b.I32(dimR, 0, func(i int) int32 {
		if i%4 == 1 {
			return -1
		}
		return int32(i*13) % vocab
	})
}

func accumulate(keep float32) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		k, one := b.F32(tensor.Fixed(1)), b.F32(tensor.Fixed(1))
		b.floats[k][0], b.floats[one][0] = keep, 1
		sum := b.State("sum", graph.RoleGrad, tensor.F32, tensor.Static(13, 7))
		sum = b.Accumulate("before", sum, b.F32(tensor.Fixed(13), 7), one)
		return []*graph.Value{b.Accumulate("y", sum, b.F32(tensor.Fixed(13), 7), k)}
	}
}

func dropout(p float32) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value { return one(b.Dropout("y", b.F32(dimT, 37), b.dropoutKey(p), 5)) }
}

func (b *Bench) dropoutKey(p float32) *graph.Value {
	key := make([]int32, graph.DropoutLen)
	graph.PutDropout(key, 0x123456789abcdef, p)
	return b.I32(tensor.Fixed(graph.DropoutLen), 0, func(i int) int32 { return key[i] })
}

// adamw makes two steps, so that the second one has moments.
func adamw(limit float32) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		w := b.State("w", graph.RoleOther, tensor.F32, tensor.Static(13, 7))
		m := b.State("m", graph.RoleMoment, tensor.F32, tensor.Static(13, 7))
		v := b.State("v", graph.RoleMoment, tensor.F32, tensor.Static(13, 7))
		first, hyper := b.hyper(0), b.hyper(limit)
		norm := b.Positive(b.F32(tensor.Fixed(1)))
		w, m, v = b.AdamW("before", w, m, v, b.F32(tensor.Fixed(13), 7), norm, first, graph.AdamWAttr{})
		w, m, v = b.AdamW("y", w, m, v, b.F32(tensor.Fixed(13), 7), norm, hyper, graph.AdamWAttr{Decay: true})
		return []*graph.Value{w, m, v}
	}
}

// sgd makes two steps, so that the second one has momentum.
func sgd(limit float32, a graph.SGDAttr) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		w := b.State("w", graph.RoleOther, tensor.F32, tensor.Static(13, 7))
		m := b.State("m", graph.RoleMoment, tensor.F32, tensor.Static(13, 7))
		first, hyper := b.hyper(0), b.hyper(limit)
		norm := b.Positive(b.F32(tensor.Fixed(1)))
		w, m = b.SGD("before", w, m, b.F32(tensor.Fixed(13), 7), norm, first, graph.SGDAttr{})
		w, m = b.SGD("y", w, m, b.F32(tensor.Fixed(13), 7), norm, hyper, a)
		return []*graph.Value{w, m}
	}
}

func (b *Bench) hyper(limit float32) *graph.Value {
	hyper := b.F32(tensor.Fixed(graph.HyperLen))
	copy(b.floats[hyper], []float32{1e-2, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1, limit})
	return hyper
}

// kv writes a batch into a paged cache and attends to it: each sequence has
// all its tokens in the batch, in blocks that lie in no order.
func kv(a graph.AttentionAttr) func(b *Bench) []*graph.Value { return kvOf(tensor.F32, a) }

func kvOf(d tensor.DType, a graph.AttentionAttr) func(b *Bench) []*graph.Value {
	return kvRoped(d, a, nil)
}

// kvRoped rotates keys on their way into the cache.
func kvRoped(d tensor.DType, a graph.AttentionAttr, rope *graph.RopeAttr) func(b *Bench) []*graph.Value {
	return kvWith(d, a, rope, func(b *Bench, starts *graph.Value) (*graph.Value, *graph.Value) {
		return b.F32(dimT, a.Heads*a.HeadDim), starts
	})
}

// kvDecode has one query of each sequence, the last.
func kvDecode(d tensor.DType, a graph.AttentionAttr) func(b *Bench) []*graph.Value {
	return kvWith(d, a, nil, func(b *Bench, _ *graph.Value) (*graph.Value, *graph.Value) {
		return b.F32(tensor.Of(tensor.S, 1), a.Heads*a.HeadDim), b.I32(dimS1, 0, func(i int) int32 { return int32(i) })
	})
}

// kvLong has one query of each sequence over a long cache, whose blocks the
// sequences share, as texts with the same beginning do.
func kvLong(d tensor.DType, a graph.AttentionAttr) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		const keys = 811
		const block, blocks = graph.KVBlock, (keys + graph.KVBlock - 1) / graph.KVBlock
		seqs, rows := tensor.Of(tensor.S, 1), tensor.Fixed(keys)
		shape := tensor.Static(blocks*block, a.KVHeads*a.HeadDim)
		ks, vs := b.State("k", graph.RoleKV, d, shape), b.State("v", graph.RoleKV, d, shape)
		physical := func(j int) int { return j * 5 % blocks }
		slots := b.I32(rows, 0, func(t int) int32 { return int32(physical(t/block)*block + t%block) })
		ks, vs = b.KVWrite("write", ks, vs, b.F32(rows, a.KVHeads*a.HeadDim), b.F32(rows, a.KVHeads*a.HeadDim), slots)
		lens := b.I32(seqs, 0, func(s int) int32 { return []int32{keys, 256, 257, 3, 700}[s%5] })
		table := b.I32(seqs, blocks, func(i int) int32 { return int32(physical(i % blocks)) })
		starts := b.I32(dimS1, 0, func(i int) int32 { return int32(i) })
		return one(b.AttentionKV("y", b.F32(seqs, a.Heads*a.HeadDim), ks, vs, starts, lens, table, graph.AttentionKVAttr{AttentionAttr: a}))
	}
}

// kvWith writes keys, rotated where there is a rope, and values of all tokens
// and attends with what queries returns, and where each sequence's begin.
func kvWith(d tensor.DType, a graph.AttentionAttr, rope *graph.RopeAttr, queries func(b *Bench, starts *graph.Value) (q, qs *graph.Value)) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		c := b.cache(d, a, 0)
		w := a.KVHeads * a.HeadDim
		k := b.F32(dimT, w)
		if rope != nil {
			k = b.Rope("k", k, b.positions(), nil, *rope)
		}
		k2, v2 := b.KVWrite("write", c.k, c.v, k, b.F32(dimT, w), c.slots)
		q, at := queries(b, c.starts)
		return one(b.AttentionKV("y", q, k2, v2, at, c.lens, c.table, graph.AttentionKVAttr{AttentionAttr: a}))
	}
}

// positions are those of tokens, some beyond what tables hold. The first is not 0,
// where nothing turns.
func (b *Bench) positions() *graph.Value {
	return b.I32(dimT, 0, func(i int) int32 { return int32((11 + i*173) % 9001) })
}

// cache is a paged cache and where a batch lies in it.
type cache struct{ k, v, starts, slots, lens, table *graph.Value }

// cache is for batches whose sequences have all their tokens in them, behind some
// whose keys and values are zeros.
func (b *Bench) cache(d tensor.DType, a graph.AttentionAttr, zeros int) cache {
	const block = graph.KVBlock
	maxBlocks := (b.Max().T + zeros + block - 1) / block
	blocks := maxBlocks * b.Max().S
	shape := tensor.Static(blocks*block, a.KVHeads*a.HeadDim)
	ks := b.State("k", graph.RoleKV, d, shape)
	vs := b.State("v", graph.RoleKV, d, shape)
	starts := b.Starts()
	physical := func(s, j int) int { return (s*maxBlocks + j) * 7 % blocks }
	if blocks%7 == 0 {
		physical = func(s, j int) int { return blocks - 1 - (s*maxBlocks + j) }
	}
	qs := b.ints[starts]
	slots := b.I32(dimT, 0, func(t int) int32 {
		s := 0
		for int(qs[s+1]) <= t {
			s++
		}
		j := t - int(qs[s]) + zeros
		return int32(physical(s, j/block)*block + j%block)
	})
	lens := b.I32(tensor.Of(tensor.S, 1), 0, func(s int) int32 { return qs[s+1] - qs[s] + int32(zeros) })
	table := b.I32(tensor.Of(tensor.S, 1), maxBlocks, func(i int) int32 { return int32(physical(i/maxBlocks, i%maxBlocks)) })
	return cache{ks, vs, starts, slots, lens, table}
}
