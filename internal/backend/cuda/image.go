package cuda

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
)

// images are the kernels, compiled by scripts/cuda_kernels.py: machine code for
// some compute capabilities, and PTX, which the driver compiles for others.
//
//go:embed kernels/*.gz.?
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

// unpack is unpackImage; tests, which open many cards, keep what it returns.
var unpack = unpackImage

// unpackImage reads an image, which is stored in parts of at most a million bytes.
func unpackImage(name string) ([]byte, error) {
	parts, err := fs.Glob(images, "kernels/"+name+".gz.?")
	if err != nil {
		return nil, err
	}
	var packed []byte
	for _, part := range parts { // in order: Glob sorts
		data, err := images.ReadFile(part)
		if err != nil {
			return nil, err
		}
		packed = append(packed, data...)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
