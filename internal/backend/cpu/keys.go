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
func (b *binder) keys(v *graph.Value) (keys, error) {
	if v.DType == tensor.F32 {
		m, err := b.f32(v)
		return keys{mat: m}, err
	}
	s, err := b.cache(v)
	return keys{mat: mat{cols: v.Shape.RowLen(), outer: v.Shape.Outer}, stored: s}, err
}

// cache views the memory of an encoded state.
func (b *binder) cache(v *graph.Value) (*gemm.Stored, error) {
	pl := b.plan.Place(v)
	return gemm.NewStored(b.mem.Arenas[pl.Class].Host()[pl.Offset:pl.Offset+pl.Bytes], v.DType, v.Shape.NumRows(tensor.Bind{}), v.Shape.RowLen())
}

// wantKeys reserves room for n decoded keys and as many values.
func (b *binder) wantKeys(n int) { b.keyRoom = max(b.keyRoom, n) }

// head is n rows from row on of key head kv, whose width is d, and how far
// apart they lie; buf is where they are decoded to.
func (k *keys) head(buf []float32, row, n, kv, d int) ([]float32, int) {
	if k.stored == nil {
		return k.full[row*k.cols+kv*d:], k.cols
	}
	k.stored.Decode(buf, d, row, n, kv*d, d)
	return buf, d
}

// run views n rows from row on of key head kv, whose width is d, as they lie.
func (k *keys) run(dst *gemm.Stored, row, n, kv, d int) {
	if k.stored == nil {
		data := unsafe.Slice((*byte)(unsafe.Pointer(&k.full[row*k.cols+kv*d])), 4*((n-1)*k.cols+d))
		*dst = gemm.Stored{Data: data, DType: tensor.F32, N: n, K: d, RowBytes: 4 * k.cols}
		return
	}
	s := k.stored
	*dst = gemm.Stored{Data: s.Data[row*s.RowBytes+s.DType.RowBytes(kv*d):], DType: s.DType, N: n, K: d, RowBytes: s.RowBytes}
}

func bindKVWrite(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[2], n.In[3])
	if err != nil {
		return nil, err
	}
	write := make([]func(row int, src []float32), 2)
	for i, state := range n.Out {
		if write[i], err = b.rowWriter(state); err != nil {
			return nil, err
		}
	}
	k, v, slots := ms[0], ms[1], b.i32(n.In[4])
	return &rowwise{"kv write", k, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			slot := int(slots.full[i])
			write[0](slot, k.row(i))
			write[1](slot, v.row(i))
		}
	}}, nil
}

// rowWriter puts f32 rows into a state.
func (b *binder) rowWriter(v *graph.Value) (func(row int, src []float32), error) {
	if v.DType == tensor.F32 {
		m, err := b.f32(v)
		return func(row int, src []float32) { copy(m.row(row), src) }, err
	}
	s, err := b.cache(v)
	if err != nil {
		return nil, err
	}
	if v.DType == tensor.F16 {
		return func(row int, src []float32) { vec.ToF16(s.Data[row*s.RowBytes:][:s.RowBytes], src) }, nil
	}
	t := graph.Tensor{DType: v.DType, Rows: s.N, Cols: s.K, Raw: s.Data}
	return t.WriteRow, nil
}
