package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestRoundBF16 holds every tier to tensor's rounding bit for bit: ties, what
// rounds up to infinity, denormals and both zeros. What is no number becomes a
// quiet one of bf16.
func TestRoundBF16(t *testing.T) {
	const quiet = 0x7fc00000
	var bits []uint32
	for _, b := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x18000, 0x3f800000, 0x3f808000, 0x3f818000, 0x3f818001,
		0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff} {
		bits = append(bits, b, b|1<<31)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		bits = append(bits, rng.Uint32())
	}
	tiers(t, func(t *testing.T, tier isa.Tier) {
		for _, n := range []int{0, 1, 3, 4, 7, 8, 9, 31, len(bits)} {
			v, intact := poisoned(n)
			for i := range v {
				v[i] = math.Float32frombits(bits[i])
			}
			RoundBF16(v)
			if !intact() {
				t.Fatalf("%d values: wrote around them", n)
			}
			for i := range v {
				got, want := math.Float32bits(v[i]), uint32(tensor.F32ToBF16(math.Float32frombits(bits[i])))<<16
				if bits[i]&^(1<<31) > 0x7f800000 {
					got, want = got&(quiet|0xffff), quiet
				}
				if got != want {
					t.Errorf("%d values: %#x became %#x, expected %#x", n, bits[i], got, want)
				}
			}
		}
	})
}

// TestRound: a task that rounds A gives the bits of the product with rows that
// were rounded before, from whole matrices, transposed ones and rows that are
// kept; rows kept for one kind of task are not taken for the other.
func TestRound(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(5, uint64(tier)))
		for _, z := range []struct{ m, n, k int }{{1, 8, 3}, {7, 33, 65}, {40, 70, 400}, {450, 20, 33}} {
			for _, trans := range []bool{false, true} {
				lda := z.k
				if trans {
					lda = z.m
				}
				a, s := noise(rng, z.m*z.k), NewScratch(nil)
				packed := NewPacked(make([]float32, PackedLen(z.n, z.k)), z.n, z.k)
				packed.PackB(noise(rng, z.n*z.k), z.k, 0, NumPanels(z.n))
				run := func(a []float32, round bool, epoch uint64) []float32 {
					task := &Task{M: z.m, N: z.n, K: z.k, A: a, LDA: lda, ATrans: trans, B: packed, C: make([]float32, z.m*z.n), LDC: z.n, Round: round, Epoch: epoch}
					Run(task, 0, z.m, 0, NumPanels(z.n), s)
					return task.C
				}
				rounded := slices.Clone(a)
				RoundBF16(rounded)
				plain, want := run(a, false, 0), run(rounded, false, 0)
				for _, epoch := range []uint64{0, 1, 1} {
					if !slices.Equal(run(a, true, epoch), want) {
						t.Fatalf("%v trans=%v epoch %d: not the product of rounded rows", z, trans, epoch)
					}
				}
				if !slices.Equal(run(a, false, 1), plain) || !slices.Equal(run(a, true, 1), want) {
					t.Fatalf("%v trans=%v: rows kept for one kind of task served the other", z, trans)
				}
			}
		}
	})
}
