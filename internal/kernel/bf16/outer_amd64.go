package bf16

//go:noescape
func packAcrossBF16(dst *uint16, src *float32, ld, steps, next int, interleave *uint16)

// packAcrossFast packs 16 columns of steps x kStep rows, ld apart, as tiles that
// lie next values apart.
func packAcrossFast(dst []uint16, src []float32, ld, steps, next int) {
	_, _ = dst[(steps-1)*next+511], src[(steps*kStep-1)*ld+15]
	packAcrossBF16(&dst[0], &src[0], ld*4, steps, next*2, &interleave[0])
}
