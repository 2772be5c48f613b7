package cpu

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// watched remembers what was bound, so that a test can look into a session.
type watched struct {
	*Backend
	execs []*exec
}

func (s *watched) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	e, err := s.Backend.Bind(p, m, o)
	if err == nil {
		s.execs = append(s.execs, e.(*exec))
	}
	return e, err
}

// countedKernel has many shares, counts those that are run and calls at.
type countedKernel struct {
	kernel
	shares int
	runs   *atomic.Int32
	at     func(run int32)
}

func (k *countedKernel) width(tensor.Bind, int) int { return k.shares }

func (k *countedKernel) runShare(*worker, tensor.Bind, int, int) { k.at(k.runs.Add(1)) }

// A run that is cancelled in the middle of a step leaves the other shares of
// the step undone: each worker ends the one that it is at, or is about to begin.
func TestCancelStopsBetweenShares(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		be, err := New(Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Backend: be}
		bind := tensor.Bind{T: 8, S: 1, R: 1}
		b := graph.NewBuilder(bind)
		x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
		g, err := b.Freeze(b.Add("sum", x, x))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile("one", g, w, []tensor.Bind{bind}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(w, noWeights{}), plan.BindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		const shares, cancelAt = 400, 7
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		var runs atomic.Int32
		var cancelled atomic.Bool
		e := w.execs[0]
		e.kernels[0] = &countedKernel{e.kernels[0], shares, &runs, func(run int32) {
			if run == cancelAt {
				cancel(cause)
				cancelled.Store(true)
			}
			for run > cancelAt && !cancelled.Load() { // the one that cancels may have lost its processor
				runtime.Gosched()
			}
		}}
		if err := s.Run(ctx, bind); !errors.Is(err, cause) {
			t.Errorf("%d workers: the run ended with %v", workers, err)
		}
		if n := runs.Load(); n > cancelAt+int32(workers)-1 {
			t.Errorf("%d workers: %d shares were run, %d of them after it was cancelled", workers, n, n-cancelAt)
		}
		runs.Store(shares) // far from cancelAt
		if err := s.Run(context.Background(), bind); err != nil || runs.Load() != 2*shares {
			t.Errorf("%d workers: the next run ended with %v after %d shares, expected %d", workers, err, runs.Load()-shares, shares)
		}
		s.Close()
		be.Close()
	}
}

// Products and attention have no share that takes long, whoever runs it.
func TestLongStepsAreCut(t *testing.T) {
	const rows, cols, depth = 256, 49152, 576 // a head over a vocabulary
	for _, workers := range []int{1, 2, 8} {
		n := productWidth(rows, cols, depth, 16, workers)
		if each := rows * cols * depth / n; each > 2*maxMACs {
			t.Errorf("%d workers: %d shares of %d multiplications", workers, n, each)
		}
	}
	for _, cut := range []split{{mr: 6, nr: 16, cheap: true}, {mr: 16, nr: 32, cheap: true, tiles: true}, {mr: 16, nr: 32, tiles: true, unpacks: true}, (&i16Direct{own: pairRows}).split()} {
		for _, rows := range []int{1, 2, 16} { // memory sets the time
			if n := cut.width(rows, 128256, 4096, 1, 1); 128256*4096/n > 2*mostWeights {
				t.Errorf("%+v: %d shares of %d rows", cut, n, rows)
			}
		}
	}
	// A long prompt, beside answers or not.
	for _, answers := range []int{0, 1, 9, 100} {
		starts, keys := []int32{0}, []int32{}
		for i := range answers {
			starts, keys = append(starts, int32(i+1)), append(keys, 200)
		}
		starts, keys = append(starts, int32(answers+511)), append(keys, 32768)
		k := &attention{AttentionAttr: graph.AttentionAttr{Heads: 32, KVHeads: 8, HeadDim: 128, Causal: true}, class: F32, direct: true, paged: true,
			qStart: ints{full: starts, cols: 1, outer: tensor.Fixed(len(starts))}, kvLen: ints{full: keys, cols: 1, outer: tensor.Fixed(len(keys))}}
		for _, workers := range []int{1, 4, 32} {
			if n := k.width(tensor.Bind{}, workers); 511*32768*128*32/n > 2*maxMACs {
				t.Errorf("%d shares of attention beside %d answers, %d workers", n, answers, workers)
			}
		}
	}
	backward := &attentionRelGrad{AttentionAttr: graph.AttentionAttr{Heads: 64, KVHeads: 64, HeadDim: 64}, qStart: ints{full: []int32{0, 2048}, cols: 1, outer: tensor.Fixed(2)}}
	if n := backward.width(tensor.Bind{}, 1); 5*2048*2048*64*64/n > 6*maxMACs { // whole heads
		t.Errorf("%d shares of the backward pass of attention by distance", n)
	}
	for _, c := range [][3]int{ // dW and dX of a head, and others
		{cols, depth, 4096}, {4096, depth, cols}, {17, 33, 5}, {4096, 576, 1536}, {cols, depth, 17}, {3, 4096, 4096}, {4096, 7, 4096}, {500, 130, 900},
	} {
		for _, workers := range []int{1, 8, 64} {
			m, n, k := c[0], c[1], c[2]
			shares := gridWidth(m, n, k, workers)
			seen := make([]bool, m*gemm.NumPanels(n))
			for i := range shares {
				m0, m1, p0, p1 := gridShare(m, n, k, i, shares)
				if each := (m1 - m0) * (p1 - p0) * gemm.NR() * k; each > 3*maxMACs {
					t.Errorf("%v: share %d of %d has %d multiplications", c, i, shares, each)
				}
				for p := p0; p < p1; p++ {
					for r := m0; r < m1; r++ {
						if seen[p*m+r] {
							t.Fatalf("%v: row %d of panel %d is in two shares of %d", c, r, p, shares)
						}
						seen[p*m+r] = true
					}
				}
			}
			if at := slices.Index(seen, false); at >= 0 {
				t.Errorf("%v: row %d of panel %d is in no share of %d", c, at%m, at/m, shares)
			}
		}
	}
	if n := widthFor(100*maxWork, 1); n != 100 {
		t.Errorf("an elementwise step of one worker has %d shares", n)
	}
	if n := productWidth(128, 384, 384, 16, 1); n != 1 {
		t.Errorf("a small product of one worker is cut into %d shares", n)
	}
}

