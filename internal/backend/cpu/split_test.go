package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestBF16WithoutTiles: who asks for bf16 gets products in it on every tier, of
// floats as of a file's blocks; attention, whose factors are nobody's weights,
// follows where tiles multiply them.
func TestBF16WithoutTiles(t *testing.T) {
	for _, tier := range isa.Available() {
		func() {
			defer isa.Use(tier)()
			for _, d := range []tensor.DType{tensor.F32, tensor.BF16, tensor.Q8_0} {
				if c := BF16.Class(graph.RoleOther, d); c != BF16 {
					t.Errorf("%v: products with %v are in %s, expected bf16", tier, d, c)
				}
			}
			want := F32
			if tier >= isa.AMX {
				want = BF16
			}
			if c := BF16.Attention(); c != want {
				t.Errorf("%v: attention is in %s, expected %s", tier, c, want)
			}
		}()
	}
}

// TestFewRowsEndTogether: products of few rows on tiles are cut into shares of a
// bounded number of weights if workers share them, a head above all, and small
// products into as many as before.
func TestFewRowsEndTogether(t *testing.T) {
	for _, c := range []struct {
		cheap                  bool
		m, n, k, workers, want int
	}{
		{false, 16, 49152, 576, 1, 1},
		{false, 16, 49152, 576, 2, 27},
		{true, 16, 49152, 576, 2, 27},
		{false, 2, 49152, 576, 4, 27},
		{false, 16, 128256, 2048, 2, 250},
		{false, 16, 576, 576, 2, 8},
		{true, 16, 576, 576, 2, 2},
		{false, bf16.MR + 1, 49152, 576, 2, 8},
	} {
		shares := c.workers * sharesEach
		if c.workers == 1 {
			shares = 1
		}
		s := split{mr: bf16.MR, nr: bf16.NR, tiles: true, cheap: c.cheap}
		if got := s.width(c.m, c.n, c.k, 1, shares); got != c.want {
			t.Errorf("%d rows of %d x %d, %d workers, cheap %t: %d shares, expected %d", c.m, c.n, c.k, c.workers, c.cheap, got, c.want)
		}
	}
}

// TestCodesEndTogether is the same for one row with codes. All shares together are
// the whole product.
func TestCodesEndTogether(t *testing.T) {
	s := (&i16Direct{own: pairRows}).split()
	for _, c := range []struct{ n, k, products, workers, want int }{
		{128256, 2048, 1, 1, 7},
		{8192, 2048, 2, 1, 1},
		{128256, 2048, 1, 2, 250},
		{8192, 2048, 2, 2, 32},
		{2048, 8192, 1, 2, 16},
		{2048, 2048, 1, 2, 8},
		{576, 576, 1, 2, 2},
		{8192, 2048, 2, 16, 16 * pairColumns}, // many workers
		{2048, 8192, 1, 16, 16 * sharesEach},  // finer shares would have fewer than codeWeights
		{48, 1 << 20, 1, 2, 3},                // no more than panels
	} {
		shares := c.workers * sharesEach
		if c.workers == 1 {
			shares = 1
		}
		got := s.width(1, c.n, c.k, c.products, shares)
		if got != c.want {
			t.Errorf("%d products of %d x %d, %d workers: %d shares, expected %d", c.products, c.n, c.k, c.workers, got, c.want)
		}
		next := 0
		for i := range got {
			m0, m1, c0, c1 := s.part(1, c.n, i, got)
			if m0 != 0 || m1 != 1 || c0 != next || c1 <= c0 {
				t.Fatalf("%d x %d: share %d of %d is rows %d to %d, columns %d to %d, expected columns from %d on", c.n, c.k, i, got, m0, m1, c0, c1, next)
			}
			next = c1
		}
		if next != c.n {
			t.Errorf("%d x %d: shares end at column %d", c.n, c.k, next)
		}
	}
}

