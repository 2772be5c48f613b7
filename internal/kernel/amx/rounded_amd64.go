package amx

// Kernels that round what they made, by activation.

//go:noescape
func tileOutPlain(t *tileArgs)

//go:noescape
func tileOutGelu(t *tileArgs)

//go:noescape
func tileOutGeluTanh(t *tileArgs)

//go:noescape
func tileOutSilu(t *tileArgs)

//go:noescape
func tileGLUGelu(t *tileArgs)

//go:noescape
func tileGLUGeluTanh(t *tileArgs)

//go:noescape
func tileGLUSilu(t *tileArgs)

//go:noescape
func rowsOutPlain(t *tileArgs, rows int)

//go:noescape
func rowsOutGelu(t *tileArgs, rows int)

//go:noescape
func rowsOutGeluTanh(t *tileArgs, rows int)

//go:noescape
func rowsOutSilu(t *tileArgs, rows int)

//go:noescape
func rowsGLUGelu(t *tileArgs, rows int)

//go:noescape
func rowsGLUGeluTanh(t *tileArgs, rows int)

//go:noescape
func rowsGLUSilu(t *tileArgs, rows int)

// The tables by activation: one product, and act of one times another.
var (
	tileOut = [numActs]func(*tileArgs){tileOutPlain, tileOutGelu, tileOutGeluTanh, tileOutSilu}
	tileGLU = [numActs]func(*tileArgs){nil, tileGLUGelu, tileGLUGeluTanh, tileGLUSilu}
	rowsOut = [numActs]func(*tileArgs, int){rowsOutPlain, rowsOutGelu, rowsOutGeluTanh, rowsOutSilu}
	rowsGLU = [numActs]func(*tileArgs, int){nil, rowsGLUGelu, rowsGLUGeluTanh, rowsGLUSilu}
)

// roundedPanel finishes rows m.. of panel p, whose operands are in s.args:
// whole blocks on the tiles, and what is left over through the buffer.
func roundedPanel(t *RoundedTask, a []uint16, lda, m, rows, p int, s *Scratch) {
	tiles, finish := tileOut[t.Act], rowsOut[t.Act]
	if t.B2 != nil {
		tiles, finish = tileGLU[t.Act], rowsGLU[t.Act]
	}
	args, done := &s.args, 0
	for done+MR <= rows {
		blocks := min((rows-done)/MR, maxBlocks)
		args.cfg, args.a, args.out, args.at = &configs[MR], &a[done*lda], &t.Out[(m+done)*t.N+p*NR], 0
		args.blocks, args.nextA = blocks, MR*args.strideA
		tiles(args)
		done += blocks * MR
	}
	n := rows - done
	if n == 0 {
		return
	}
	r := &s.rest
	*r = tileArgs{cfg: &configs[n], a: &a[done*lda], strideA: args.strideA, steps: args.steps, blocks: 1, strideC: NR * 4}
	r.b, r.init, r.c = args.b, args.init, &s.blocks[0]
	tileRows(r, n)
	if t.B2 != nil {
		r.b, r.init, r.c = args.b2, args.init2, &s.blocks[MR*NR]
		tileRows(r, n)
	}
	args.out = &t.Out[(m+done)*t.N+p*NR]
	finish(args, n)
}
