package device

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/tensor"
)

// blocks is a source with some room, which takes blocks back unless keeps is set.
type blocks struct {
	next       Address
	sizes      map[Address]int64
	room, used int64
	gets       int
	keeps      bool
}

var errFull = errors.New("full")

func (s *blocks) Size(bytes int64) int64 { return (bytes + 99) / 100 * 100 }

func (s *blocks) Get(bytes int64) (Address, error) {
	if s.used+bytes > s.room {
		return 0, errFull
	}
	s.gets++
	s.next++
	s.used += bytes
	s.sizes[s.next] = bytes
	return s.next, nil
}

func (s *blocks) Return(a Address) bool {
	if s.keeps {
		return false
	}
	s.used -= s.sizes[a]
	delete(s.sizes, a)
	return true
}

func (s *blocks) Left() string { return "nothing is left" }

// Blocks that come back are given again. A pool without room hands spare blocks back
// first; a source that keeps its memory loses none of them.
func TestPool(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		s := &blocks{sizes: map[Address]int64{}, room: 1000, keeps: keeps}
		p := NewPool(s)
		take := func(bytes int64) Address {
			a, err := p.Take(bytes, "a test")
			if err != nil {
				t.Fatalf("keeps %v, %d bytes: %v", keeps, bytes, err)
			}
			return a
		}
		for range 10 {
			a, b := take(90), take(250)
			p.Give(a)
			p.Give(b)
		}
		if s.gets != 2 {
			t.Errorf("keeps %v: %d blocks were asked for, expected 2", keeps, s.gets)
		}
		a, err := p.Take(900, "weights")
		if keeps {
			if !errors.Is(err, errFull) || !strings.Contains(err.Error(), "900 bytes for weights, nothing is left") {
				t.Errorf("%v, expected an error that says how much was asked for what", err)
			}
			if take(100); s.gets != 2 {
				t.Errorf("a spare block was forgotten")
			}
			continue
		}
		if err != nil || s.used != 900 {
			t.Errorf("%d bytes are in use, expected the spare blocks to make room: %v", s.used, err)
		}
		p.Give(a)
		take(50)
		if p.Close(); s.used != 0 {
			t.Errorf("%d bytes are left", s.used)
		}
	}
}

// Profiles show what a run of some sizes carries.
func TestCarriedBytes(t *testing.T) {
	parts := []Travels{{Rows: tensor.Of(tensor.T, 1), Bytes: 4}, {Rows: tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}, Bytes: 4}, {Rows: tensor.Fixed(3), Bytes: 8}}
	if got := Carried(parts, tensor.Bind{T: 5, S: 2, R: 1}); got != 5*4+3*4+3*8 {
		t.Errorf("%d bytes, expected %d", got, 5*4+3*4+3*8)
	}
}
