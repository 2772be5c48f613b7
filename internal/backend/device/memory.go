package device

import (
	"errors"
	"slices"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Copier copies between host and device, and waits for it.
type Copier interface {
	Read(dst []byte, from Address) error
	Write(to Address, src []byte) error
}

// Arena is memory of a device.
type Arena struct {
	At   Address
	pool *Pool
	copy Copier
}

// NewArena is an arena at a block of a pool.
func NewArena(at Address, pool *Pool, c Copier) *Arena { return &Arena{at, pool, c} }

func (a *Arena) Host() []byte { return nil }

func (a *Arena) Read(offset int64, dst []byte) error { return a.copy.Read(dst, a.At+Address(offset)) }

func (a *Arena) Write(offset int64, src []byte) error { return a.copy.Write(a.At+Address(offset), src) }

func (a *Arena) Free() error {
	a.pool.Give(a.At)
	a.At = 0
	return nil
}

// IOArena is host memory that the device can copy from, with memory of the device
// that kernels compute with.
type IOArena struct {
	*Arena
	host   []byte
	unhost func() error
}

// NewIOArena joins both; unhost frees the host memory.
func NewIOArena(a *Arena, host []byte, unhost func() error) *IOArena {
	clear(host)
	return &IOArena{a, host, unhost}
}

func (a *IOArena) Host() []byte { return a.host }

func (a *IOArena) Read(offset int64, dst []byte) error {
	copy(dst, a.host[offset:])
	return nil
}

func (a *IOArena) Write(offset int64, src []byte) error {
	copy(a.host[offset:], src)
	return nil
}

func (a *IOArena) Free() error {
	err := a.Arena.Free()
	if a.host == nil {
		return err
	}
	a.host = nil
	return errors.Join(err, a.unhost())
}

// storedTypes have kernels that read them, on every device.
var storedTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K}

// StoredAs is the type in which a device holds a weight: its own, or f32.
func StoredAs(v *graph.Value, _ []*graph.Node) tensor.DType {
	if v.DType == tensor.I32 || slices.Contains(storedTypes, v.DType) {
		return v.DType
	}
	return tensor.F32
}

// RoomFor is how many bytes a device should have for a model of some bytes: weights,
// activations and a cache take up to half as much again, and a run's buffers at least a
// gigabyte.
func RoomFor(model int64) int64 { return model + model/2 + 1<<30 }

// Packed is a weight on a device.
type Packed struct {
	At    Address
	DType tensor.DType
	bytes int64
	pool  *Pool
}

func (p *Packed) Bytes() int64 { return p.bytes }

// Free gives the memory back to the pool.
func (p *Packed) Free() error {
	p.pool.Give(p.At)
	p.At = 0
	return nil
}

// Encode is a weight in a type.
func Encode(w plan.Weight, as tensor.DType) ([]byte, error) {
	if as == w.DType {
		return w.Data, nil
	}
	values := make([]float32, len(w.Data)/w.DType.Info().BlockBytes*w.DType.Info().BlockLen)
	if err := tensor.Dequantize(values, w.DType, w.Data); err != nil {
		return nil, err
	}
	data := make([]byte, as.RowBytes(len(values)))
	return data, tensor.Quantize(data, as, values)
}

// weightOf begins the names of weights in errors.
const weightOf = "weight "

// Pack copies a weight that was encoded in a type to a device.
func Pack(w plan.Weight, as tensor.DType, data []byte, pool *Pool, c Copier) (*Packed, error) {
	at, err := pool.Take(int64(len(data)), weightOf+w.Value.Node.Name)
	if err != nil {
		return nil, err
	}
	p := &Packed{at, as, int64(len(data)), pool}
	if err := c.Write(at, data); err != nil {
		return nil, errors.Join(err, p.Free())
	}
	return p, nil
}

// Bytes are values as they lie in memory.
func Bytes[T float32 | int32 | uint64 | float64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}