// A grid covers its product with any number of shares: workers may want fewer
// than a product was cut into.
func TestGridCoversWithAnyShares(t *testing.T) {
	mr, nr := gemm.MR(), gemm.NR()
	for _, c := range [][2]int{{0, nr}, {1, 1}, {2*mr - 1, 5 * nr}, {7 * mr, 3*nr + 1}, {13*mr + 1, nr}, {5 * mr, 7*nr - 1}} {
		m, n, k := c[0], c[1], 8
		for shares := 1; shares < 40; shares++ {
			seen := make([]int, m*gemm.NumPanels(n))
			for i := range shares {
				m0, m1, p0, p1 := gridShare(m, n, k, i, shares)
				for p := p0; p < p1; p++ {
					for r := m0; r < m1; r++ {
						seen[p*m+r]++
					}
				}
			}
			if at := slices.IndexFunc(seen, func(times int) bool { return times != 1 }); at >= 0 {
				t.Errorf("%v: row %d of panel %d is in %d shares of %d", c, at%m, at/m, seen[at], shares)
			}
		}
		if w := gridWidth(m, n, k, 1); w != 1 {
			t.Errorf("%v: one worker has %d shares of a small product", c, w)
		}
	}
}

// Packing is a small part of a gradient: what a share packs by itself is packed
// again by every share beside it, unless it follows one of the same rows.
func TestGradientsPackLittle(t *testing.T) {
	for _, c := range [][4]int{
		{2304, 768, 256, 8}, {768, 768, 256, 8}, {3072, 768, 256, 8}, {768, 3072, 256, 8}, {50257, 768, 256, 8}, {4096, 288, 4096, 4}, // of weights
		{256, 768, 768, 5}, {256, 3072, 768, 7}, {256, 768, 50257, 1}, // of inputs
	} {
		m, n, k := c[0], c[1], c[2]
		shares := gridWidth(m, n, k, 2*sharesEach)
		a, b := 0, 0 // values of each step of k
		for i, before := 0, -1; i < shares; i++ {
			m0, m1, p0, p1 := gridShare(m, n, k, i, shares)
			if m0 != before || !gemm.Holds(m1-m0, k) || i == shares/2 { // the second worker begins
				a += m1 - m0
			}
			before = m0
			b += (p1 - p0) * gemm.NR()
		}
		if 32*a+24*b > m*n/c[3] { // by what they cost in multiplications
			t.Errorf("%v: %d shares pack %d values of A, %d of B for %d multiplications", c, shares, a, b, m*n)
		}
	}
}

// Who waits for workers that are busy with another's run leaves when its context
// ends, and its session runs again.
func TestCancelWhileTheTeamIsBusy(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	s, _, bind := chain(t, be)
	defer s.Close()
	entered, pass, over := make(chan struct{}, 2), make(chan struct{}), make(chan error)
	busy := func(int) {
		entered <- struct{}{}
		<-pass
	}
	go func() { over <- be.Caps().Coarse(context.Background(), 2, busy) }()
	<-entered
	<-entered
	cause := errors.New("enough")
	for name, wait := range map[string]func(ctx context.Context) error{
		"a run": func(ctx context.Context) error { return s.Run(ctx, bind) },
		"runs side by side": func(ctx context.Context) error {
			return be.Caps().Coarse(ctx, 2, func(int) { t.Error("ran beside another") })
		},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error)
		go func() { done <- wait(ctx) }()
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	close(pass)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := s.Run(context.Background(), bind); err != nil {
		t.Error(err)
	}
}
