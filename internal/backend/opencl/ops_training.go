package opencl

import "hotpath/internal/graph"

func init() {
	for name, bind := range map[string]func(*binder, *graph.Node){
		"accumulate": func(b *binder, n *graph.Node) { b.each("k_accumulate", n.In[0], b.values(n.In)...) },
		"buckets": func(b *binder, n *graph.Node) {
			b.each("k_buckets", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Integers(n.Attr.(*graph.BucketsAttr).Of), n.In[0].Shape.RowLen())
		},
		"buckets_grad": func(b *binder, n *graph.Node) {
			of := n.Attr.(*graph.BucketsAttr).Of
			b.each("k_buckets_grad", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Integers(of), len(of))
		},
		"columns":      elements("k_columns", width),
		"columns_grad": elements("k_columns", width),
		"row_dot": func(b *binder, n *graph.Node) {
			x := n.In[0]
			b.perRow("k_row_dot", x, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(x), b.Value(n.In[1]))
		},
		"row_dot_grad": elements("k_mul_rows"),
		"dropout":      elements("k_dropout", func(n *graph.Node) any { return int(int32(n.Attr.(graph.DropoutAttr).Salt)) }),
		"embed_bag_grad": func(b *binder, n *graph.Node) {
			dy := n.In[0]
			b.launch("k_embed_bag_grad", [2]extent{groups(n.Attr.(graph.EmbedGradAttr).Rows), groups(1)}, 64, b.sizes, dy.Shape.Outer, dy.Shape.RowLen(), b.Value(n.Out[0]), b.Value(dy), b.Value(n.In[1]), b.Value(n.In[2]))
		},
		"distill": func(b *binder, n *graph.Node) {
			x := n.In[0]
			b.perRow("k_distill", x, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(x), b.Value(n.In[1]), n.Attr.(graph.DistillAttr).Temperature)
		},
		"distill_grad": func(b *binder, n *graph.Node) {
			dx := n.Out[0]
			b.perRow("k_distill_grad", dx, dx.Shape.RowLen(), append(b.values(append([]*graph.Value{dx}, n.In...)), n.Attr.(graph.DistillAttr).Temperature)...)
		},
		"infonce": func(b *binder, n *graph.Node) {
			x := n.In[0]
			b.perRow("k_infonce", x, x.Shape.RowLen(), append(b.values(append(n.Out[:2:2], n.In...)), n.Attr.(graph.InfoNCEAttr).Scale)...)
		},
		"infonce_grad": func(b *binder, n *graph.Node) {
			dx := n.Out[0]
			b.perRow("k_infonce_grad", dx, dx.Shape.RowLen(), append(b.values(append([]*graph.Value{dx}, n.In...)), n.Attr.(graph.InfoNCEAttr).Scale)...)
		},
		"preference":      elements("k_preference", beta),
		"preference_grad": elements("k_preference_grad", beta),
		"sequence_sum":    elements("k_sequence_sum"),
		"sequence_sum_grad": func(b *binder, n *graph.Node) {
			b.each("k_sequence_sum_grad", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), n.In[0].Shape.Outer)
		},
	} {
		ops[name] = bind
	}
}

func width(n *graph.Node) any { return n.In[0].Shape.RowLen() }

func beta(n *graph.Node) any { return n.Attr.(graph.PreferenceAttr).Beta }
