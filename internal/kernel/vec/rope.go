package vec

// RoPE rotates the heads of one token in place: x is [heads][dim], of which
// the first 2·len(cos) values of a head are rotated by the angles whose
// cosines and sines are given. Pairs are (j, j+half), the split form of
// NeoX and Llama checkpoints in their Hugging Face order, or (2j, 2j+1) where
// interleaved is set. inverse rotates back, which is the gradient.
func RoPE(x []float32, heads, dim int, cos, sin []float32, interleaved, inverse bool) {
	half := len(cos)
	sin = sin[:half]
	if 2*half > dim {
		panic("vec: RoPE rotates more values than a head has")
	}
	for h := range heads {
		row := x[h*dim:][:2*half]
		if interleaved {
			ropePairs(row, cos, sin, inverse)
		} else {
			ropeSplit(row, cos, sin, inverse)
		}
	}
}

func signOf(inverse bool) (s float32, bits uint32) {
	if inverse {
		return -1, 1 << 31
	}
	return 1, 0
}

func ropeSplitGeneric(x, cos, sin []float32, sign float32) {
	half := len(cos)
	for j, c := range cos {
		s := sin[j] * sign
		a, b := x[j], x[j+half]
		x[j] = float32(a*c) - float32(b*s)
		x[j+half] = float32(b*c) + float32(a*s)
	}
}

func ropePairsGeneric(x, cos, sin []float32, sign float32) {
	for j, c := range cos {
		s := sin[j] * sign
		a, b := x[2*j], x[2*j+1]
		x[2*j] = float32(a*c) - float32(b*s)
		x[2*j+1] = float32(b*c) + float32(a*s)
	}
}
