package bf16

//go:noescape
func packAcrossBF16(dst *uint16, src *float32, ld, steps, next, skip int, interleave *uint16)

//go:noescape
func pairTilesBF16(dst, src *uint16, tiles, next int, interleave *uint16)

//go:noescape
func turnTilesBF16(dst, src *uint16, tiles, next int, interleave *uint16)

//go:noescape
func scoreGradBF16(p, d *float32, ld, n, rows int, scale float32, lse *float32)

// packAcrossFast packs 16 columns of steps x kStep rows, ld apart, as tiles that
// lie next values apart.
func packAcrossFast(dst []uint16, src []float32, ld, steps, next int) {
	_, _ = dst[(steps-1)*next+511], src[(steps*kStep-1)*ld+15]
	packAcrossBF16(&dst[0], &src[0], ld*4, steps, next*2, 0, &interleave[0])
}

// turnTiles packs panels x 32 columns of 32 rows, ld apart, as blocks that lie next
// values apart, with a column for a row.
func turnTiles(dst []uint16, src []float32, ld, panels, next int) {
	_, _ = dst[(panels-1)*next+1023], src[31*ld+panels*NR-1]
	for half := range 2 {
		packAcrossBF16(&dst[half*512], &src[half*16], ld*4, panels, next*2, (NR-kStep*ld)*4, &interleave[0])
	}
}

// pairRounded packs 32 rows of tiles x 32 rounded values as panels of B that lie next
// values apart.
func pairRounded(dst, src []uint16, tiles, next int) {
	_, _ = dst[(tiles-1)*next+1023], src[tiles*1024-1]
	pairTilesBF16(&dst[0], &src[0], tiles, next*2, &interleave[0])
}

// turnRounded packs the same as blocks of A, with a column for a row.
func turnRounded(dst, src []uint16, tiles, next int) {
	_, _ = dst[(tiles-1)*next+1023], src[tiles*1024-1]
	turnTilesBF16(&dst[0], &src[0], tiles, next*2, &interleave[0])
}

// scoreGrad does rows of n values, a multiple of 32.
func scoreGrad(p, d []float32, ld, n, rows int, scale float32, lse []float32) {
	_, _, _ = p[(rows-1)*ld+n-1], d[(rows-1)*ld+n-1], lse[rows-1]
	scoreGradBF16(&p[0], &d[0], ld*4, n, rows, max(scale, leastNormal), &lse[0])
}

// addOuter is c += a b over a row of panels, as multiply.
func addOuter(c []float32, ldc int, a []uint16, stepA int, b []uint16, nextB, panels, steps int, args *tileArgs) {
	_, _, _ = c[(MR-1)*ldc+panels*NR-1], a[(steps-1)*stepA+MR*kStep-1], b[(panels-1)*nextB+steps*1024-1]
	*args = tileArgs{
		cfg: &configs[MR], a: &a[0], c: &c[0], init: &c[0], init2: &c[16], strideA: kStep * 2, stepA: stepA * 2, strideC: ldc * 4, strideInit: ldc * 4,
		steps: steps, blocks: panels, nextB: nextB * 2, nextC: NR * 4, nextInit: NR * 4, job: &idle, b: &b[0], b2: &b[512],
	}
	tileAlong(args, MR)
}
