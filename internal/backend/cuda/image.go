package cuda

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

// images are the kernels, compiled by scripts/cuda_kernels.py: machine code for
// some compute capabilities, and PTX, which the driver compiles for others.
//
//go:embed kernels/*.gz
var images embed.FS

// machineCode is the image of a compute capability.
var machineCode = map[[2]int]string{{8, 0}: "sm_80.cubin", {8, 6}: "sm_86.cubin", {8, 9}: "sm_89.cubin", {9, 0}: "sm_90a.cubin"}

// image is what a card of a compute capability loads.
func image(capability [2]int) ([]byte, error) {
	name, ok := machineCode[capability]
	if !ok {
		name = "compute_80.ptx"
	}
	data, err := unpack(name)
	if err != nil {
		return nil, fmt.Errorf("%w: kernels %s: %w", ErrDevice, name, err)
	}
	return append(data, 0), nil // PTX is text that ends in 0
}

func unpack(name string) ([]byte, error) {
	f, err := images.Open("kernels/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
