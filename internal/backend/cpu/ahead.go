package cpu

import (
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/tensor"
)

const (
	// aheadBytes is how much of the weights of its next share a waiting worker
	// prefetches: what memory delivers while it waits for a barrier of some
	// microseconds.
	aheadBytes = 16 << 10
	// aheadEach is how much it asks for before it looks at the barrier again.
	aheadEach = 512
)

// streaming is a kernel whose shares read weights from memory as one stream.
type streaming interface {
	// ahead is the weights that share i of n reads first; nil if they are not read
	// as one stream.
	ahead(b tensor.Bind, i, n int) []byte
}

// streamed is a way that reads the weights of columns as one stream.
type streamed interface {
	// stream is the weights of the columns from c on.
	stream(c int) []byte
}

// firstCodes is the panels of codes of the columns from c on.
func firstCodes(w *gemm.Stored, c int) []byte {
	if !w.InPanels {
		return nil
	}
	return w.Data[min(len(w.Data), c/codes.Rows*codes.PanelBytes(w.DType, w.K)):]
}

func (p *i16Direct) stream(c int) []byte  { return firstCodes(p.w, c) }
func (p *bf16Direct) stream(c int) []byte { return firstCodes(p.w, c) }

// firstOf is where a way begins to read the weights of the columns from c on; nil
// where it does not read them as one stream.
func firstOf(p way, c int) *byte {
	if s, ok := p.(streamed); ok {
		if next := s.stream(c); len(next) > 0 {
			return &next[0]
		}
	}
	return nil
}

func (l *linear) ahead(b tensor.Bind, i, n int) []byte {
	rows := l.x.rows(b)
	way, ok := l.at(rows).(streamed)
	if !ok {
		return nil
	}
	_, _, c0, _ := l.x.cut(l.at(rows).split()).part(rows, l.n, i, n)
	return way.stream(c0)
}

// ahead is the gate's weights, which come first.
func (l *linearGLU) ahead(b tensor.Bind, i, n int) []byte {
	rows := l.x.rows(b)
	way, ok := l.gate.at(rows).(streamed)
	if !ok {
		return nil
	}
	_, _, c0, _ := l.split(rows).part(rows, l.gate.n, i, n)
	return way.stream(c0)
}

func (k *siblings) ahead(b tensor.Bind, i, n int) []byte {
	rows := k.x.rows(b)
	_, _, c0, c1 := k.split(rows).part(rows, k.columns(), i, n)
	for j := range k.parts {
		p := &k.parts[j]
		if lo, hi := p.columns(c0, c1); lo < hi {
			if way, ok := p.at(rows).(streamed); ok {
				return way.stream(lo)
			}
			return nil
		}
	}
	return nil
}

// ahead is what the first share of a worker in group g reads first.
func (f *flight) ahead(lane int, g int32) []byte {
	e := f.exec
	step := e.groups[g]
	if step >= len(e.streams) || e.streams[step] == nil || lane >= int(f.cuts[step].queues) {
		return nil
	}
	c := f.cuts[step]
	next := e.streams[step].ahead(f.bind, int(c.shares)*lane/int(c.queues), int(c.shares))
	return next[:min(len(next), aheadBytes)]
}

// firstLine is where ahead begins; nil where there is nothing.
func (f *flight) firstLine(lane int, g int32) *byte {
	if next := f.ahead(lane, g); len(next) > 0 {
		return &next[0]
	}
	return nil
}

// fetchSome prefetches the next lines and returns the rest.
func fetchSome(next []byte) []byte {
	n := min(len(next), aheadEach)
	vec.Fetch(next[:n])
	return next[n:]
}
