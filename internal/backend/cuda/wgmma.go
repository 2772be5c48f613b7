package cuda

import (
	"fmt"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// tile is a kernel of wgmma.cu: rows x columns of results at a time.
type tile struct {
	rows, cols, stages int
	perUnit            int  // blocks that a unit holds
	turns              bool // two warpgroups have tiles of their own
	// Clocks on a full unit, as measured on an H200: of the begin of a block, of 64
	// values of k, of the end of a tile, and of an activation there.
	begin, step, end, act int
}

var tiles = []tile{
	{rows: 128, cols: 256, stages: 4, perUnit: 1, begin: 2500, step: 1450, end: 4500, act: 2400},
	{rows: 128, cols: 192, stages: 5, perUnit: 1, turns: true, begin: 3000, step: 1130, end: 4000, act: 2200},
	{rows: 64, cols: 192, stages: 6, perUnit: 1, turns: true, begin: 2500, step: 700, end: 3000, act: 1500},
	{rows: 64, cols: 128, stages: 4, perUnit: 2, begin: 3000, step: 500, end: 1000, act: 600},
	{rows: 64, cols: 64, stages: 6, perUnit: 2, begin: 2500, step: 400, end: 600, act: 300},
}

// invariantTile serves every number of rows of an invariant program.
var invariantTile = tiles[1]

func (t tile) name(kernel string) string {
	name := fmt.Sprintf("%s_%d_%d", kernel, t.rows, t.cols)
	if t.turns {
		name += "_turns"
	}
	return name
}

// threads are those of a block: one or two warpgroups multiply, and one thread has
// tiles brought. With two, that thread's warpgroup gives up its registers.
func (t tile) threads() int {
	if t.rows == 64 && !t.turns {
		return 128 + 32
	}
	return 3 * 128
}

// shared is the dynamic shared memory of a block: a ring of tiles of both operands
// at 1024 bytes.
func (t tile) shared() int { return t.stages*(t.rows+t.cols)*128 + 1024 }

// clocks estimates how long a unit takes for so many tiles.
func (t tile) clocks(count, steps int, act bool) int {
	end := t.end
	if act {
		end += t.act
	}
	multiply := steps * t.step
	if t.turns && count == 1 { // nothing to take turns with: it has the tensor cores alone
		return t.begin + multiply*5/8 + end
	}
	if t.turns { // one warpgroup ends its tile while the other multiplies
		return t.begin + count*max(multiply, (multiply+end)/2) + end
	}
	return t.begin + count*(multiply+end)
}

// chooseTile estimates the clocks of each kernel for a product and takes the least.
// Where tiles do not fill the card, the blocks of a cluster may share k. cols are the
// columns of each part that writes results, of which a tile has half its columns
// where there is a gate; act says that results pass through an activation.
func chooseTile(rows, k, units int, cols []int, gate, act bool) (best tile, splits int) {
	least, steps := 0, (k+63)/64
	for _, t := range tiles {
		blocks := t.tilesOf(rows, cols, gate)
		for s := 1; s <= 8 && (s == 1 || !t.turns && blocks < units && blocks*s <= 2*units && steps >= 2*s); s *= 2 {
			places := units
			if s > 2 && t.perUnit == 1 { // such clusters do not fit into every group of units
				places = units * 7 / 8
			}
			clocks := t.clocks((blocks*s+places-1)/places, (steps+s-1)/s, act)
			if s > 1 { // the sums of a cluster are added up
				clocks += 2000 + t.rows*t.cols/8
				if t.perUnit == 1 { // no other block multiplies meanwhile
					clocks += 6000
				}
			}
			if least == 0 || clocks < least {
				least, best, splits = clocks, t, s
			}
		}
	}
	return best, splits
}

// tilesOf is the number of tiles of a product.
func (t tile) tilesOf(rows int, cols []int, gate bool) int {
	wide := 0
	for _, n := range cols {
		wide += (n + t.box(gate) - 1) / t.box(gate)
	}
	return (rows + t.rows - 1) / t.rows * wide
}

// box is the columns of one matrix in a tile: half of them where there is a gate.
func (t tile) box(gate bool) int {
	if gate {
		return t.cols / 2
	}
	return t.cols
}

// product is what a kernel of tiles computes, as Wg in wgmma.cu.
type product struct {
	a       tensorMap
	b       [device.MostParts]tensorMap
	more    [device.MostParts - 1]tensorMap
	y, h    [device.MostParts]address
	bias    [device.MostParts]address
	rows, k tensor.Dim
	n       [device.MostParts]int
	parts   int
	glu     bool
	act     int
	early   bool
	deep    [device.MostParts]int
	chunks  int
}

// wgmma is many rows on the tensor cores of compute capability 9.0. Matrices that
// are not bf16 are decoded into the step's memory.
func (b *binder) wgmma(p *device.Products, x in) {
	if b.tallFits(p) {
		b.tall(p, x)
		return
	}
	n, parts := columns(p)
	cols := n[:len(p.Out)]
	t, splits := invariantTile, 1
	if !b.Plan.Invariant {
		t, splits = chooseTile(p.Rows, p.K, b.be.drv.describe().Units, cols, p.Gated, p.Act >= 0)
	}
	early := b.weights(p)
	for i := range parts {
		early = early && b.DType(p.Nodes[i].In[1]) == tensor.BF16
	}
	b.tiled("k_wg", t, splits, t.tilesOf(p.Rows, cols, p.Gated), product{
		a:    b.tensorMap(x.at, p.Rows, p.K, t.rows),
		b:    each3(parts, func(i int) tensorMap { return b.tensorMap(b.matrix(p.Nodes[i].In[1]), n[i], p.K, t.box(p.Gated)) }),
		y:    each3(len(p.Out), func(i int) address { return b.writes(p.Out[i]).plain }),
		h:    each3(len(p.Out), func(i int) address { return b.writes(p.Out[i]).half }),
		bias: each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[2]) }),
		rows: p.X.Shape.Outer, k: tensor.Fixed(p.K), n: n, parts: parts, glu: p.Gated, act: p.Act, early: early, chunks: 1,
	})
}

