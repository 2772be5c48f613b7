package cuda

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/optest"
	"hotpath/internal/tensor"
)

// backward binds the gradients of a case on a fake card.
func backward(t *testing.T, f *fake, name string, bind tensor.Bind) (*optest.Bench, *optest.Runner) {
	t.Helper()
	be, err := newBackend(Options{Narrow: true}, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	cases := optest.Cases()
	i := slices.IndexFunc(cases, func(c optest.Case) bool { return strings.HasPrefix(c.Name, name) })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	b, outs, err := optest.Backward(cases[i], bind)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Open(be, optest.Options{}, outs...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() { r.Session.Close() })
	return b, r
}

// State lies on the card as its readers expect it: every row, at its stride.
func TestStateOnTheCard(t *testing.T) {
	bind, forms := tensor.Bind{T: 7, S: 3, R: 4}, map[string]int{}
	for _, name := range []string{"linear F32", "linear Q8_0", "linear 70x1", "linear 70x33", "linear 70x130", "siblings, trained", "cross entropy", "cross entropy, smoothed", "attention, dropout"} {
		b, r := backward(t, newFake(), name, bind)
		prog := r.Session.Program()
		for _, n := range prog.Graph.Nodes {
			if n.Leaf == nil || n.Leaf.Kind != graph.StateLeaf {
				continue
			}
			v := n.Out[0]
			want, ok := b.Operand(v)
			if !ok {
				continue
			}
			for _, form := range prog.Plans[0].Forms[v.ID] {
				if form.Format == nil {
					continue
				}
				forms[form.Format.Name]++
				data := make([]byte, form.Place.Bytes)
				if err := r.Session.ReadForm(v, form.Format, data); err != nil {
					t.Fatal(err)
				}
				for i, x := range want.F32 {
					at := i/want.Cols*stride8(want.Cols) + i%want.Cols
					if got := binary.LittleEndian.Uint16(data[2*at:]); got != tensor.F32ToBF16(x) {
						t.Errorf("%s: element %d of %s as %s is %x, expected %x", name, i, v, form.Format, got, tensor.F32ToBF16(x))
						break
					}
				}
			}
		}
	}
	if forms[padded.Name] == 0 {
		t.Errorf("formats of state: %v, expected padded rows", forms)
	}
}

// The operands of gradients of odd sizes: their rows, columns and boxes, and how far
// apart the rows are where a kernel rounds them first.
func TestGradientOperands(t *testing.T) {
	f := newFake()
	backward(t, f, "linear 70x33", tensor.Bind{T: 7, S: 3, R: 4})
	type matrix struct{ rows, cols, box uint64 }
	maps := func(l launch) (out []matrix) { // the operands of Wg
		for i := range 6 {
			word := func(k int) uint64 { return binary.LittleEndian.Uint64(l.args[wholeAt+128*i+8*k:]) }
			if word(0) != 0 {
				out = append(out, matrix{word(1), word(2), word(3)})
			}
		}
		return out
	}
	seen := map[string]bool{}
	for _, launches := range f.lists {
		for _, l := range launches {
			seen[l.kernel] = true
			last := func(i int) int { return int(int32(binary.LittleEndian.Uint32(l.args[len(l.args)-4*i:]))) }
			switch {
			case strings.HasPrefix(l.kernel, "k_dx_"):
				if got := maps(l); len(got) != 2 || got[0].cols != 33 || got[0].box != 64 || got[1] != (matrix{33, 70, 64}) {
					t.Errorf("dx reads %v", got)
				}
			case strings.HasPrefix(l.kernel, "k_dw_"):
				if got := maps(l); len(got) != 2 || got[0].rows != got[1].rows || got[0].cols != 33 || got[0].box != 64 || got[1].cols != 70 || got[1].box != 64 {
					t.Errorf("dw reads %v", got)
				}
			case l.kernel == "k_round":
				if last(1) != 72 { // the matrix has 70 columns
					t.Errorf("k_round writes rows %d values apart", last(1))
				}
			}
		}
	}
	for _, kernel := range []string{"k_dx_64_64", "k_dw_64_64", "k_round"} {
		if !seen[kernel] {
			t.Errorf("no launch of %s", kernel)
		}
	}
}

// Gradients of the cross entropy read rows of 53 logits that lie 56 apart.
func TestCrossEntropyStrides(t *testing.T) {
	f := newFake()
	backward(t, f, "cross entropy", tensor.Bind{T: 7, S: 3, R: 4})
	for kernel, strides := range map[string][]int{"k_cross_entropy": {53, 56}, "k_cross_entropy_grad": {53, 56}} {
		found := false
		for _, launches := range f.lists {
			for _, l := range launches {
				if l.kernel != kernel {
					continue
				}
				found = true
				for i, want := range strides { // after bind and rows
					if got := int(binary.LittleEndian.Uint32(l.args[stampBytes+8+12+4*i:])); got != want {
						t.Errorf("%s has %d columns or values per row, expected %d", kernel, got, want)
					}
				}
			}
		}
		if !found {
			t.Errorf("no launch of %s", kernel)
		}
	}
}

// Attention of few queries and its gradients are in f32, both: the gradients' scores
// must fit the log-sum-exp. Those of many run on tensor cores.
func TestGradientsOfFewQueries(t *testing.T) {
	for rows, want := range map[int][]string{1: {"k_attention_few", "k_attention_dq", "k_attention_dkv"}, 131: {"k_flash_drop_32", "k_flash_drop_dq_32", "k_flash_drop_dkv_32"}} {
		f := newFake()
		_, r := backward(t, f, "attention, dropout", tensor.Bind{T: rows, S: 1, R: 1})
		if err := r.Run(); err != nil {
			t.Fatal(err)
		}
		best := func(list []launch) (n int) {
			for _, kernel := range want {
				if slices.ContainsFunc(list, func(l launch) bool { return strings.HasPrefix(l.kernel, kernel) }) {
					n++
				}
			}
			return n
		}
		found := false
		for _, launches := range f.lists {
			found = found || best(launches) == len(want)
			for _, l := range launches {
				if rows == 1 && strings.HasPrefix(l.kernel, "k_flash") {
					t.Errorf("a row runs %s", l.kernel)
				}
			}
		}
		if !found {
			t.Errorf("%d rows: no list has %v", rows, want)
		}
	}
}
