//go:build !nogpu

package main

// Devices that are loaded at run time.
import (
	_ "hotpath/cuda"
	_ "hotpath/opencl"
)