// tiled launches a kernel of tiles, of which there are count. As many blocks as the
// card holds take tiles in turns, unless the blocks of a cluster share each.
func (b *binder) tiled(kernel string, t tile, splits, count int, p product) {
	if splits == 1 {
		count = min(count, t.perUnit*b.be.drv.describe().Units)
	}
	b.launchProduct(t.name(kernel), [3]int{count, splits, 1}, t.threads(), t.shared(), p)
}

// launchProduct launches a kernel whose argument is Wg of wgmma.cu, or begins with it. The blocks of a grid
// column are a cluster.
func (b *binder) launchProduct(kernel string, grid [3]int, threads, shared int, p product, more ...any) {
	wg := []any{p.a, p.b, p.more[0], p.more[1], p.y, p.h, p.bias, b.sizes, p.rows, p.k, p.n, p.parts, p.glu, p.act, p.early, p.deep, p.chunks, tail(64)}
	b.launch(kernel, grid, threads, append(wg, more...)...)
	l := &b.launches[len(b.launches)-1]
	l.shared, l.cluster, l.whole = shared, grid[1], true
}

// gradientTiles are the kernels that gradients have.
var gradientTiles = []tile{tiles[0], tiles[1], tiles[4]}

// chooseGradient is the kernel for rows x cols results of dy w.
func chooseGradient(rows, cols, k, units int) (best tile) {
	least := 0
	for _, t := range gradientTiles {
		clocks := t.clocks((t.tilesOf(rows, []int{cols}, false)+units-1)/units, (k+63)/64, false)
		if least == 0 || clocks < least {
			least, best = clocks, t
		}
	}
	return best
}

