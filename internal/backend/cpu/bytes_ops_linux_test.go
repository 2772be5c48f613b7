package cpu

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/optest"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// TestBytesOfOpsAreTouched is TestBytesAreTouched for every case of the op bench and
// its gradients, in bf16. HOTPATH_LONG=1 adds f32.
func TestBytesOfOpsAreTouched(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("tests of other processors run under an emulator, whose own pages the system would tell")
	}
	optest.KeepOperands()
	bind := tensor.Bind{T: 1024, S: 8, R: 512}
	precisions := []Precision{BF16}
	if os.Getenv("HOTPATH_LONG") != "" {
		precisions = append(precisions, F32)
	}
	for _, precision := range precisions {
		be := openPaged(t, precision)
		for _, c := range optest.Cases() {
			t.Run(string(precision)+"/"+c.Name, func(t *testing.T) { touchedByOp(t, be, c, optest.Forward, bind) })
			if optest.Differentiable(c, bind) {
				t.Run(string(precision)+"/"+c.Name+", gradient", func(t *testing.T) { touchedByOp(t, be, c, optest.Backward, bind) })
			}
		}
	}
}

func touchedByOp(t *testing.T, be *paged, c optest.Case, build func(optest.Case, tensor.Bind) (*optest.Bench, []*graph.Value, error), bind tensor.Bind) {
	b, outputs, err := build(c, bind)
	if err != nil {
		t.Fatal(err)
	}
	be.arenas, be.execs = nil, nil
	r, err := b.Open(be, optest.Options{BindOptions: plan.BindOptions{Serial: true}}, outputs...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Session.Close()
	if len(be.execs[0].plan.Steps) == 0 {
		return // the gradient is the one that comes in
	}
	rec := profile.NewRecorder(profile.Options{})
	if err := r.Session.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	checkTouched(t, be, be.runs(bind), bind, rec.Snapshot().Runs[0].Bytes, func(s *plan.Step) (less, more int64) {
		return unevenly(c, s, bind)
	})
}

// unevenly is how much less and more than reported the pages of a step are that reads
// or writes rows wherever its inputs say. A row that is read often counts each time, and
// its page is touched once; single rows touch whole pages.
func unevenly(c optest.Case, s *plan.Step, b tensor.Bind) (less, more int64) {
	const unbounded = 1 << 40
	for _, n := range s.Nodes {
		switch n.Op {
		case graph.OpEmbed, graph.OpEmbedBag: // tables of few rows
			less = unbounded
		case graph.OpGather: // tokens go to several experts; or rows far apart
			less, more = unbounded, unbounded
		case graph.OpColumns: // a part of each row
			more = unbounded
		case graph.OpKVWrite, graph.OpAttentionKV: // keys and values in blocks, each with two ends
			more = int64(b.T/graph.KVBlock+2*b.S) * 4 * page
			if strings.HasPrefix(c.Name, "kv long") { // sequences share blocks
				less = unbounded
			}
		}
	}
	return less, more
}
