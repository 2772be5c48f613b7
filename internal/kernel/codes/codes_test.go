package codes

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

func random(n int) []byte {
	rng, b := rand.New(rand.NewPCG(1, uint64(n))), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestPanels: panels have the bytes of the file's rows, which come back, whatever
// they are; what fills up the last panel is zeros.
func TestPanels(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			panels(t)
		})
	}
}

func panels(t *testing.T) {
	for _, d := range Types() {
		for _, n := range []int{1, 15, 16, 17, 50} {
			k := 2 * d.Info().BlockLen
			row := d.RowBytes(k)
			src, dst := random(n*row), make([]byte, Bytes(d, n, k))
			if want := NumPanels(n) * Rows * row; len(dst) != want {
				t.Fatalf("%v: panels of %d rows have %d bytes, expected %d", d, n, len(dst), want)
			}
			Pack(dst, src, d, n, k, 0, NumPanels(n))
			back := make([]byte, row)
			for r := range NumPanels(n) * Rows {
				Unpack(back, dst, d, k, r, r+1, 0, k)
				want := make([]byte, row)
				if r < n {
					want = src[r*row:][:row]
				}
				if !bytes.Equal(back, want) {
					t.Fatalf("%v: row %d of %d came back as %x, expected %x", d, r, n, back, want)
				}
			}
			all := make([]byte, n*row)
			if Unpack(all, dst, d, k, 0, n, 0, k); !bytes.Equal(all, src) {
				t.Fatalf("%v: %d rows together came back as %x, expected %x", d, n, all, src)
			}
			Unpack(back, dst, d, k, 0, 1, k/2, k)
			if !bytes.Equal(back[:row/2], src[row/2:row]) {
				t.Fatalf("%v: the second block of row 0 came back as %x", d, back[:row/2])
			}
		}
	}
}

func FuzzPanels(f *testing.F) {
	f.Add(uint8(1), random(500))
	f.Fuzz(func(t *testing.T, kind uint8, src []byte) {
		d := Types()[int(kind)%len(Types())]
		k := d.Info().BlockLen
		row := d.RowBytes(k)
		n := len(src) / row
		dst, back := make([]byte, Bytes(d, n, k)), make([]byte, row)
		Pack(dst, src, d, n, k, 0, NumPanels(n))
		for r := range n {
			if Unpack(back, dst, d, k, r, r+1, 0, k); !bytes.Equal(back, src[r*row:][:row]) {
				t.Fatalf("%v: row %d came back as %x, expected %x", d, r, back, src[r*row:][:row])
			}
		}
	})
}

// TestOrder: codes lie where the package's comment says.
func TestOrder(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1} {
		const n, k = 16, 64
		src := random(n * d.RowBytes(k))
		dst := make([]byte, Bytes(d, n, k))
		Pack(dst, src, d, n, k, 0, 1)
		head := d.Info().BlockBytes - 16
		for r := range n {
			for c := range k {
				block := src[r*d.RowBytes(k)+c/32*d.Info().BlockBytes:]
				want := block[head+c%16] >> (c % 32 / 16 * 4) & 15
				bit := []int{0, 16, 4, 20, 8, 24, 12, 28}[c%8]
				at := c/32*16*d.Info().BlockBytes + head*Rows + c%32/8*64 + 4*r + bit/8
				if got := dst[at] >> (bit % 8) & 15; got != want {
					t.Fatalf("%v: row %d, column %d is %d, expected %d", d, r, c, got, want)
				}
			}
		}
	}
}

// BenchmarkPanels packs and unpacks a layer.
func BenchmarkPanels(b *testing.B) {
	const n, k = 1536, 768
	for _, d := range Types() {
		src, dst := random(n*d.RowBytes(k)), make([]byte, Bytes(d, n, k))
		b.Run(d.String()+"/pack", func(b *testing.B) {
			for b.Loop() {
				Pack(dst, src, d, n, k, 0, NumPanels(n))
			}
			b.SetBytes(int64(len(src)))
		})
		b.Run(d.String()+"/unpack", func(b *testing.B) {
			for b.Loop() {
				Unpack(src, dst, d, k, 0, n, 0, k)
			}
			b.SetBytes(int64(len(src)))
		})
	}
}
