package cpu

import (
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestWorkersPrefetchTheirNextWeights: what a waiting worker asks for is where the
// first columns of its own share lie, in each of the streams that the kernel reads, and
// no more than it can get meanwhile.
func TestWorkersPrefetchTheirNextWeights(t *testing.T) {
	const n, k, workers = 4096, 512, 2
	data := make([]byte, codes.Bytes(tensor.Q4_0, n, k))
	w, err := gemm.NewPanels(data, tensor.Q4_0, n, k)
	if err != nil {
		t.Fatal(err)
	}
	at := func(part []byte) int { return len(data) - len(part) } // from the beginning
	l := &linear{product: &product{n: n, k: k, ways: []rowsWay{{1, &i16Direct{w: w}}}}, x: operand{mat: mat{cols: k, outer: tensor.Fixed(1)}}}
	e := &exec{workers: make([]worker, workers), bound: []kernel{l, l}, groups: []int{0, 1, 2}, streams: []streaming{nil, l}}
	f := &flight{exec: e, cuts: make([]cut, 2), lines: newLines(e)}
	shares, queues := cutStep(l, tensor.Bind{}, len(e.workers))
	for i := range f.cuts {
		f.cuts[i] = cut{int32(shares), int32(queues), claims{1, 1}, 0}
	}
	if queues != workers {
		t.Fatalf("%d queues", queues)
	}
	for lane := range workers {
		first := shares * lane / queues
		_, _, c0, c1 := l.x.cut(l.at(1).split()).part(1, n, first, shares)
		next := f.ahead(lane, 1)
		if want := c0 / codes.Rows * codes.PanelBytes(tensor.Q4_0, k); at(next.mem) != want {
			t.Errorf("worker %d: byte %d, expected %d", lane, at(next.mem), want)
		}
		if streams, apart := gemm.CodeStreams(w, 1, c0, c1); next.streams != streams || next.apart != apart {
			t.Errorf("worker %d: %d streams, %d bytes apart, expected %d, %d", lane, next.streams, next.apart, streams, apart)
		}
		if isa.Active() >= isa.VNNI && (next.streams != 8 || next.apart < 4*codes.PanelBytes(tensor.Q4_0, k)) {
			t.Errorf("worker %d: %d streams, %d bytes apart, expected 8 long ones", lane, next.streams, next.apart)
		}
		if last := next.apart * (next.streams - 1); last >= (c1-c0)/codes.Rows*codes.PanelBytes(tensor.Q4_0, k) {
			t.Errorf("worker %d: the last stream begins at byte %d, behind the share", lane, last)
		}
		steps := 1
		for ; next.fetch(); steps++ {
		}
		if steps != aheadBytes/aheadEach {
			t.Errorf("worker %d: %d steps", lane, steps)
		}
		if f.firstLine(lane, 1) != &next.mem[0] {
			t.Errorf("worker %d: the kernel is not told where its next weights begin", lane)
		}
	}
	if before, next := f.ahead(1, 0), f.ahead(1, 1); before.streams != next.streams || &before.mem[0] != &next.mem[0] {
		t.Error("before a step without a stream, another stream is prefetched than that of the step behind it")
	}
	for _, none := range []coming{f.ahead(workers, 0), f.ahead(workers, 1), f.ahead(0, 2)} {
		if none.streams != 0 || none.fetch() {
			t.Error("something is prefetched for a worker without a share, or the end of the run")
		}
	}
	w.InPanels = false
	if l.ahead(tensor.Bind{}, 0, 1, 1, shares).streams != 0 {
		t.Error("rows of the file are no stream")
	}
}

// TestManyWorkersPrefetchMore: of more than fewWorkers, a waiting worker prefetches the
// weights of all its shares in the order in which the kernel reads them, up to
// aheadOfMany and none of others.
func TestManyWorkersPrefetchMore(t *testing.T) {
	const k, workers = 2048, 16
	for _, n := range []int{1024, 2048, 8192} {
		w, err := gemm.NewPanels(make([]byte, codes.Bytes(tensor.Q4_0, n, k)), tensor.Q4_0, n, k)
		if err != nil {
			t.Fatal(err)
		}
		l := &linear{product: &product{n: n, k: k, ways: []rowsWay{{1, &i16Direct{w: w, own: pairRows}}}}, x: operand{mat: mat{cols: k, outer: tensor.Fixed(1)}}}
		e := &exec{workers: make([]worker, workers), bound: []kernel{l, l}, groups: []int{0, 1, 2}, streams: []streaming{nil, l}, guides: []guided{nil, l}}
		f := &flight{exec: e, cuts: make([]cut, 2), kernels: e.bound, n: workers}
		f.cuts[1] = f.cutStep(1, workers, 0)
		for lane := range workers {
			next := f.ahead(lane, 1)
			own := n / workers / codes.Rows * codes.PanelBytes(tensor.Q4_0, k)
			if want := min(aheadOfMany, own); next.bytes != want {
				t.Fatalf("%d columns: worker %d prefetches %d bytes, expected %d", n, lane, next.bytes, want)
			}
			for more := true; more; {
				if more = next.fetch(); next.first > 0 && next.first%(next.streams*next.apart) != 0 || next.at > max(next.apart, next.bytes) {
					t.Fatalf("%d columns: worker %d is at byte %d of the streams from byte %d on, which are %d bytes apart", n, lane, next.at, next.first, next.apart)
				}
			}
			if got := next.first + next.at*next.streams; got != next.bytes {
				t.Errorf("%d columns: worker %d prefetched %d bytes of %d", n, lane, got, next.bytes)
			}
		}
	}
}

// TestFirstLinesAreKept: where a worker begins to read is found once for the same cuts, and
// anew for others; who joins an open run does not know it.
func TestFirstLinesAreKept(t *testing.T) {
	const n, k, workers = 2048, 512, 8
	w, err := gemm.NewPanels(make([]byte, codes.Bytes(tensor.Q4_0, n, k)), tensor.Q4_0, n, k)
	if err != nil {
		t.Fatal(err)
	}
	l := &linear{product: &product{n: n, k: k, ways: []rowsWay{{1, &i16Direct{w: w, own: pairRows}}}}, x: operand{mat: mat{cols: k, outer: tensor.Fixed(1)}}}
	kernels := []kernel{l, l}
	e := &exec{workers: make([]worker, workers), bound: kernels, kernels: kernels, groups: []int{0, 1, 2}, streams: []streaming{nil, l}, guides: []guided{l, l}, looks: make([]bool, 2)}
	f := newFlight(e)
	f.kernels = kernels
	at := func(lane int) *byte { return f.firstLine(lane, 1) }
	f.cutFor(workers)
	first, last := at(0), at(workers-1)
	if first != &w.Data[0] || last == first || last == nil {
		t.Fatalf("worker 0 begins at %p, the last at %p of %p", first, last, &w.Data[0])
	}
	if f.firstLine(0, 2) != nil || f.lines[0][2] != &noLine {
		t.Error("something is read after the last group")
	}
	f.lines[0][1] = last // to see whether it is looked for again
	if f.cutFor(workers); at(0) != last {
		t.Error("with the same cuts, the line is looked for again")
	}
	if f.cutFor(workers - 1); at(0) != first {
		t.Error("with other cuts, the old line is kept")
	}
	if got := at(workers - 1); got != nil {
		t.Errorf("a worker without a share begins at %p", got)
	}
	if f.open = true; at(0) != nil {
		t.Error("the line of an open run is known")
	}
}
