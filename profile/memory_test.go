package profile

import (
	"slices"
	"testing"
)

func TestLiveBytes(t *testing.T) {
	p := Plan{Steps: make([]Step, 4), Buffers: []Buffer{
		{Bytes: 1, First: 0, Last: 3}, {Bytes: 10, First: 1, Last: 2}, {Bytes: 100, First: 3, Last: 3}, {Bytes: 1000, First: 2, Last: 1},
	}}
	if got, want := p.LiveBytes(), []int64{1, 11, 11, 101}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if step, total, owners := p.Peak(); step != 3 || total != 101 || len(owners) != 2 {
		t.Errorf("step %d, %d bytes, %v", step, total, owners)
	}
}

// A file may have many buffers that live through many steps. Taking each of them
// once takes a moment; each at every step would not end.
func TestLiveBytesOfManyBuffers(t *testing.T) {
	const steps, buffers = 200_000, 2_000_000
	p := Plan{Steps: make([]Step, steps), Buffers: make([]Buffer, buffers)}
	for i := range p.Buffers {
		p.Buffers[i] = Buffer{Bytes: 1, Last: steps - 1}
	}
	live := p.LiveBytes()
	if len(live) != steps || live[0] != buffers || live[steps-1] != buffers {
		t.Errorf("%d steps, %d to %d bytes, expected %d", len(live), live[0], live[len(live)-1], buffers)
	}
}
