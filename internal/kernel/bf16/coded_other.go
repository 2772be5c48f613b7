//go:build !amd64

package bf16

import "hotpath/internal/tensor"

func directCoded(tensor.DType) bool { return false }

// run is never reached: there are no tiles.
func (s *CodedScratch) run(t *CodedTask, n0, n1 int) { s.runGeneric(t, n0, n1) }