// TestPartsCoverAProduct: whatever is shared out among however many, every
// element of the product is somebody's and nobody else's.
func TestPartsCoverAProduct(t *testing.T) {
	for _, n := range []int{32, 100, 384, 1536} {
		for _, rows := range []int{1, 31, 64, 127, 128, 300, 512} {
			for _, workers := range []int{1, 2, 3, 8} {
				for _, tiles := range []bool{false, true} {
					for _, cheap := range []bool{false, true} {
						shares := productWidth(rows, n, 384, bf16.NR, workers*sharesEach)
						seen := make([]int, rows*n)
						for i := range shares {
							m0, m1, c0, c1 := split{mr: bf16.MR, nr: bf16.NR, cheap: cheap, tiles: tiles}.part(rows, n, i, shares)
							if m0%bf16.MR != 0 || c0%bf16.NR != 0 {
								t.Errorf("%d x %d: share %d of %d begins in the middle of a tile, at %d, %d", rows, n, i, shares, m0, c0)
							}
							for m := m0; m < m1; m++ {
								for c := c0; c < c1; c++ {
									seen[m*n+c]++
								}
							}
						}
						for at, times := range seen {
							if times != 1 {
								t.Fatalf("%d x %d, %d shares, cheap %t, tiles %t: row %d, column %d is computed %d times", rows, n, shares, cheap, tiles, at/n, at%n, times)
							}
						}
					}
				}
			}
		}
	}
}

// TestCellsCoverAProduct is the same of many workers, whose shares may be cells of a
// grid. None of them is without a share if there is work enough.
func TestCellsCoverAProduct(t *testing.T) {
	for _, n := range []int{32, 100, 384, 768, 1536, 3072} {
		for _, rows := range []int{128, 300, 512, 1024, 2048} {
			for _, workers := range []int{4, 6, 8, 12, 16} {
				for _, ready := range []bool{false, true} {
					cut := split{mr: bf16.MR, nr: bf16.NR, cheap: true, tiles: true, ready: ready}
					shares := cut.width(rows, n, 384, 1, workers*sharesEach)
					seen := make([]int, rows*n)
					for i := range shares {
						m0, m1, c0, c1 := cut.part(rows, n, i, shares)
						for m := m0; m < m1; m++ {
							for c := c0; c < c1; c++ {
								seen[m*n+c]++
							}
						}
					}
					for at, times := range seen {
						if times != 1 {
							t.Fatalf("%d x %d, %d shares: row %d, column %d is computed %d times", rows, n, shares, at/n, at%n, times)
						}
					}
					if n >= 384 && rows >= 2*workers*bf16.MR && shares != workers*sharesEach {
						t.Errorf("%d x %d, %d workers: %d shares", rows, n, workers, shares)
					}
				}
			}
		}
	}
}

// TestCellsFetchLittle: a worker has rows of its own unless a grid fetches far fewer
// bytes, which two workers never have.
func TestCellsFetchLittle(t *testing.T) {
	for _, c := range []struct {
		rows, n, workers int
		ready            bool
		r, c             int
	}{
		{512, 3072, 2, true, 2, 1},
		{128, 3072, 2, true, 2, 1},
		{4096, 1536, 16, true, 16, 1},  // an encoder's batch
		{2048, 3072, 16, true, 4, 4},   // a decoder's training step
		{2048, 3072, 16, false, 16, 1}, // with rows to encode
		{2048, 768, 16, true, 16, 1},
		{512, 3072, 16, true, 0, 0},
		{512, 768, 16, true, 4, 4},
		{64, 3072, 16, true, 0, 0},
	} {
		cut := split{mr: bf16.MR, nr: bf16.NR, cheap: true, tiles: true, ready: c.ready}
		deep := cut
		deep.deep = true
		if high, wide := deep.cells(c.rows, c.n, c.workers*sharesEach); high > 0 && wide != 1 || deep.width(c.rows, c.n, deepRows, 1, c.workers*sharesEach) > (c.n+bf16.NR-1)/bf16.NR {
			t.Errorf("%d x %d, %d workers: deep rows in %d x %d cells", c.rows, c.n, c.workers, high, wide)
		}
		if high, wide := cut.cells(c.rows, c.n, c.workers*sharesEach); high != c.r || wide != c.c {
			t.Errorf("%d x %d, %d workers, ready %t: %d x %d cells, expected %d x %d", c.rows, c.n, c.workers, c.ready, high, wide, c.r, c.c)
		}
	}
}

