package cuda

import (
	"fmt"
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// tallKernel is a kernel of tall.cu: up to so many rows of x, and the steps of 64 values
// of k that are under way.
type tallKernel struct{ rows, stages int }

var tallKernels = []tallKernel{{8, 11}, {16, 10}}

func (t tallKernel) name() string { return fmt.Sprintf("k_tall_%d", t.rows) }

// shared is the dynamic shared memory of a block: 64 rows of weights and those of x per
// step, at 1024 bytes.
func (t tallKernel) shared() int { return t.stages*(64+t.rows)*128 + 1024 }

// tallFits reports whether a product is one for these kernels.
func (b *binder) tallFits(p *device.Products) bool {
	for _, n := range p.Nodes {
		if b.DType(n.In[1]) != tensor.BF16 {
			return false
		}
	}
	return p.Rows <= fewRows && !b.Plan.Invariant && b.weights(p)
}

// shapeTall divides tiles of 64 rows of weights, of so many steps each, among units: as
// many blocks as units hold, two each, take tiles in turns, or the blocks of a cluster
// share each tile. It takes the least number of steps that a unit has; a join costs as
// much as some of them.
func shapeTall(tiles, steps, units int) (blocks, splits int) {
	blocks, splits = min(tiles, 2*units), 1
	least := (tiles + units - 1) / units * steps
	for s := 2; s <= 8 && tiles*s <= 2*units && steps >= 2*s; s *= 2 {
		if cost := (tiles*s+units-1)/units*((steps+s-1)/s) + 4; cost < least {
			least, blocks, splits = cost, tiles, s
		}
	}
	return blocks, splits
}

// tall is up to 16 rows in bf16 with large matrices.
func (b *binder) tall(p *device.Products, x in) {
	n, parts := columns(p)
	kernel, rows, tiles := tallKernels[0], 64, 0
	if p.Rows > kernel.rows {
		kernel = tallKernels[1]
	}
	if p.Gated {
		rows = 32
	}
	for _, cols := range n[:len(p.Out)] {
		tiles += (cols + rows - 1) / rows
	}
	blocks, splits := shapeTall(tiles, (p.K+63)/64, b.be.drv.describe().Units)
	b.launchProduct(kernel.name(), [3]int{blocks, splits, 1}, 128+32, kernel.shared(), product{
		a:    b.tensorMap(x.at, p.Rows, p.K, kernel.rows),
		b:    each3(parts, func(i int) tensorMap { return b.tensorMap(b.Value(p.Nodes[i].In[1]), n[i], p.K, rows) }),
		y:    each3(len(p.Out), func(i int) address { return b.results(p.Out[i]).plain }),
		h:    each3(len(p.Out), func(i int) address { return b.results(p.Out[i]).half }),
		bias: each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[2]) }),
		rows: p.X.Shape.Outer, k: tensor.Fixed(p.K), n: n, parts: parts, glu: p.Gated, act: p.Act, early: true, chunks: 1,
	}, slices.Concat(b.join(), b.factor(), []any{tail(64)})...)
}