// chooseChunks is the kernel for rows x cols results of dy^T x, and into how many
// chunks their k is cut so that tiles fill the card. The sums of chunks are written
// and added by another kernel: so many bytes per clock.
func chooseChunks(rows, cols, k, units int) (best tile, chunks int) {
	const most, begin, bytesPerClock = 16, 4000, 2000
	least, steps := 0, (k+63)/64
	for _, t := range gradientTiles {
		blocks := t.tilesOf(rows, []int{cols}, false)
		for c := 1; c <= min(most, steps); c++ {
			clocks := t.clocks((blocks*c+units-1)/units, (steps+c-1)/c, false)
			if c > 1 {
				clocks += begin + (2*c+1)*4*rows*cols/bytesPerClock
			}
			if least == 0 || clocks < least {
				least, best, chunks = clocks, t, c
			}
		}
	}
	return best, chunks
}

// tensorMap describes rows x cols values of bf16, in rows of a multiple of 8 values,
// to the copy engine, which brings box rows of 64 values at a time. The first pass has no addresses yet.
func (b *binder) tensorMap(at address, rows, cols, box int) tensorMap {
	if b.At == 0 {
		return tensorMap{}
	}
	m, err := b.be.drv.tensorMap(at, rows, cols, box)
	if err != nil {
		b.Fail(fmt.Errorf("%s: %w", b.Step.Name, err))
	}
	return m
}

// Limits of the kernel for few rows: from so many values of weights on it is faster
// than smaller blocks, or than those of held.cu if they all run at once; so many steps of
// 64 values of k fit into a block.
const (
	wideWeights = 1 << 20
	wideHeld    = 1 << 21
	wideSteps   = 16
	wideSplits  = 8
	wideUnit    = 220 << 10 // bytes of shared memory that a unit has for such blocks
)

// mostOfFew is up to how many values of a matrix in bf16 the kernels of few rows are
// faster than those of many, measured with 8 rows on an H200.
const mostOfFew = 1 << 22

// large reports whether few rows are multiplied with a matrix in bf16 of n x k values
// by the kernels of many rows.
func (b *Backend) large(n, k int) bool { return b.wgmma && n*k > mostOfFew }

// wideFits reports whether a product of few rows is one for k_wide.
func (b *binder) wideFits(p *device.Products) bool {
	values := 0
	for i := range p.Nodes {
		values += p.Cols(i) * p.K
	}
	if values < wideHeld && b.held(p) > 0 && fewTiles(p) <= 2*b.be.drv.describe().Units {
		return false
	}
	return b.be.wgmma && values >= wideWeights && p.K <= 64*wideSteps*wideSplits && b.DType(p.Nodes[0].In[1]) == tensor.BF16
}

// wide is up to 16 rows with large matrices: 64 rows of weights per block, and k is
// shared by a cluster.
func (b *binder) wide(p *device.Products) {
	n, parts := columns(p)
	tiles, rows := 0, 64
	for i := range parts {
		tiles += (n[i] + 63) / 64
	}
	if p.Gated {
		tiles, rows = (n[0]+31)/32, 32
	}
	steps, splits := (p.K+63)/64, 1
	for splits < wideSplits && ((steps+splits-1)/splits > wideSteps/2 || tiles*splits < 2*b.be.drv.describe().Units && steps/splits >= 4) {
		splits *= 2
	}
	steps = (steps + splits - 1) / splits
	// As many clusters as the card holds take tiles in turns.
	held := min(4, wideUnit/wideShared(steps)) * b.be.drv.describe().Units / splits
	b.launch("k_wide", [3]int{min(tiles, max(held, 1)), splits, 1}, 128,
		each3(parts, func(i int) tensorMap { return b.tensorMap(b.Value(p.Nodes[i].In[1]), n[i], p.K, rows) }),
		b.Value(p.X),
		each3(len(p.Out), func(i int) address { return b.Value(p.Out[i]) }),
		each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[2]) }),
		b.sizes, p.X.Shape.Outer, n, parts, p.K, p.Gated, p.Act, tail(64))
	l := &b.launches[len(b.launches)-1]
	l.shared, l.cluster, l.whole = wideShared(steps), splits, true
}

// wideShared is the dynamic shared memory of so many steps: 64 rows of weights and
// 32 of x.
func wideShared(steps int) int { return steps*96*128 + 1024 }
