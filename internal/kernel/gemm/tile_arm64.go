package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func tileNEON(a, b, c, bias *float32, k, ldc, mr, load int)

//go:noescape
func transpose4NEON(dst, src *float32, ldd, lds, n int)

// tile computes strips of h rows that follow each other in a and c.
func tile(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool) {
	if tier == isa.Generic {
		tileGeneric(a, b, c, bias, k, ldc, h, strips, load)
		return
	}
	l := 0
	if load {
		l = 1
	}
	_ = c[(strips*h-1)*ldc+7]
	for i := range strips {
		tileNEON(first(a[i*h*((k+3)&^3):]), first(b), &c[i*h*ldc], first(bias), k, ldc, h, l)
	}
}

// tiles is tile for panels of b that are nextB values apart; bias only with one.
func tiles(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool, nextB, panels int) {
	for p := range panels {
		tile(tier, a, b[p*nextB:], c[8*p:], bias, k, ldc, h, strips, load)
	}
}

// packA moves four values at a time, which needs no assembly, or transposes.
func packA(tier isa.Tier, dst []float32, t *Task, m, h, k0, kn int) {
	if tier == isa.Generic || kn == 0 {
		packAGeneric(dst, t, m, h, k0, kn)
		return
	}
	k4 := kn &^ 3
	if !t.ATrans {
		for r := range h {
			src := t.A[(m+r)*t.LDA+k0:][:k4]
			for i := 0; i < k4; i += 4 {
				*(*[4]float32)(dst[i*h+4*r:]) = [4]float32(src[i:])
			}
		}
	} else {
		for i := 0; i < k4; i += 4 {
			transpose(dst[i*h:], t.A[(k0+i)*t.LDA+m:], 4, t.LDA, 4, h)
		}
	}
	if k4 < kn {
		packAGeneric(dst[k4*h:], t, m, h, k0+k4, kn-k4)
	}
}

// transpose writes dst[j][i] = src[i][j] for rows x cols of src.
func transpose(dst, src []float32, ldd, lds, rows, cols int) {
	r4, c4 := 0, 0
	if isa.Vector() != isa.Generic && rows >= 4 && cols >= 4 {
		r4, c4 = rows&^3, cols&^3
		_, _ = src[(rows-1)*lds+cols-1], dst[(cols-1)*ldd+rows-1]
		for i := 0; i < r4; i += 4 {
			transpose4NEON(&dst[i], &src[i*lds], ldd, lds, c4)
		}
	}
	if r4 < rows {
		transposeGeneric(dst[r4:], src[r4*lds:], ldd, lds, rows-r4, cols)
	}
	if r4 > 0 && c4 < cols {
		transposeGeneric(dst[c4*ldd:], src[c4:], ldd, lds, r4, cols-c4)
	}
}
