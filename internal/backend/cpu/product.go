package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/tensor"
)

// Precision asks for compute classes of products.
type Precision string

const (
	// Auto is the fastest class that keeps answers close to f32 whatever the
	// model: bf16 where there are tiles for it, i16g32 where pairs of integers
	// multiply faster than f32, and f32 elsewhere.
	Auto Precision = "auto"
	// F32 computes every product in f32.
	F32 Precision = "f32"
	// BF16 rounds the operands of products with weights to bf16 and sums in
	// f32: on tiles where there are some, else with the instructions of f32, at
	// half of its bytes. Attention follows on tiles only.
	BF16 Precision = "bf16"
	// I16G32 rounds the operands of products with weights to 16-bit integers
	// with a scale per 32; attention and the rest stay in f32. It is what Auto
	// means on machines without tiles.
	I16G32 Precision = "i16g32"
	// I8G32 multiplies the file's own codes with activations that are
	// quantized by 32, and sums in f32; other weights are as in Auto. It moves
	// a small model's log likelihoods by several per cent, so nobody gets it
	// by default; tests and measurements ask for it.
	I8G32 Precision = "i8g32"
)

// ParsePrecision checks a precision's name; the empty one is Auto.
func ParsePrecision(s string) (Precision, error) {
	switch p := Precision(s); p {
	case "":
		return Auto, nil
	case Auto, F32, BF16:
		return p, nil
	}
	return Auto, fmt.Errorf("cpu: precision %q, expected f32, bf16 or auto", s)
}

// class is the compute class of products, but for integers.
func (p Precision) class() Precision {
	switch p {
	case F32, I16G32:
		return F32
	case BF16:
		return BF16
	}
	if amx.Tiles() {
		return BF16
	}
	return F32
}

// classOf is the compute class of products with weights of a storage type.
func (p Precision) classOf(d tensor.DType) Precision {
	switch {
	case p == I8G32 && int8.Takes(d), p == I16G32:
		return p
	case (p == Auto || p == "" || p == I8G32) && cpu.Active() < cpu.AMX && i16.Fast():
		return I16G32
	}
	return p.class()
}

// Class is the compute class of products with a weight of a role and a storage
// type, where more rows than a few meet it.
func (p Precision) Class(role graph.Role, d tensor.DType) Precision {
	if role == graph.RoleRouter {
		return F32
	}
	return p.classOf(d)
}

// Attention is the compute class of attention. Without tiles that is f32: its
// factors change with each run, so rounding them would only cost.
func (p Precision) Attention() Precision {
	if !amx.Tiles() {
		return F32
	}
	return p.class()
}

// product is W[N,K] as the B operand of x w^T, in its compute class.
type product struct {
	n, k   int
	class  Precision
	f32    gemm.Panels
	bf16   []amx.Panels // [worker]
	int8   *int8.Packed
	i16    i16.Weights
	act    i16.Act      // what products in i16g32 end with
	own    int          // the fewest rows that a worker has for itself in them
	cheap  bool         // panels cost nothing to fetch: rows may be cut anywhere
	stored *gemm.Stored // the file's rows, where they are resident
	tiled  bool         // few rows multiply with them on tiles
	coded  int          // up to how many multiply with the codes in them as integers
	label  string
}

// newProduct finds the resident form of w, or views state that training
// rewrites.
func newProduct(b *binder, w *graph.Value) (*product, error) {
	p := &product{n: w.Shape.NumRows(tensor.Bind{}), k: w.Shape.RowLen(), class: F32}
	packed := b.weight(w)
	switch {
	case packed == nil:
		m, err := b.f32(w)
		p.f32, p.label = &gemm.Rows{W: m.full, N: p.n, K: p.k, LD: p.k}, "gemm f32 rows"
		return p, err
	case packed.panels != nil:
		p.f32, p.cheap, p.label = packed.panels, true, "gemm f32 panels"
		return p, nil
	case packed.tiles != nil:
		p.class, p.cheap, p.label = BF16, true, "gemm bf16 panels"
		for range b.workers {
			p.bf16 = append(p.bf16, packed.tiles)
		}
		b.wantTiles(p.k)
		return p, nil
	}
	if packed.int8 != nil {
		p.class, p.int8, p.cheap = I8G32, packed.int8, true
		p.label = "gemm i8g32 " + packed.dtype.String()
		b.wantInt8(p.k)
		return p, nil
	}
	if packed.i16 != nil {
		p.class, p.i16, p.cheap, p.label = I16G32, packed.i16, true, "gemm i16g32 panels"
		p.own = pairRows
		b.wantI16(p.k)
		return p, nil
	}
	stored, err := gemm.NewStored(packed.rows, packed.dtype, p.n, p.k)
	if err != nil {
		return nil, err
	}
	p.stored, p.class = stored, b.be.opts.Precision.Class(w.Node.Leaf.Role, packed.dtype)
	p.label = fmt.Sprintf("gemm %s from %s", p.class, packed.dtype)
	switch p.class {
	case BF16:
		for range b.workers {
			p.bf16 = append(p.bf16, amx.NewStored(stored))
		}
		b.wantTiles(p.k)
		p.tiled = amx.CanFew(stored)
		p.setCoded()
	case I16G32:
		p.i16, p.own = i16.Stored{W: stored}, ownRows(packed.dtype)
		b.wantI16(p.k)
		p.setCoded()
	default:
		p.f32, p.class = stored, F32
	}
	return p, nil
}

