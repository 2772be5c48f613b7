//go:build !amd64

package gemm

// CanCodes reports whether a task with these weights runs on kernels of its own.
func CanCodes(*Stored) bool { return false }

type (
	codeArgs   struct{}
	codeTables struct{}
	codeKernel struct{}
)

// multiply is never reached: there are no kernels.
func (s *CodeScratch) multiply(t *CodeTask, n0, n1 int) { s.runGeneric(t, n0, n1) }

// CodeStreams is as how many streams RunCodes reads panels: here as one.
func CodeStreams(*Stored, int, int, int) (streams, apart int) { return 1, 0 }
