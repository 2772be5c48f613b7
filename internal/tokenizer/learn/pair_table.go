package learn

// pairTable finds pairs by their key.
type pairTable struct {
	list  []pair
	keys  []uint64 // hashed; plus one, 0 is empty
	where []int32  // [keys] in list
	used  int
}

func (t *pairTable) start(key uint64) uint64 {
	return (key * 0x9E3779B97F4A7C15) >> 20 & uint64(len(t.keys)-1)
}

func (t *pairTable) find(key uint64) (int32, bool) {
	mask := uint64(len(t.keys) - 1)
	for i := t.start(key); len(t.keys) > 0 && t.keys[i] != 0; i = (i + 1) & mask {
		if t.keys[i] == key+1 {
			return t.where[i], true
		}
	}
	return 0, false
}

// slot finds a pair, or enters it as number n.
func (t *pairTable) slot(key uint64, n int32) (_ int32, found bool) {
	if 2*(t.used+1) > len(t.keys) {
		t.grow()
	}
	mask := uint64(len(t.keys) - 1)
	i := t.start(key)
	for ; t.keys[i] != 0; i = (i + 1) & mask {
		if t.keys[i] == key+1 {
			return t.where[i], true
		}
	}
	t.keys[i], t.where[i] = key+1, n
	t.used++
	return n, false
}

func (t *pairTable) grow() {
	old := *t
	size := max(1<<12, 2*len(old.keys))
	t.keys, t.where, t.used = make([]uint64, size), make([]int32, size), 0
	old.each(func(key uint64, n int32) { t.slot(key, n) })
}

func (t *pairTable) each(visit func(key uint64, n int32)) {
	for i, key := range t.keys {
		if key != 0 {
			visit(key-1, t.where[i])
		}
	}
}

// queued is a pair with the count that it had when it was queued.
type queued struct {
	count int64
	key   uint64
	pair  int32
}

// pairQueue is a heap: the most frequent pair is first, of equal ones the one
// with the lowest ids.
type pairQueue []queued

func (q pairQueue) before(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	return q[i].key < q[j].key
}

func (q pairQueue) order() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *pairQueue) push(p queued) {
	*q = append(*q, p)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *pairQueue) pop() {
	h := *q
	last := len(h) - 1
	h[0] = h[last]
	*q = h[:last]
	q.down(0)
}

func (q pairQueue) down(i int) {
	for {
		next := 2*i + 1
		if next >= len(q) {
			return
		}
		if next+1 < len(q) && q.before(next+1, next) {
			next++
		}
		if !q.before(next, i) {
			return
		}
		q[i], q[next] = q[next], q[i]
		i = next
	}
}
