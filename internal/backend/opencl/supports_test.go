package opencl

import (
	"testing"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
)

// TestUnknownActivationsRunOnTheHost: the device computes the activations that its
// kernels have cases for. A later one would run as the last of them.
func TestUnknownActivationsRunOnTheHost(t *testing.T) {
	for kind, want := range map[graph.ActKind]bool{graph.GELU: true, graph.Sigmoid: true, device.LastAct + 1: false} {
		for _, op := range []*graph.OpDef{graph.OpAct, graph.OpActGrad, graph.OpGLU, graph.OpGLUGrad} {
			if got := (*Backend)(nil).Supports(&graph.Node{Op: op, Attr: graph.ActAttr{Kind: kind}}); got != want {
				t.Errorf("%s of activation %d: supported %v, expected %v", op.Name, kind, got, want)
			}
		}
	}
}
