package bf16

import "hotpath/internal/kernel/codes"

// halfTables are the constants of kernels for tiles of f16, in its order.
type halfTables struct {
	codes [64]byte               // high bytes of the f16 numbers -8 to 7, four times; the low bytes are 0
	pairs [2 * codes.Rows]uint16 // brings numbers of 16 rows to pairs
}