// onTiles says whether products outrun memory, which part wants to know.
func (p *product) onTiles() bool { return p.class == BF16 && amx.Tiles() }

// computeClass is for the profile, whose ceilings depend on it.
func (p *product) computeClass() Precision { return p.class }

// tile is the block of rows and columns that work is shared out in.
func (p *product) tile() (mr, nr int) {
	switch p.class {
	case BF16:
		if !amx.Tiles() {
			return gemm.MR(), amx.NR
		}
		return amx.MR, amx.NR
	case I8G32:
		return int8.MR, int8.NR
	case I16G32:
		return i16.MR(), i16.NR
	}
	return gemm.MR(), gemm.NR()
}

// direct says whether few rows of x multiply with the file's rows as they
// lie, and reserves what that needs.
func (b *binder) direct(p *product, x mat) bool {
	if p.stored == nil || b.invariant || b.least(x.outer) > p.fewest() {
		return false
	}
	b.wantFew(p)
	switch rows := x.rows(b.plan.Max); {
	case rows > p.fewest(): // then another way is taken sometimes
	case p.byCodes(rows):
		p.label, p.class = "rows i16g32 from "+p.stored.DType.String(), I16G32
		p.i16, p.own = i16.Stored{W: p.stored}, ownRows(p.stored.DType)
		b.wantI16(p.k)
	case rows > 1 && p.tiled:
		p.label = "rows bf16 from " + p.stored.DType.String()
	default:
		p.label, p.class = "rows f32 from "+p.stored.DType.String(), F32
		p.f32 = p.stored
	}
	return true
}

// fewest is up to how many rows multiply with the file's rows as they lie: on
// tiles one, where the type has no kernel for more, because panels are unpacked
// in less time than rows are decoded.
func (p *product) fewest() int {
	switch {
	case p.tiled:
		return amx.FewRows
	case p.coded > 0:
		return p.coded
	case p.class == BF16 && amx.Unpacks(p.stored):
		return 1
	}
	return gemm.FewRows
}

// tiledCodes is up to how many rows dot products of bytes outrun tiles.
const tiledCodes = 6

// setCoded finds out how many rows multiply with the file's codes as integers.
func (p *product) setCoded() {
	switch {
	case !gemm.CanCodes(p.stored):
	case p.tiled:
		p.coded = tiledCodes
	default:
		p.coded = gemm.CodeRows
	}
}

// byCodes says whether so many rows do. One row with codes of 8 bits does not:
// it waits for memory, which its own kernel reads in the better order.
func (p *product) byCodes(rows int) bool {
	return rows <= p.coded && (rows > 1 || p.stored.DType != tensor.Q8_0)
}

// part is share i of a product of rows x n, in whole tiles: rows where panels
// cost nothing and there are enough of them, else columns. On tiles, which
// multiply faster than memory brings weights, a worker's shares are columns of
// the same rows: rows alone would fetch all weights once a share, not once a
// worker. With fewer rows to a worker than it takes to hide one fetch, all of
// them meet a part of the weights instead.
func part(rows, n, mr, nr int, cheap, tiles bool, i, shares int) (m0, m1, c0, c1 int) {
	m1, c1 = rows, n
	blocks := shares / sharesEach
	switch {
	case cheap && tiles && blocks > 1 && blocks*sharesEach == shares && rows >= 2*blocks*mr:
		m0, m1 = share(rows, mr, i/sharesEach, blocks)
		c0, c1 = share(n, nr, i%sharesEach, sharesEach)
	case cheap && rows >= shares*mr:
		m0, m1 = share(rows, mr, i, shares)
	default:
		c0, c1 = share(n, nr, i, shares)
	}
	return m0, m1, c0, c1
}

// width is into how many shares some products of m rows and n columns, which
// are cut together, are cut.
func (p *product) width(m, n, products, nr, shares int) int {
	shares = productWidth(m*products, n, p.k, nr, p.sharesFor(m, n*products, shares))
	if p.class == I16G32 {
		return pairWidth(m*products, n, p.k, nr, shares)
	}
	return shares
}

