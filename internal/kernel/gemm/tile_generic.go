package gemm

// tileGeneric is the twin of the assembly tiles: c[strips·h, 8] from packed
// strips of A, [k/4][h][4] each, and a panel of B, [k][8].
func tileGeneric(a, b, c, bias []float32, k, ldc, h, strips int, load bool) {
	for i := range strips {
		stripGeneric(a[i*h*((k+3)&^3):], b, c[i*h*ldc:], bias, k, ldc, h, load)
	}
}

func stripGeneric(a, b, c, bias []float32, k, ldc, h int, load bool) {
	const nr = 8
	for r := range h {
		var acc [nr]float32
		row := c[r*ldc:]
		if load {
			copy(acc[:], row[:nr])
		}
		if bias != nil {
			for j := range acc {
				acc[j] += bias[j]
			}
		}
		for i := range k {
			x := a[(i>>2*h+r)*4+i&3]
			w := (*[nr]float32)(b[i*nr:])
			for j := range acc {
				acc[j] += float32(x * w[j])
			}
		}
		copy(row[:nr], acc[:])
	}
}

// packAGeneric copies rows [m, m+h) and columns [k0, k0+kn) of A into a strip
// [kn/4][h][4]; the last chunk is padded with what lies there.
func packAGeneric(dst []float32, t *Task, m, h, k0, kn int) {
	for r := range h {
		for i := range kn {
			src := (m+r)*t.LDA + k0 + i
			if t.ATrans {
				src = (k0+i)*t.LDA + m + r
			}
			dst[(i>>2*h+r)*4+i&3] = t.A[src]
		}
	}
}

// transposeGeneric writes dst[j][i] = src[i][j] for rows x cols of src.
func transposeGeneric(dst, src []float32, ldd, lds, rows, cols int) {
	for i := range rows {
		for j := range cols {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}
