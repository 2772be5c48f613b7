//go:build !amd64

package bf16

import "hotpath/internal/tensor"

func directFew(tensor.DType) bool { return false }

// run is never reached: there are no tiles.
func (s *FewScratch) run(t *FewTask, n0, n1 int) { s.runGeneric(t, n0, n1) }
