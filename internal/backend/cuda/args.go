package cuda

import (
	"encoding/binary"
	"math"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// args are the arguments of a kernel, laid out as the driver wants them: each at
// its own alignment.
type args struct{ b []byte }

func (a *args) align(n int) {
	for len(a.b)%n != 0 {
		a.b = append(a.b, 0)
	}
}

func (a *args) i32(v int) {
	a.align(4)
	a.b = binary.LittleEndian.AppendUint32(a.b, uint32(int32(v)))
}

func (a *args) u64(v uint64) {
	a.align(8)
	a.b = binary.LittleEndian.AppendUint64(a.b, v)
}

func (a *args) f32(v float32) {
	a.align(4)
	a.b = binary.LittleEndian.AppendUint32(a.b, math.Float32bits(v))
}

// put adds an argument by its Go type.
func (a *args) put(v any) {
	switch v := v.(type) {
	case address:
		a.u64(uint64(v))
	case uint64:
		a.u64(v)
	case int:
		a.i32(v)
	case bool:
		if v {
			a.i32(1)
		} else {
			a.i32(0)
		}
	case float32:
		a.f32(v)
	case float64:
		a.u64(math.Float64bits(v))
	case tail:
		a.align(int(v))
	case [device.MostParts]int:
		for _, e := range v {
			a.i32(e)
		}
	case [device.MostParts]address:
		for _, e := range v {
			a.u64(uint64(e))
		}
	case [device.MostParts]turn:
		for _, e := range v {
			a.put(e)
		}
	case tensorMap:
		a.align(64)
		for _, e := range v {
			a.u64(e)
		}
	case [device.MostParts]tensorMap:
		for _, e := range v {
			a.put(e)
		}
	case in:
		a.u64(uint64(v.at))
		a.put(v.half)
		a.align(8)
	case drop:
		a.u64(uint64(v.key))
		a.i32(int(v.salt))
		a.align(8)
	case out:
		a.u64(uint64(v.plain))
		a.u64(uint64(v.half))
	case headNorm:
		a.u64(uint64(v.weight))
		a.u64(uint64(v.bias))
		a.f32(v.Eps)
		a.f32(v.Offset)
		a.put(v.Kind == graph.RMSNorm)
		a.align(8)
	case turn:
		a.u64(uint64(v.freqs))
		a.u64(uint64(v.pos))
		a.u64(uint64(v.length))
		a.put(v.Stretch)
		for _, e := range []int{v.HeadDim, v.RotDim} {
			a.i32(e)
		}
		a.put(v.Interleaved)
		a.put(v.Inverse)
		a.i32(v.Context)
		a.f32(v.Magnitude)
	case tensor.DType:
		a.i32(int(v))
	case tensor.Dim:
		a.i32(int(v.Sym))
		a.i32(v.Mul)
		a.i32(v.Add)
	case graph.AttentionAttr:
		a.i32(v.Heads)
		a.i32(v.KVHeads)
		a.i32(v.HeadDim)
		a.put(v.Causal)
		a.i32(v.Window)
		a.f32(v.Scale)
		a.f32(v.SoftCap)
		a.put(v.Alibi)
	default:
		panic("cuda: an argument of a type that no kernel takes")
	}
}

// tail aligns the end of a structure that is passed by value.
type tail int

// tensorMap is the driver's description of a matrix for the copy engine.
type tensorMap [16]uint64

// turn is a rotation, as Turn in elementwise.cu. The zero value rotates nothing.
type turn struct {
	freqs, pos, length address
	graph.RopeAttr
}
