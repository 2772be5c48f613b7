package profile

// keeper keeps the first half and the last half of the values that it was given,
// within a fixed size. So warm-up and steady state both stay visible.
type keeper[T any] struct {
	first, last []T
	next        int // where the oldest of last stands
	total       int64
}

func newKeeper[T any](n int) *keeper[T] {
	return &keeper[T]{first: make([]T, 0, n/2), last: make([]T, 0, n-n/2)}
}

// keep stores v and returns the value that it displaces: an older value, or v
// itself if nothing is kept.
func (k *keeper[T]) keep(v T) (out T, full bool) {
	k.total++
	switch {
	case len(k.first) < cap(k.first):
		k.first = append(k.first, v)
	case len(k.last) < cap(k.last):
		k.last = append(k.last, v)
	case cap(k.last) == 0:
		return v, true
	default:
		out, k.last[k.next] = k.last[k.next], v
		k.next = (k.next + 1) % len(k.last)
		return out, true
	}
	return out, false
}

// all lists what is kept, oldest first.
func (k *keeper[T]) all() []T {
	all := make([]T, 0, len(k.first)+len(k.last))
	all = append(all, k.first...)
	all = append(all, k.last[k.next:]...)
	return append(all, k.last[:k.next]...)
}