// part is share i of it.
func (p *product) part(m, n, mr, nr int, cheap bool, i, shares int) (m0, m1, c0, c1 int) {
	if p.class == I16G32 {
		return pairPart(m, n, p.own, mr, nr, i, shares)
	}
	return part(m, n, mr, nr, cheap, p.onTiles(), i, shares)
}

// multiply computes columns [c0,c1), whole tiles, of y[rows,N] = x[rows,K] w^T
// + bias; few is what isFew says of the step.
func (p *product) multiply(w *worker, y []float32, x factor, bias []float32, rows, c0, c1 int, few bool) {
	_, nr := p.tile()
	p0, p1 := c0/nr, (c1+nr-1)/nr
	switch {
	case few:
		p.few(w, y, x.f32, bias, rows, c0, c1)
	case p.class == I8G32:
		t := int8.Task{M: rows, N: p.n, K: p.k, A: x.f32, LDA: p.k, B: p.int8, C: y, LDC: p.n, Bias: bias, Epoch: w.epoch}
		int8.Run(&t, 0, rows, p0, p1, w.scratch.int8)
	case p.class == I16G32:
		t := i16.Task{M: rows, N: p.n, K: p.k, A: x.f32, LDA: p.k, W: p.i16, C: y, LDC: p.n, Bias: bias, Act: p.act, Epoch: w.epoch}
		i16.Run(&t, 0, rows, p0, p1, w.scratch.i16)
	case p.class == BF16:
		t := amx.Task{M: rows, N: p.n, K: p.k, A: x.f32, Rounded: x.half, LDA: p.k, B: p.bf16[w.lane], C: y, LDC: p.n, Bias: bias, Epoch: w.epoch}
		amx.Run(&t, 0, rows, p0, p1, w.scratch.tiles)
	default:
		t := gemm.Task{M: rows, N: p.n, K: p.k, A: x.f32, LDA: p.k, B: p.f32, C: y, LDC: p.n, Bias: bias, Epoch: w.epoch}
		gemm.Run(&t, 0, rows, p0, p1, w.scratch.gemm)
	}
}

// isFew says whether the rows of a step, all of them, multiply with the file's
// rows as they lie: what a row gives must not depend on where a share or a block
// of many rows ends.
func (p *product) isFew(rows int, direct bool) bool { return direct && rows <= p.fewest() }

// few multiplies some rows with weight rows [c0,c1) straight from the file: a
// few as integers where the type has a kernel for that, else one in f32 and
// several on tiles where there are some.
func (p *product) few(w *worker, y, x, bias []float32, rows, c0, c1 int) {
	if p.byCodes(rows) {
		t := gemm.CodeTask{M: rows, A: x, LDA: p.k, W: p.stored, C: y, LDC: p.n, Bias: bias, Epoch: w.epoch}
		gemm.RunCodes(&t, c0, c1, w.scratch.codes)
		return
	}
	if rows > 1 && p.tiled {
		t := amx.FewTask{M: rows, A: x, LDA: p.k, W: p.stored, C: y, LDC: p.n, Bias: bias, Epoch: w.epoch}
		amx.RunFew(&t, c0, c1, w.scratch.few)
		return
	}
	if s := &w.scratch.one; rows == 1 {
		gemm.GemvRows(y, p.stored, x[:p.k], s.prepared(x[:p.k], p.stored.DType, w.epoch), c0, c1)
	} else {
		gemm.Few(y, p.n, p.stored, x, p.k, rows, c0, c1, s.room(p.k))
	}
	if bias == nil {
		return
	}
	for r := range rows {
		row := y[r*p.n+c0 : r*p.n+c1]
		vec.Add(row, row, bias[c0:c1])
	}
}

// oneRow is a row of x as the kernels for a storage type take it. Shares of a
// step, and siblings of one type, make it once.
type oneRow struct {
	buf []float32 // as much as the longest row needs
	// What it holds.
	of    *float32
	d     tensor.DType
	k     int
	epoch uint64
}

// prepared is the form of x for weights of type d, unless it is there already.
func (o *oneRow) prepared(x []float32, d tensor.DType, epoch uint64) []float32 {
	if len(x) > 0 && (o.of != &x[0] || o.d != d || o.k != len(x) || o.epoch != epoch) {
		gemm.XSums(o.buf, x, d)
		o.of, o.d, o.k, o.epoch = &x[0], d, len(x), epoch
	}
	return o.buf
}

// room is the buffer for rows of k values; what it held is forgotten.
func (o *oneRow) room(k int) []float32 {
	o.of = nil
	return o.buf[:gemm.XSumsLen(k)]
}