// TestOuterPartsCoverAGradient: every tile of a gradient has one owner, and cells are
// near to squares.
func TestOuterPartsCoverAGradient(t *testing.T) {
	for _, m := range []int{8, 100, 768, 2304} {
		for _, n := range []int{8, 96, 768, 3072} {
			for _, shares := range []int{1, 2, 4, 7, 8, 9, 12, 16, 32, 48, 64} {
				panels := bf16.NumPanels(n)
				seen := make([]int, m*panels)
				for i := range shares {
					m0, m1, p0, p1 := outerPart(m, n, i, shares)
					if m0%bf16.MR != 0 && m0 != m {
						t.Fatalf("%d x %d: share %d of %d begins at row %d", m, n, i, shares, m0)
					}
					for r := m0; r < m1; r++ {
						for p := p0; p < p1; p++ {
							seen[r*panels+p]++
						}
					}
				}
				for at, times := range seen {
					if times != 1 {
						t.Fatalf("%d x %d, %d shares: row %d, panel %d is computed %d times", m, n, shares, at/panels, at%panels, times)
					}
				}
			}
		}
	}
	for _, c := range [][5]int{{72, 24, 2, 2, 1}, {24, 96, 2, 1, 2}, {96, 24, 16, 8, 2}, {24, 24, 16, 4, 4}, {1571, 24, 16, 16, 1}} {
		if high, wide := outerCells(c[0], c[1], c[2]); high != c[3] || wide != c[4] {
			t.Errorf("%d x %d blocks in %d cells: %d x %d, expected %d x %d", c[0], c[1], c[2], high, wide, c[3], c[4])
		}
	}
}

// TestPairPartsCoverAProduct is the same of products in i16g32, whatever the
// number of shares.
func TestPairPartsCoverAProduct(t *testing.T) {
	const mr, nr = 12, i16.NR
	for _, n := range []int{32, 100, 384, 1536} {
		for _, rows := range []int{1, 31, 64, 96, 127, 128, 300, 511, 512, 1100, 2101} {
			for _, shares := range []int{1, 2, 3, 6, 8, 12, 16, 24, 64} {
				cut := split{mr: mr, nr: nr, ownRows: []int{pairRows, pairRowsDecoded}[rows%2]}
				shares := cut.width(rows, n, 384, 1, shares)
				seen := make([]int, rows*n)
				for i := range shares {
					m0, m1, c0, c1 := cut.part(rows, n, i, shares)
					if m0%mr != 0 || c0%nr != 0 {
						t.Errorf("%d x %d: share %d of %d begins in the middle of a tile, at %d, %d", rows, n, i, shares, m0, c0)
					}
					for m := m0; m < m1; m++ {
						for c := c0; c < c1; c++ {
							seen[m*n+c]++
						}
					}
				}
				for at, times := range seen {
					if times != 1 {
						t.Fatalf("%d x %d, %d shares: row %d, column %d is computed %d times", rows, n, shares, at/n, at%n, times)
					}
				}
			}
		}
	}
}

// TestPairsKeepTheirRows: in i16g32 a worker with rows enough, which is more
// where panels are dear, meets every column with rows of its own, of which it
// makes codes once; with fewer it meets its columns with all rows. Many rows are
// cut so that codes are kept of a block.
func TestPairsKeepTheirRows(t *testing.T) {
	const n, k, mr, workers = 384, 384, 4, 2
	for _, c := range []struct {
		d            tensor.DType
		rows, blocks int // of a worker; 0: none of its own
	}{
		{tensor.Q8_0, 16, 0}, {tensor.Q8_0, 96, 0}, {tensor.Q8_0, 128, 1}, {tensor.Q8_0, 256, 1},
		{tensor.Q8_0, 1000, 1}, {tensor.Q8_0, 2000, 2},
		{tensor.Q4_1, 128, 0}, {tensor.Q4_1, 512, 0}, {tensor.Q4_1, 600, 1}, {tensor.Q4_1, 2000, 2},
	} {
		cut := split{mr: mr, nr: i16.NR, ownRows: pairRowsDecoded}
		if c.d == tensor.Q8_0 {
			cut.ownRows = pairRows
		}
		shares := cut.width(c.rows, n, k, 1, workers*sharesEach)
		each := sharesEach
		if c.rows >= 128 {
			each = pairColumns
		}
		if shares != workers*each {
			t.Fatalf("%d rows: %d shares, expected %d a worker", c.rows, shares, each)
		}
		for w := range workers {
			columns, spans := 0, map[[2]int]bool{}
			for i := shares * w / workers; i < shares*(w+1)/workers; i++ {
				m0, m1, c0, c1 := cut.part(c.rows, n, i, shares)
				columns += c1 - c0
				spans[[2]int{m0, m1}] = true
			}
			want := n / workers
			if c.blocks > 0 {
				want = n * c.blocks
			}
			if columns != want || len(spans) != max(1, c.blocks) || spans[[2]int{0, c.rows}] != (c.blocks == 0) {
				t.Errorf("%v, %d rows: worker %d meets %d columns with rows %v, expected %d columns, %d blocks of its own", c.d, c.rows, w, columns, spans, want, c.blocks)
			}
		}
	}
}

