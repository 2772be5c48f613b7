package cuda

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
)

// The kernels, compiled by scripts/cuda_kernels.py: machine code for cards of
// compute capability 9.0, and PTX, which the driver compiles for others.
var (
	//go:embed kernels/sm_90a.cubin.gz
	sm90a []byte
	//go:embed kernels/compute_80.ptx.gz
	ptx []byte
)

// image is what a card of a compute capability loads.
func image(capability [2]int) ([]byte, error) {
	data := ptx
	if capability == [2]int{9, 0} {
		data = sm90a
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: kernels: %w", ErrDevice, err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w: kernels: %w", ErrDevice, err)
	}
	return append(out, 0), nil // PTX is text that ends in 0
}
