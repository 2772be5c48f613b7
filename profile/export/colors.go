package export

import "strings"

// opFamilies are the colours of ops: ops of one family have the same colour in every
// page, picture and study. The last colour is for all other ops.
var opFamilies = [][]string{
	{"linear", "grouped_linear"},
	{"attention"},
	{"norm", "l2norm"},
	{"act", "glu", "gelu", "silu"},
	{"add", "mul", "scale", "combine", "accumulate", "col_sum"},
	{"embed", "gather", "pool", "columns", "positions", "scatter"},
	{"rope", "kv_write", "convert", "route"},
}

// OpColor is the number of an op's colour. A fused op has the colour of its first
// part, a gradient the colour of its op.
func OpColor(op string) int {
	first, _, _ := strings.Cut(op, "+")
	for color, family := range opFamilies {
		for _, name := range family {
			if rest, ok := strings.CutPrefix(first, name); ok && (rest == "" || rest[0] == '_') {
				return color
			}
		}
	}
	return len(opFamilies)
}
