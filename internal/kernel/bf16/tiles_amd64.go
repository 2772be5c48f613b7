package bf16

//go:noescape
func tileAlong2(t *tileArgs)

//go:noescape
func tileAlong1(t *tileArgs)

//go:noescape
func roundRowsBF16(dst *uint16, src *float32, ldd, lds, steps, rows int)

//go:noescape
func softmaxBF16(dst *uint16, src *float32, ldd, lds, n, rows, last int, scale float32, sums *float32)

//go:noescape
func packRowsBF16(dst *uint16, src *float32, ld, steps int)

//go:noescape
func packColsBF16(dst *uint16, src *float32, ld, steps int, interleave *uint16)

//go:noescape
func packEndBF16(dst *uint16, src *float32, ld, rows int, interleave *uint16)

//go:noescape
func divideRows(dst, src *float32, ldd, lds, n, rows int, sums *float32)

//go:noescape
func divideRowsBF16(dst *uint16, src *float32, ldd, lds, n, rows int, sums *float32, step int)

// configs are tile configurations by the rows of a block, 1 to 32.
var configs = func() (cs [MR + 1][64]byte) {
	for rows := 1; rows <= MR; rows++ {
		c := &cs[rows]
		c[0] = 1 // palette
		set := func(tile, rows int) {
			c[16+2*tile] = 64 // bytes a row
			c[48+tile] = byte(rows)
		}
		top, bottom := min(rows, 16), rows-16
		for _, t := range []int{0, 1, 4} {
			set(t, top)
		}
		if bottom > 0 {
			for _, t := range []int{2, 3, 5} {
				set(t, bottom)
			}
		}
		set(6, 16)
		set(7, 16)
	}
	return cs
}()

// maxBlocks bounds one assembly call to well under 100 us.
const maxBlocks = 16

// edgeTiles multiplies rounded rows with a panel that is not whole.
func edgeTiles(t *Task, rounded, b []uint16, m, rows, p int, s *Scratch) {
	kp := padK(t.K)
	n0 := p * NR
	cols := min(NR, t.N-n0)
	bias := t.Bias
	if bias != nil {
		clear(s.bias)
		copy(s.bias, bias[n0:n0+cols])
		bias = s.bias
	}
	a := &s.args
	*a = tileArgs{strideA: kStep * 2, strideC: NR * 4, steps: kp / kStep, blocks: 1, c: &s.tile[0], job: &s.job}
	a.columns(b[:kp*NR], bias)
	for r := 0; r < rows; r += MR {
		n := min(MR, rows-r)
		a.a, a.cfg, a.stepA = &rounded[r*kp], &configs[n], n*a.strideA
		if t.Accumulate {
			for i := range n {
				copy(s.tile[i*NR:i*NR+cols], t.C[(m+r+i)*t.LDC+n0:])
			}
			a.init, a.init2, a.strideInit = &s.tile[0], &s.tile[16], a.strideC
		}
		tileAlong(a, n)
		for i := range n {
			copy(t.C[(m+r+i)*t.LDC+n0:][:cols], s.tile[i*NR:])
		}
	}
}

// tileAlong multiplies rows that stay, 1 to MR, with panels.
func tileAlong(a *tileArgs, rows int) {
	if rows > 16 {
		tileAlong2(a)
	} else {
		tileAlong1(a)
	}
}

// roundFast rounds the rows of one block, k values of each.
func roundFast(dst []uint16, src []float32, lds, rows, k int) {
	_, _ = dst[rows*k-1], src[(rows-1)*lds+k-1]
	roundRowsBF16(&dst[0], &src[0], rows*kStep*2, lds*4, k/kStep, rows)
}

// roundRowFast rounds one row, whose steps of K lie step apart.
func roundRowFast(dst []uint16, row []float32, step int) {
	_ = dst[(len(row)/kStep-1)*step+kStep-1]
	roundRowsBF16(&dst[0], &row[0], step*2, 0, len(row)/kStep, 1)
}

func packRowsFast(dst []uint16, w []float32, ld, steps int) {
	_, _ = dst[(steps-1)*1024+511], w[15*ld+steps*kStep-1]
	packRowsBF16(&dst[0], &w[0], ld*4, steps)
}

// interleave takes the halves of 32 words in turn.
var interleave = func() (x [32]uint16) {
	for i := range 16 {
		x[2*i], x[2*i+1] = uint16(i), uint16(16+i)
	}
	return x
}()

func packColsFast(dst []uint16, w []float32, ld, steps int) {
	_, _ = dst[(steps-1)*1024+511], w[(steps*kStep-1)*ld+15]
	packColsBF16(&dst[0], &w[0], ld*4, steps, &interleave[0])
}

// packEnd packs 16 columns of less than kStep rows, and zeros behind them.
func packEnd(dst []uint16, w []float32, ld, rows int) {
	_, _ = dst[511], w[(rows-1)*ld+15]
	packEndBF16(&dst[0], &w[0], ld*4, rows, &interleave[0])
}

// multiply is c[rows][ldc] = a b over a row of panels, nextB values apart; c
// has whole panels, rows of a are lda apart and its steps of K stepA.
func multiply(c []float32, ldc int, a []uint16, lda, stepA, rows int, b []uint16, nextB, panels, steps int, args *tileArgs) {
	_, _, _ = c[(rows-1)*ldc+panels*NR-1], a[(rows-1)*lda+(steps-1)*stepA+kStep-1], b[(panels-1)*nextB+steps*1024-1]
	for p := 0; p < panels; p += maxBlocks {
		*args = tileArgs{
			cfg: &configs[rows], a: &a[0], c: &c[p*NR], strideA: lda * 2, stepA: stepA * 2, strideC: ldc * 4,
			steps: steps, blocks: min(maxBlocks, panels-p), nextB: nextB * 2, nextC: NR * 4, job: &idle,
		}
		args.columns(b[p*nextB:], nil)
		tileAlong(args, rows)
	}
}

// leastNormal is the smallest scale that assembly does not take for zero: nothing
// times the -Inf of a hidden score is no number.
const leastNormal = 0x1p-126

func softmaxFast(dst []uint16, ldd int, src []float32, lds, n, rows, last int, scale float32, sums []float32) {
	_, _, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*lds+n-1], sums[rows-1]
	scale = max(scale, leastNormal)
	softmaxBF16(&dst[0], &src[0], ldd*2, lds*4, n, rows, last, scale, &sums[0])
}

func divideFast(dst []float32, ldd int, src []float32, lds, n, rows int, sums []float32) {
	_, _, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*lds+n-1], sums[rows-1]
	divideRows(&dst[0], &src[0], ldd*4, lds*4, n, rows, &sums[0])
}

// divideRounded writes rows ldd apart, 32 values of each step apart.
func divideRounded(dst []uint16, ldd, step int, src []float32, lds, n, rows int, sums []float32) {
	_, _, _ = dst[(rows-1)*ldd+(n/kStep-1)*step+kStep-1], src[(rows-1)*lds+n-1], sums[rows-1]
	divideRowsBF16(&dst[0], &src[0], ldd*2, lds*4, n, rows, &sums[0], step*2)
}
