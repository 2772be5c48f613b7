package cpu

import (
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/tensor"
)

const (
	// aheadBytes is how much of the weights of its next shares a waiting worker
	// prefetches: what memory delivers while it waits for a barrier of some
	// microseconds. One of more than fewWorkers waits longer, because the slowest of
	// many is slower than that of a few; it prefetches up to aheadOfMany. 16 workers
	// decode Llama 1B 1 to 2 per cent slower with half of it, and no faster with twice.
	aheadBytes  = 16 << 10
	aheadOfMany = 256 << 10
	// aheadEach is how much it asks for before it looks at the barrier again.
	aheadEach = 512
)

// coming is the weights that a worker reads next: some streams, each behind the one
// before by a number of bytes. Where they end, as many streams follow.
type coming struct {
	mem     []byte
	apart   int
	streams int
	bytes   int        // that the worker reads in this order
	first   int        // where the first of the streams at hand begins
	at      int        // of each stream, what has been asked for
	asked   int        // of all
	keys    comingKeys // read before them
}

// fetch prefetches the next aheadEach bytes or so, divided among the streams, and reports
// whether there is more to prefetch.
func (c *coming) fetch() (more bool) {
	if c.keys.some() {
		c.keys.fetch()
		return true
	}
	if c.streams == 0 {
		return false
	}
	each := aheadEach / c.streams
	for i := range c.streams {
		from := min(len(c.mem), c.first+i*c.apart+c.at)
		vec.Fetch(c.mem[from:min(len(c.mem), from+each)])
	}
	if c.at += each; c.streams > 1 && c.at >= c.apart {
		c.first, c.at = c.first+c.streams*c.apart, 0
	}
	c.asked += aheadEach
	return c.asked < c.bytes
}

// streaming is a kernel whose shares read weights from memory as streams.
type streaming interface {
	// ahead is the weights that shares [i,end) of n read first, of which [i,j) are
	// computed together; nothing if they are not read as streams.
	ahead(b tensor.Bind, i, j, end, n int) coming
}

// streamed is a way that reads the weights of columns as streams.
type streamed interface {
	// stream is the weights of columns [c0,c1), for a number of rows.
	stream(rows, c0, c1 int) coming
}

// codeBytes is the bytes of panels of some columns.
func codeBytes(w *gemm.Stored, columns int) int {
	return (columns + codes.Rows - 1) / codes.Rows * codes.PanelBytes(w.DType, w.K)
}

// firstCodes is the panels of codes of the columns from c on.
func firstCodes(w *gemm.Stored, c int) []byte {
	if !w.InPanels {
		return nil
	}
	return w.Data[min(len(w.Data), c/codes.Rows*codes.PanelBytes(w.DType, w.K)):]
}

func (p *i16Direct) stream(rows, c0, c1 int) coming {
	mem := firstCodes(p.w, c0)
	if mem == nil {
		return coming{}
	}
	n, apart := gemm.CodeStreams(p.w, rows, c0, c1)
	return coming{mem: mem, streams: n, apart: apart, bytes: codeBytes(p.w, c1-c0)}
}

func (p *bf16Direct) stream(_, c0, c1 int) coming {
	mem := firstCodes(p.w, c0)
	if mem == nil {
		return coming{}
	}
	return coming{mem: mem, streams: 1, bytes: codeBytes(p.w, c1-c0)}
}

// firstOf is where a way begins to read the weights of columns [c0,c1); nil where it
// does not read them as streams.
func firstOf(p way, rows, c0, c1 int) *byte {
	if s, ok := p.(streamed); ok {
		if next := s.stream(rows, c0, c1); len(next.mem) > 0 {
			return &next.mem[0]
		}
	}
	return nil
}

func (l *linear) ahead(b tensor.Bind, i, j, end, n int) coming {
	rows := l.x.rows(b)
	way, ok := l.at(rows).(streamed)
	if !ok {
		return coming{}
	}
	_, _, c0, c1 := l.x.cut(l.at(rows).split()).span(rows, l.n, i, j, n)
	next := way.stream(rows, c0, c1)
	next.bytes = next.bytes * (end - i) / (j - i)
	return next
}

// ahead is the gate's weights of what is computed first: others follow.
func (l *linearGLU) ahead(b tensor.Bind, i, j, _, n int) coming {
	rows := l.x.rows(b)
	way, ok := l.gate.at(rows).(streamed)
	if !ok {
		return coming{}
	}
	_, _, c0, c1 := l.split(rows).span(rows, l.gate.n, i, j, n)
	return way.stream(rows, c0, c1)
}

func (k *siblings) ahead(b tensor.Bind, i, j, end, n int) coming {
	rows := k.x.rows(b)
	_, _, c0, c1 := k.split(rows).span(rows, k.columns(), i, j, n)
	for at := range k.parts {
		p := &k.parts[at]
		if lo, hi := p.columns(c0, c1); lo < hi {
			if way, ok := p.at(rows).(streamed); ok {
				next := way.stream(rows, lo, hi)
				next.bytes = next.bytes * (end - i) / (j - i)
				return next
			}
			return coming{}
		}
	}
	return coming{}
}

// ahead is what the first share of a worker in group g reads first. If the group's first
// step reads no stream, it is what the group behind reads first; if that step is attention,
// keys and values come before. How an open run is cut is not known before.
func (f *flight) ahead(lane int, g int32) (next coming) {
	e := f.exec
	step := e.groups[g]
	if step < len(e.streams) && e.streams[step] == nil {
		next.keys = f.keysAhead(lane, step)
		step = e.groups[g+1]
	}
	if f.open || step >= len(e.streams) || e.streams[step] == nil || lane >= int(f.cuts[step].queues) {
		return next
	}
	c := f.cuts[step]
	shares, queues := int(c.shares), int(c.queues)
	i, end := shares*lane/queues, shares*(lane+1)/queues
	j := i + 1
	if c.most > 1 {
		j = i + c.guide(end-i)
	}
	keys := next.keys
	next = e.streams[step].ahead(f.bind, i, j, end, shares)
	next.bytes, next.keys = min(next.bytes, f.mostAhead()), keys
	return next
}

// mostAhead is how many bytes of weights a waiting worker prefetches at most, and of keys
// and values as many.
func (f *flight) mostAhead() int {
	if f.n > fewWorkers {
		return aheadOfMany
	}
	return aheadBytes
}

// firstLine is where ahead begins; nil where there is nothing. It is kept as long as the cuts
// are: ahead looks at memory that the step at hand has evicted, while no weights are read.
func (f *flight) firstLine(lane int, g int32) *byte {
	if f.open {
		return nil
	}
	line := &f.lines[lane][g]
	if *line == nil {
		*line = &noLine
		if next := f.ahead(lane, g); len(next.mem) > 0 {
			*line = &next.mem[0]
		}
	}
	if *line == &noLine {
		return nil
	}
	return *line
}

// noLine is kept where nothing is read.
var noLine byte

// newLines is the room of a flight for the lines that it keeps.
func newLines(e *exec) [][]*byte {
	lines := make([][]*byte, len(e.workers))
	for i := range lines {
		lines[i] = make([]*byte, len(e.groups))
	}
	return lines
}
