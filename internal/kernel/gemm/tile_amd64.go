package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func tileAVX512(a, b, c, bias *float32, k, ldc, mr, strips, load, nextB, panels int)

//go:noescape
func tileAVX2(a, b, c, bias *float32, k, ldc, mr, strips, load, nextB, panels int)

//go:noescape
func transpose8AVX2(dst, src *float32, ldd, lds, n int)

//go:noescape
func packAAVX2(dst, src *float32, lds, mr, k int)

//go:noescape
func packATAVX2(dst, src *float32, ldd, lds, k int)

// tile computes strips of h rows that follow each other in a and c.
func tile(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool) {
	tiles(tier, a, b, c, bias, k, ldc, h, strips, load, 0, 1)
}

// tiles is tile for panels of b that are nextB values apart; bias only with one.
func tiles(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool, nextB, panels int) {
	l := 0
	if load {
		l = 1
	}
	switch tier {
	case isa.AVX512:
		_ = c[(strips*h-1)*ldc+32*panels-1]
		tileAVX512(first(a), first(b), &c[0], first(bias), k, ldc, h, strips, l, nextB, panels)
	case isa.AVX2:
		_ = c[(strips*h-1)*ldc+16*panels-1]
		tileAVX2(first(a), first(b), &c[0], first(bias), k, ldc, h, strips, l, nextB, panels)
	default:
		for p := range panels {
			tileGeneric(a, b[p*nextB:], c[8*p:], bias, k, ldc, h, strips, load)
		}
	}
}

func packA(tier isa.Tier, dst []float32, t *Task, m, h, k0, kn int) {
	if tier == isa.Generic || kn == 0 {
		packAGeneric(dst, t, m, h, k0, kn)
		return
	}
	k4 := kn &^ 3
	_ = dst[(kn+3)&^3*h-1]
	if !t.ATrans {
		if k4 > 0 {
			packAAVX2(&dst[0], &t.A[m*t.LDA+k0], t.LDA, h, k4)
		}
	} else if h < 4 {
		packAGeneric(dst, t, m, h, k0, k4)
	} else if k4 > 0 {
		for r := 0; r < h; r += 4 {
			r = min(r, h-4) // some of the last four may be packed already
			packATAVX2(&dst[r*4], &t.A[k0*t.LDA+m+r], 4*h, t.LDA, k4)
		}
	}
	if k4 < kn {
		packAGeneric(dst[k4*h:], t, m, h, k0+k4, kn-k4)
	}
}

// transpose writes dst[j][i] = src[i][j] for rows x cols of src.
func transpose(dst, src []float32, ldd, lds, rows, cols int) {
	r8, c8 := 0, 0
	if isa.Vector() != isa.Generic && rows >= 8 && cols >= 8 {
		r8, c8 = rows&^7, cols&^7
		_, _ = src[(rows-1)*lds+cols-1], dst[(cols-1)*ldd+rows-1]
		for i := 0; i < r8; i += 8 {
			transpose8AVX2(&dst[i], &src[i*lds], ldd, lds, c8)
		}
	}
	if r8 < rows {
		transposeGeneric(dst[r8:], src[r8*lds:], ldd, lds, rows-r8, cols)
	}
	if r8 > 0 && c8 < cols {
		transposeGeneric(dst[c8*ldd:], src[c8:], ldd, lds, r8, cols-c8)
	}
}
