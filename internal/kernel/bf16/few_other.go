//go:build !amd64

package bf16

import "hotpath/internal/kernel/gemm"

func directFew(*gemm.Stored) bool { return false }

// multiplyFew and runPanels are never reached: there are no tiles.
func (s *FewScratch) multiplyFew(t *FewTask, n0, n1 int) { s.runGeneric(t, n0, n1) }
func (s *FewScratch) runPanels(t *FewTask, n0, n1 int)   { s.runGeneric(t, n0, n1) }
