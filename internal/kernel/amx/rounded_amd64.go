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

// roundedPanel finishes rows m.. of the columns from col on, whose operands are
// in s.args: whole blocks on the tiles, and what is left over through the
// buffer.
func roundedPanel(t *RoundedTask, a []uint16, m, rows, col int, s *Scratch) {
	tiles, finish := tileOut[t.Act], rowsOut[t.Act]
	if t.B2 != nil {
		tiles, finish = tileGLU[t.Act], rowsGLU[t.Act]
	}
	args, kp, done := &s.args, padK(t.K), 0
	out := func(rows int) *uint16 { return &t.Out[(m+done)*t.N+col/NR*NR*rows+col%NR:][0] }
	for done+MR <= rows {
		blocks := min((rows-done)/MR, maxBlocks)
		args.cfg, args.a, args.stepA, args.out = &configs[MR], &a[done*kp], MR*kStep*2, out(MR)
		args.blocks = blocks
		tiles(args)
		done += blocks * MR
	}
	n := rows - done
	if n == 0 {
		return
	}
	r := &s.rest
	*r = *args
	r.cfg, r.a, r.stepA, r.blocks = &configs[n], &a[done*kp], n*kStep*2, 1
	r.c, r.strideC = &s.blocks[0], NR*4
	tileAlong(r, n)
	args.out = out(n)
	finish(args, n)
}
