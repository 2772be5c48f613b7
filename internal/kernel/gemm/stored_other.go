//go:build !amd64 && !arm64

package gemm

import "hotpath/internal/tensor"

func dequantRows(_ []float32, _ tensor.DType, _ []byte, _, _, _, _ int) int { return 0 }

func gemvFast(_ []float32, _ *Stored, _, _ []float32, _, _ int) bool { return false }

func prepared(tensor.DType) bool { return false }

func prepare(_, _ []float32, _ tensor.DType) {}

func oneByOne(tensor.DType) bool { return false }

func rowsFast(_ []float32, _ int, _ *Stored, _ []float32, _, _, _, _ int) bool { return false }

func (w *Stored) decodeLong(_ []float32, _, _, _, _, _ int) bool { return false }
