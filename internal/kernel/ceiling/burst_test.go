package ceiling

import "testing"

// Every kind has a rate, and reads of the caller's memory need some.
func TestBursts(t *testing.T) {
	b := NewBursts(2)
	defer b.Free()
	b.Prepare()
	far := make([]byte, FarBytes)
	for k, kind := range b.Kinds() {
		for lane := range 2 {
			if r := b.Rate(k, lane, far); !(r > 1e6) {
				t.Errorf("%+v, lane %d: %g per second", kind, lane, r)
			}
		}
		if r := b.Rate(k, 0, nil); (kind.Level == "memory") != (r == 0) {
			t.Errorf("%+v without memory of the caller: %g per second", kind, r)
		}
	}
}
