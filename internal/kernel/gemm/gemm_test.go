package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/isa"
)

// tiers runs f under every tier that the machine has.
func tiers(t *testing.T, f func(t *testing.T, tier isa.Tier)) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			f(t, tier)
		})
	}
}

// noise fills n values in [-1, 1), some of them zero.
func noise(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		if rng.IntN(16) != 0 {
			v[i] = 2*rng.Float32() - 1
		}
	}
	return v
}

var nan = float32(math.NaN())

// poisoned is a slice of n values inside a larger one that is all NaN, and a
// function that reports a write outside of it.
func poisoned(n int) (s []float32, intact func() bool) {
	const margin = 64
	all := make([]float32, n+2*margin)
	for i := range all {
		all[i] = nan
	}
	return all[margin : margin+n], func() bool {
		for i := range margin {
			if all[i] == all[i] || all[n+margin+i] == all[n+margin+i] {
				return false
			}
		}
		return true
	}
}

// reference is the task in float64, with the sum of magnitudes beside it.
func reference(t *Task, b func(k, n int) float32, old []float32, m, n int) (want, mag float64) {
	if t.Accumulate {
		want = float64(old[m*t.LDC+n])
	}
	if t.Bias != nil {
		want += float64(t.Bias[n])
	}
	mag = math.Abs(want)
	for k := range t.K {
		a := t.A[m*max(t.LDA, 1)*bool2int(!t.ATrans)+k*bool2int(!t.ATrans)+bool2int(t.ATrans)*(k*t.LDA+m)]
		p := float64(a) * float64(b(k, n))
		want += p
		mag += math.Abs(p)
	}
	return want, mag
}

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestRun(t *testing.T) {
	sizes := []struct{ m, n, k int }{
		{1, 1, 1}, {1, 33, 7}, {2, 8, 3}, {3, 31, 5}, {5, 17, 64}, {13, 64, 33}, {14, 32, 4}, {15, 48, 386},
		{16, 384, 37}, {29, 70, 769}, {7, 5, 0}, {450, 40, 12}, {0, 5, 3},
	}
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(1, uint64(tier)))
		s := NewScratch(nil)
		for _, z := range sizes {
			for variant := range 16 {
				aTrans, bias, acc, layout := variant&1 != 0, variant&2 != 0, variant&4 != 0, variant&8 != 0
				name := fmt.Sprintf("%dx%dx%d/%d", z.m, z.n, z.k, variant)
				ar, ac := z.m, z.k
				if aTrans {
					ar, ac = ac, ar
				}
				lda, ldc, ldb := ac+3, z.n+5, 0
				a, _ := poisoned(ar * lda)
				for r := range ar {
					copy(a[r*lda:r*lda+ac], noise(rng, ac))
				}
				c, intact := poisoned(max(0, z.m-1)*ldc + z.n)
				for r := range z.m {
					copy(c[r*ldc:r*ldc+z.n], noise(rng, z.n))
				}
				old := append([]float32(nil), c...)
				task := &Task{M: z.m, N: z.n, K: z.k, A: a, LDA: lda, ATrans: aTrans, C: c, LDC: ldc, Accumulate: acc}
				if !acc { // what is overwritten may be anything
					for i := range c {
						c[i] = nan
					}
				}
				if bias {
					task.Bias = noise(rng, z.n)
				}
				packed := NewPacked(make([]float32, PackedLen(z.n, z.k)), z.n, z.k)
				var at func(k, n int) float32
				if layout {
					ldb = z.n + 2
					w := noise(rng, z.k*ldb)
					packed.PackBT(w, ldb, 0, NumPanels(z.n))
					at = func(k, n int) float32 { return w[k*ldb+n] }
				} else {
					ldb = z.k + 1
					w := noise(rng, z.n*ldb)
					packed.PackB(w, ldb, 0, NumPanels(z.n))
					at = func(k, n int) float32 { return w[n*ldb+k] }
				}
				task.B = packed
				Run(task, 0, z.m, 0, NumPanels(z.n), s)
				if !intact() {
					t.Fatalf("%s: wrote outside of C", name)
				}
				for m := range z.m {
					for n := range z.n {
						want, mag := reference(task, at, old, m, n)
						if got := c[m*ldc+n]; !(math.Abs(float64(got)-want) <= 1e-6*mag+1e-30) {
							t.Fatalf("%s: C[%d,%d] = %g, want %g", name, m, n, got, want)
						}
					}
					for i := m*ldc + z.n; i < (m+1)*ldc && i < len(c); i++ {
						if c[i] == c[i] {
							t.Fatalf("%s: wrote right of row %d", name, m)
						}
					}
				}
			}
		}
	})
}

// TestAnySplitSameBits holds the promise of the package comment.
func TestAnySplitSameBits(t *testing.T) {
	const m, n, k = 61, 150, 800
	rng := rand.New(rand.NewPCG(2, 3))
	a, w, bias := noise(rng, m*k), noise(rng, n*k), noise(rng, n)
	var avx2 []float32
	tiers(t, func(t *testing.T, tier isa.Tier) {
		packed := NewPacked(make([]float32, PackedLen(n, k)), n, k)
		packed.PackB(w, k, 0, NumPanels(n))
		run := func(cutM, cutP []int, b Panels) []float32 {
			c := make([]float32, m*n)
			task := &Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: c, LDC: n, Bias: bias}
			s := NewScratch(nil)
			for i := range len(cutM) - 1 {
				for j := range len(cutP) - 1 {
					Run(task, cutM[i], cutM[i+1], cutP[j], cutP[j+1], s)
				}
			}
			return c
		}
		np := NumPanels(n)
		whole := run([]int{0, m}, []int{0, np}, packed)
		for i, got := range [][]float32{
			run([]int{0, 1, 2, 5, 19, 33, m}, []int{0, np}, packed),
			run([]int{0, m}, []int{0, 1, np / 2, np}, packed),
			run([]int{0, 14, 27, m}, []int{0, np - 1, np}, Rows{W: w, N: n, K: k, LD: k}),
		} {
			same(t, fmt.Sprintf("split %d", i), got, whole)
		}
		switch tier {
		case isa.AVX2:
			avx2 = whole
		case isa.AVX512:
			same(t, "avx512 against avx2", whole, avx2)
		}
	})
}

