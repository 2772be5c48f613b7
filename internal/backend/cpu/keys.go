package cpu

import (
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// keys is the keys or values that attention reads: in f32 as they lie, or a
// cache in another encoding, decoded a block of one head at a time.
type keys struct {
	mat
	stored *gemm.Stored // nil where the mat holds them
}

// keys binds the state of a KV cache.
func (b *binder) keys(v *graph.Value) keys {
	if v.DType == tensor.F32 {
		return keys{mat: b.f32(v)}
	}
	return keys{mat: mat{cols: v.Shape.RowLen(), outer: v.Shape.Outer}, stored: b.cache(v)}
}

// cache views the memory of an encoded state.
func (b *binder) cache(v *graph.Value) *gemm.Stored {
	s, err := gemm.NewStored(b.memory(b.plan.Place(v)), v.DType, v.Shape.NumRows(tensor.Bind{}), v.Shape.RowLen())
	if err != nil {
		b.fail(err)
		return &gemm.Stored{}
	}
	return s
}

// wantKeys reserves room for n decoded keys and as many values.
func (b *binder) wantKeys(n int) { b.keyRoom = max(b.keyRoom, n) }

// head returns n rows, beginning at row, of key head kv with width d, and the
// distance between rows. buf receives decoded rows.
func (k *keys) head(buf []float32, row, n, kv, d int) ([]float32, int) {
	if k.stored == nil {
		return k.full[row*k.cols+kv*d:], k.cols
	}
	k.stored.Decode(buf, d, row, n, kv*d, d)
	return buf, d
}

// viewRows sets dst to n rows, beginning at row, of key heads [kv0,kv1) with
// width d, without copying.
func (k *keys) viewRows(dst *gemm.Cached, row, n, kv0, kv1, d int) {
	dst.Rows, dst.Heads, dst.Dim, dst.Data = n, kv1-kv0, d, k.from(row, kv0*d)
	dst.DType, dst.RowBytes = tensor.F32, 4*k.cols
	if s := k.stored; s != nil {
		dst.DType, dst.RowBytes = s.DType, s.RowBytes
	}
}

// from is the memory of a row from a column on.
func (k *keys) from(row, col int) []byte {
	if s := k.stored; s != nil {
		return s.Data[row*s.RowBytes+s.DType.RowBytes(col):]
	}
	all := k.full[row*k.cols+col:]
	return unsafe.Slice((*byte)(unsafe.Pointer(&all[0])), 4*len(all))
}

// bytes is how many bytes n columns of a row have.
func (k *keys) bytes(n int) int {
	if s := k.stored; s != nil {
		return s.DType.RowBytes(n)
	}
	return 4 * n
}

// kvWrite puts rows of keys and values into a cache.
type kvWrite struct {
	k, v   mat // k is absent where the keys are rotated on the way
	slots  ints
	keys   func(row, col int, src []float32)
	values func(row, col int, src []float32)
}

func newKVWrite(b *binder, n *graph.Node) *kvWrite {
	ms := b.mats(n.In[2], n.In[3])
	return &kvWrite{ms[0], ms[1], b.i32(n.In[4]), b.rowWriter(n.Out[0]), b.rowWriter(n.Out[1])}
}

// row writes row i of the values, and k with them.
func (w *kvWrite) row(i int, k []float32) {
	slot := int(w.slots.full[i])
	w.keys(slot, 0, k)
	w.values(slot, 0, w.v.row(i))
}

func bindKVWrite(b *binder, s *plan.Step) (kernel, error) {
	kv := newKVWrite(b, s.Root())
	return &rowwise{"kv write", kv.v, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			kv.row(i, kv.k.row(i))
		}
	}}, nil
}

// bindRopeKVWrite rotates keys while writing them into the cache. Only the cache
// is read later.
func bindRopeKVWrite(b *binder, s *plan.Step) (kernel, error) {
	r, kv := newRotation(b, s.Nodes[0]), newKVWrite(b, s.Root())
	b.want(r.RotDim + r.x.cols)
	return &rowwise{"rope+kv write", r.x, func(w *worker, _ tensor.Bind, lo, hi int) {
		k := w.scratch.f[r.RotDim:][:r.x.cols] // behind the sines
		for i := lo; i < hi; i++ {
			r.row(w, k, i)
			kv.row(i, k)
		}
	}}, nil
}

// rowWriter puts f32 values into a state: those of a row from a column on, whole
// blocks of its encoding.
func (b *binder) rowWriter(v *graph.Value) func(row, col int, src []float32) {
	if v.DType == tensor.F32 {
		m := b.f32(v)
		return func(row, col int, src []float32) { copy(m.row(row)[col:], src) }
	}
	s := b.cache(v)
	if v.DType == tensor.F16 {
		return func(row, col int, src []float32) { vec.ToF16(s.Data[row*s.RowBytes+2*col:][:2*len(src)], src) }
	}
	return func(row, col int, src []float32) {
		at := row*s.RowBytes + s.DType.RowBytes(col)
		t := graph.Tensor{DType: s.DType, Rows: 1, Cols: len(src), Raw: s.Data[at:][:s.DType.RowBytes(len(src))]}
		t.WriteRow(0, src)
	}
}