// TestWorkersFetchWeightsOnce: on tiles, a worker with rows enough meets every
// column once with rows of its own; with fewer it meets its columns once with
// all rows.
func TestWorkersFetchWeightsOnce(t *testing.T) {
	const n, workers = 384, 2
	for rows, own := range map[int]bool{64: false, 127: false, 128: true, 256: true, 300: true, 512: true} {
		shares := productWidth(rows, n, 384, bf16.NR, workers*sharesEach)
		if shares != workers*sharesEach {
			t.Fatalf("%d rows: %d shares, expected %d a worker", rows, shares, sharesEach)
		}
		for w := range workers {
			columns, spans := 0, map[[2]int]bool{}
			for i := shares * w / workers; i < shares*(w+1)/workers; i++ {
				m0, m1, c0, c1 := split{mr: bf16.MR, nr: bf16.NR, cheap: true, tiles: true}.part(rows, n, i, shares)
				columns += c1 - c0
				spans[[2]int{m0, m1}] = true
			}
			want := n / workers
			if own {
				want = n
			}
			if columns != want || len(spans) != 1 || spans[[2]int{0, rows}] == own {
				t.Errorf("%d rows: worker %d meets %d columns with rows %v, expected %d columns, rows of its own: %t", rows, w, columns, spans, want, own)
			}
		}
	}
}

// TestFewRowsAreCutLess: on tiles a share of few rows has weights enough to be
// worth its start, every worker has one, and with more rows there are some to
// take over.
func TestFewRowsAreCutLess(t *testing.T) {
	const workers = 2
	for _, c := range []struct{ rows, n, k, shares int }{
		{16, 384, 384, workers},
		{16, 1152, 384, 3},
		{16, 384, 1536, 4},
		{32, 3072, 1536, workers * sharesEach},
		{33, 384, 384, workers * sharesEach},
	} {
		cut := split{mr: bf16.MR, nr: bf16.NR, cheap: true, tiles: true}
		if n := cut.width(c.rows, c.n, c.k, 1, workers*sharesEach); n != c.shares {
			t.Errorf("%d rows x %d x %d: %d shares, expected %d", c.rows, c.n, c.k, n, c.shares)
		}
		cut.cheap = false
		if n := cut.width(c.rows, c.n, c.k, 1, workers*sharesEach); n != workers*sharesEach {
			t.Errorf("%d rows x %d x %d, panels that are built: %d shares, expected %d", c.rows, c.n, c.k, n, workers*sharesEach)
		}
	}
	unpacks := (&bf16Direct{}).split()
	for _, c := range []struct{ n, k, products, shares int }{
		{576, 576, 1, workers},
		{576, 1536, 1, workers},
		{1536, 576, 2, 3},
		{49152, 576, 1, 27},
		{8192, 2048, 2, 32},
	} {
		if n := unpacks.width(16, c.n, c.k, c.products, workers*sharesEach); n != c.shares {
			t.Errorf("16 rows x %d x %d x %d, unpacked on the way: %d shares, expected %d", c.n, c.k, c.products, n, c.shares)
		}
	}
}
