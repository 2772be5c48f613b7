package device

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Binder knows where the values of a plan lie while its steps become launches. Steps
// are bound twice: the first pass learns how much scratch they want, the second has
// it and launches.
type Binder struct {
	Plan   *plan.Plan
	Memory *plan.Memory
	IO     *IOArena
	Step   *plan.Step // at hand
	At     Address    // of the scratch, in the second pass
	Failed error      // the first that a step met
	// Keep gives memory that the plan holds for as long as it is bound.
	Keep func(bytes int64, what string) (Address, error)
	Copy Copier
	// Moved are values that lie elsewhere than the plan says, by their format.
	Moved map[Moved]Address

	scratch int64 // bytes that one step wants at most
	used    int64 // of them, by the step at hand
	taken   int64 // bytes of the scratch
}

// Moved is a value in a format.
type Moved struct {
	Value  *graph.Value
	Format *plan.Format
}

// Next begins a step.
func (b *Binder) Next(s *plan.Step) { b.Step, b.used = s, 0 }

// TakeScratch ends the first pass.
func (b *Binder) TakeScratch() (err error) {
	b.taken = max(b.scratch, 1)
	b.At, err = b.Keep(b.taken, "scratch")
	return err
}

// Form is where a value lies in a format; 0 where it does not.
func (b *Binder) Form(v *graph.Value, f *plan.Format) Address {
	pl, ok := b.Plan.Form(v, f)
	if !ok || pl.Bytes == 0 {
		return 0
	}
	if at, ok := b.Moved[Moved{v, f}]; ok {
		return at
	}
	if pl.Class == plan.IO {
		return b.IO.At + Address(pl.Offset)
	}
	return b.Memory.Arenas[pl.Class].(*Arena).At + Address(pl.Offset)
}

// Value is where a value lies on the device; 0 for one that is absent.
func (b *Binder) Value(v *graph.Value) Address {
	if v == nil {
		return 0
	}
	if v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
		return b.Memory.Weights[v.ID].(*Packed).At
	}
	return b.Form(v, nil)
}

// DType is the type in which a matrix lies on the device.
func (b *Binder) DType(v *graph.Value) tensor.DType {
	if v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
		return b.Memory.Weights[v.ID].(*Packed).DType
	}
	return v.DType
}

// Most is the largest number of rows of a run of this plan.
func (b *Binder) Most(v *graph.Value) int { return v.Shape.NumRows(b.Plan.Max) }

// Workspace is memory of the step at hand, beside what it has already.
func (b *Binder) Workspace(bytes int64) Address {
	at := b.At + Address(b.used)
	b.used += (bytes + 255) / 256 * 256
	b.scratch = max(b.scratch, b.used)
	if b.At != 0 && b.used > b.taken {
		b.Fail(fmt.Errorf("%s: %d bytes of scratch memory, but the first pass counted %d", b.Step.Name, b.used, b.taken))
	}
	return at
}

// Fail keeps the first error; binding ends with it.
func (b *Binder) Fail(err error) {
	if b.Failed == nil {
		b.Failed = err
	}
}

// Constant puts bytes on the device for as long as the plan is bound. The first pass
// needs none.
func (b *Binder) Constant(data []byte) Address {
	if b.At == 0 {
		return 0
	}
	a, err := b.Keep(int64(len(data)), "constants")
	if err == nil {
		err = b.Copy.Write(a, data)
	}
	if err != nil {
		b.Fail(err)
	}
	return a
}

// Integers puts a list on the device as Constant does.
func (b *Binder) Integers(values []int) Address {
	list := make([]int32, len(values))
	for i, v := range values {
		list[i] = int32(v)
	}
	return b.Constant(Bytes(list))
}

// Frequencies are the radians per position of each pair that a node rotates: for short
// texts, then for those longer than the model's context. Divisors that a file has are
// read from the device.
func (b *Binder) Frequencies(rope *graph.Node) []float64 {
	a := rope.Attr.(graph.RopeAttr)
	var factors []float32
	if f := rope.In[2]; f != nil {
		factors = b.ReadF32(f)
	}
	plain := a
	plain.Stretch = 0
	half := a.RotDim / 2
	table := make([]float64, 2*half)
	for i := range half {
		table[i] = plain.Frequency(i, factors, 0)
		table[half+i] = plain.Frequency(i, factors, a.Context+1)
	}
	return table
}

// ReadF32 copies a small weight or state back to the host.
func (b *Binder) ReadF32(v *graph.Value) []float32 {
	out := make([]float32, v.Shape.Len(b.Plan.Max))
	if err := b.Copy.Read(Bytes(out), b.Value(v)); err != nil {
		b.Fail(err)
	}
	return out
}

// Sequences is the number of sequences that prefix sums delimit.
func Sequences(start *graph.Value) tensor.Dim {
	d := start.Shape.Outer
	d.Add--
	return d
}

// Travels is a value that goes to the device or comes from it.
type Travels struct {
	Offset int64 // in the IO arena
	Rows   tensor.Dim
	Bytes  int // per row
}

// Travel lists what a run carries to the device and what it carries back, by offset.
func Travel(p *plan.Plan) (in, out []Travels) {
	parts := func(values []*graph.Value) (list []Travels) {
		for _, v := range values {
			list = append(list, Travels{p.Place(v).Offset, v.Shape.Outer, v.DType.RowBytes(v.Shape.RowLen())})
		}
		slices.SortFunc(list, func(a, b Travels) int { return int(a.Offset - b.Offset) })
		return list
	}
	reads, writes := p.Travel()
	return parts(reads), parts(writes)
}

// Size is the bytes of a value in a run of some sizes.
func (t *Travels) Size(b tensor.Bind) int64 { return int64(t.Rows.Size(b)) * int64(t.Bytes) }

// Carried is the bytes of values in a run of some sizes.
func Carried(values []Travels, b tensor.Bind) (bytes int64) {
	for i := range values {
		bytes += values[i].Size(b)
	}
	return bytes
}

// RunsFor are the sizes of runs for a card with so many bytes. Large runs fill its
// units; their activations must leave room for weights and caches.
func RunsFor(memory int64) plan.RunSizes {
	switch {
	case memory >= 64<<30:
		return plan.RunSizes{Tokens: 32768, Texts: 2048, Scored: 1024}
	case memory >= 15<<30: // cards of 16 GB have a little less
		return plan.RunSizes{Tokens: 8192, Texts: 1024, Scored: 512}
	}
	return plan.RunSizes{Tokens: 2048, Texts: 256}
}