func same(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want the same bits as %v", name, i, got[i], want[i])
		}
	}
}

// TestEpoch: rows that were packed in the same epoch are not looked at again,
// whichever panels they meet; in another one, of another place or after another
// product they are. Rows that do not fit in their whole depth are always packed.
func TestEpoch(t *testing.T) {
	for _, z := range []struct {
		m, k int
		held bool
	}{{1, 1, true}, {16, 384, true}, {29, 769, true}, {100, 1536, true}, {mc, kc, true}, {256, 1024, true}, {256, 1025, false}, {mc + 3, 40, false}} {
		tiers(t, func(t *testing.T, tier isa.Tier) {
			const n = 70
			rng := rand.New(rand.NewPCG(4, uint64(tier)))
			a, w, s := noise(rng, z.m*z.k), noise(rng, n*z.k), NewScratch(nil)
			packed := NewPacked(make([]float32, PackedLen(n, z.k)), n, z.k)
			packed.PackB(w, z.k, 0, NumPanels(n))
			run := func(epoch uint64, a []float32) []float32 {
				task := &Task{M: z.m, N: n, K: z.k, A: a, LDA: z.k, B: packed, C: make([]float32, z.m*n), LDC: n, Epoch: epoch}
				for p := range NumPanels(n) {
					Run(task, 0, z.m, p, p+1, s)
				}
				return task.C
			}
			want := run(0, a)
			if got := run(1, a); !slices.Equal(got, want) {
				t.Fatalf("%dx%d: rows that are kept give other bits", z.m, z.k)
			}
			a[0]++
			changed := run(0, slices.Clone(a))
			run(1, a) // the scratch holds nothing of epoch 1 after another product
			a[0]--
			if got, stale := run(1, a), slices.Equal(changed, want); stale || slices.Equal(got, changed) != z.held {
				t.Errorf("%dx%d: rows are looked at again: %v", z.m, z.k, z.held)
			}
			for name, got := range map[string][]float32{"epoch": run(2, a), "place": run(2, slices.Clone(a))} {
				if !slices.Equal(got, want) {
					t.Errorf("%dx%d: another %s finds the rows of the one before", z.m, z.k, name)
				}
			}
		})
	}
}

func TestPackRoundTrip(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(4, 4))
		for _, z := range [][2]int{{1, 1}, {7, 9}, {32, 64}, {33, 40}, {96, 50}, {65, 31}} {
			n, k := z[0], z[1]
			w := noise(rng, n*k)
			data, intact := poisoned(PackedLen(n, k))
			packed := NewPacked(data, n, k)
			for p := range NumPanels(n) {
				packed.PackB(w, k, p, p+1)
			}
			if !intact() {
				t.Fatalf("%v: PackB wrote outside", z)
			}
			for i, v := range data {
				if v != v {
					t.Fatalf("%v: PackB left value %d unset", z, i)
				}
			}
			back := make([]float32, n*k)
			packed.Unpack(back, k)
			same(t, fmt.Sprint("unpack ", z), back, w)
		}
	})
}

func TestDenormalsAndMXCSR(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		w := []float32{1}
		packed := NewPacked(make([]float32, PackedLen(1, 1)), 1, 1)
		packed.PackB(w, 1, 0, 1)
		Run(&Task{M: 1, N: 1, K: 1, A: []float32{1}, LDA: 1, B: packed, C: make([]float32, 1), LDC: 1}, 0, 1, 0, 1, NewScratch(nil))
		tiny := math.Float32frombits(1 << 20)
		if tiny*0.5 == 0 {
			t.Error("the kernel left denormals flushed for Go code")
		}
	})
}

func TestCheck(t *testing.T) {
	good := func() *Task {
		return &Task{M: 3, N: 4, K: 5, A: make([]float32, 15), LDA: 5, B: Natural{}, C: make([]float32, 12), LDC: 4}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Task){
		"negative": func(t *Task) { t.M = -1 },
		"lda":      func(t *Task) { t.LDA = 4 },
		"ldc":      func(t *Task) { t.LDC = 3 },
		"a":        func(t *Task) { t.A = t.A[:14] },
		"c":        func(t *Task) { t.C = t.C[:11] },
		"bias":     func(t *Task) { t.Bias = make([]float32, 3) },
		"b":        func(t *Task) { t.B = nil },
	} {
		task := good()
		spoil(task)
		if task.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	const m, n, k = 20, 70, 64
	tiers(t, func(t *testing.T, tier isa.Tier) {
		s := NewScratch(nil)
		task := &Task{M: m, N: n, K: k, A: make([]float32, m*k), LDA: k, C: make([]float32, m*n), LDC: n}
		for _, b := range []Panels{
			NewPacked(make([]float32, PackedLen(n, k)), n, k),
			&Natural{W: make([]float32, n*k), N: n, K: k, LD: n},
			&Rows{W: make([]float32, n*k), N: n, K: k, LD: k},
		} {
			task.B = b
			if a := testing.AllocsPerRun(5, func() { Run(task, 0, m, 0, NumPanels(n), s) }); a != 0 {
				t.Errorf("%T: %v allocations", b, a)
			}
		}
	})
}
