//go:build 386 || arm || mips || mipsle

package profile

// Sizes of models and counts of operations are ints, which would overflow here. Every
// package that runs a model imports this one.
var _ = hotpath_needs_a_64_bit_processor
