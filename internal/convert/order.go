package convert

import (
	"strings"

	"hotpath/internal/quant"
)

// Rows that files have in another order than directories.

// turnedHeads is the number of heads whose rows are turned; 0 for none.
func (j *job) turnedHeads(to string) int {
	if !j.family.turned {
		return 0
	}
	stem := to[strings.LastIndexByte(strings.TrimSuffix(strings.TrimSuffix(to, ".weight"), ".bias"), '.')+1:]
	switch strings.TrimSuffix(strings.TrimSuffix(stem, ".weight"), ".bias") {
	case "attn_q":
		return j.heads
	case "attn_k":
		return j.kvHeads
	}
	return 0
}

// turnedOrder puts the two halves of each head's rows in turn.
func turnedOrder(rows, heads int) []int {
	width := rows / heads
	order := make([]int, rows)
	for i := range order {
		h, at := i/width, i%width
		order[i] = h*width + at/2 + at%2*(width/2)
	}
	return order
}

// ungrouped is the order that puts all queries first, then all keys, then all
// values. The directory has a group for each head of keys: its queries, its
// keys, its values.
func (j *job) ungrouped(rows int) ([]int, bool) {
	groups, per := j.kvHeads, j.heads/max(j.kvHeads, 1)
	if groups < 1 || per < 1 || rows%(groups*(per+2)) != 0 {
		return nil, false
	}
	width := rows / (groups * (per + 2))
	var order []int
	for _, part := range [][2]int{{0, per}, {per, per + 1}, {per + 1, per + 2}} {
		for g := range groups {
			for i := (g*(per+2) + part[0]) * width; i < (g*(per+2)+part[1])*width; i++ {
				order = append(order, i)
			}
		}
	}
	return order, true
}

// reorder takes rows, or the elements of a vector, in another order.
func reorder(t *quant.Tensor, order []int) {
	rows := t.Rows
	if len(t.Dims) == 1 {
		n := t.Dims[0]
		t.Rows = func(dst []float32, first, _ int) error {
			src := make([]float32, n)
			err := rows(src, first, 1)
			for i, from := range order {
				dst[i] = src[from]
			}
			return err
		}
		return
	}
	cols := t.Cols()
	t.Rows = func(dst []float32, first, n int) error {
		for r := range n {
			if err := rows(dst[r*cols:], order[first+r], 1); err != nil {
				return err
			}
		}
		return nil
	}
}
