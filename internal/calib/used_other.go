//go:build !unix

package calib

// processorTime is not asked for.
var processorTime func() float64
