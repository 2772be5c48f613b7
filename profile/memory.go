package profile

import (
	"cmp"
	"fmt"
	"slices"
)

// Buffer is memory that a plan occupies from step First to step Last: a weight, a
// state such as the KV cache, an input, an activation, the scratch of a step.
type Buffer struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	Layer int    `json:"layer"`
	Bytes int64  `json:"bytes"`
	First int    `json:"first"`
	Last  int    `json:"last"`
}

func (p *Plan) checkBuffers() error {
	for i, b := range p.Buffers {
		if b.Bytes < 0 || b.First < 0 || b.Last >= len(p.Steps) {
			return fmt.Errorf("%w %q: buffer %d %q: %d bytes from step %d to %d, expected 0 bytes or more and steps 0 to %d",
				ErrPlan, p.ID, i, b.Name, b.Bytes, b.First, b.Last, len(p.Steps)-1)
		}
	}
	return nil
}

// LiveBytes returns the bytes of live buffers per step: the plan's memory over
// time.
func (p *Plan) LiveBytes() []int64 {
	live := make([]int64, len(p.Steps)+1) // first what each step has more than the one before
	for _, b := range p.Buffers {
		if b.First <= b.Last {
			live[b.First] += b.Bytes
			live[b.Last+1] -= b.Bytes
		}
	}
	for s := 1; s < len(live); s++ {
		live[s] += live[s-1]
	}
	return live[:len(p.Steps)]
}

// Peak returns the step with most live memory, and its buffers, the largest
// first. step is -1 if the buffers are not known.
func (p *Plan) Peak() (step int, total int64, owners []Buffer) {
	if len(p.Buffers) == 0 {
		return -1, 0, nil
	}
	live := p.LiveBytes()
	for s, b := range live {
		if b > live[step] {
			step = s
		}
	}
	for _, b := range p.Buffers {
		if b.First <= step && step <= b.Last && b.Bytes > 0 {
			owners = append(owners, b)
		}
	}
	slices.SortStableFunc(owners, func(a, b Buffer) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return step, live[step], owners
}

// Owner is memory of one class in one layer.
type Owner struct {
	Class string `json:"class"`
	Layer int    `json:"layer"` // -1 outside of layers
	Bytes int64  `json:"bytes"`
	Count int    `json:"count"` // buffers
}

// PeakOwners folds the owners at the peak by class and layer, in the order of
// their classes' size; the bytes add up to the peak.
func (p *Plan) PeakOwners() []Owner {
	_, _, buffers := p.Peak()
	type key struct {
		class string
		layer int
	}
	index, class := map[key]int{}, map[string]int64{}
	var out []Owner
	for _, b := range buffers {
		k := key{b.Class, b.Layer}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Owner{Class: b.Class, Layer: b.Layer})
		}
		out[i].Bytes += b.Bytes
		out[i].Count++
		class[b.Class] += b.Bytes
	}
	slices.SortStableFunc(out, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(class[b.Class], class[a.Class]), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Layer, b.Layer))
	})
	return out
}
