package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// naming says where the tensors of an architecture are found in its files.
type naming struct {
	// prefixes may stand before every name; the one is taken with which the
	// first row is there.
	prefixes []string
	rows     []nameRow
	// made are vectors that the configuration gives and the files lack.
	made map[string][]float32
}

// nameRow maps a canonical key to a name in the files, both without their
// ending .weight or .bias. "{}" stands for the layer.
type nameRow struct {
	key, file string
	how       transform
}

// transform is how a weight is made of what the file has.
type transform struct {
	transpose bool // a matrix is stored [in,out]
	part, of  int  // rows are one of several equal parts; of is 0 for all rows
	firstRow  bool // only the first row of a table, as a vector
}

// place is where a weight is found.
type place struct {
	name string
	how  transform
	made []float32 // not in the files at all
}

// resolve fills the table for every layer. Keys that it does not mention have
// the same name in the files.
func (n naming) resolve(st *weights.Store, layers int) (map[string]place, error) {
	places := map[string]place{}
	for key, f := range n.made {
		places[key] = place{made: f}
	}
	prefix := ""
	if len(n.prefixes) > 0 {
		probe := n.rows[0].file + ".weight"
		i := slices.IndexFunc(n.prefixes, func(p string) bool { return st.Has(p + probe) })
		if i < 0 {
			return nil, fmt.Errorf("%s: tensor %q: %w (nor with a prefix %s)", st.Path(), probe, weights.ErrNoTensor, strings.Join(n.prefixes, " "))
		}
		prefix = n.prefixes[i]
	}
	for _, row := range n.rows {
		count := layers
		if !strings.Contains(row.key, "{}") {
			count = 1
		}
		for i := range count {
			layer := strconv.Itoa(i)
			for _, end := range []string{".weight", ".bias"} {
				name := strings.Replace(row.file, "{}", layer, 1) + end
				// A head lies beside the body, outside of its prefix.
				if st.Has(prefix+name) || !st.Has(name) {
					name = prefix + name
				}
				places[strings.Replace(row.key, "{}", layer, 1)+end] = place{name: name, how: row.how}
			}
		}
	}
	return places, nil
}

func (m *Model) place(key string) place {
	if r, ok := m.places[key]; ok {
		return r
	}
	return place{name: key}
}

// has reports whether the model has a weight.
func (m *Model) has(key string) bool {
	r := m.place(key)
	return r.made != nil || m.store.Has(r.name)
}

// info is what can be said of a weight without making it.
type info struct {
	dims  []int
	dtype tensor.DType
	bytes int64 // in the file
}

// inspect is the type of what Weight gives. Vectors are always F32: they are
// small and ops want them so.
func (m *Model) inspect(key string) (info, error) {
	r := m.place(key)
	if r.made != nil {
		return info{[]int{len(r.made)}, tensor.F32, 0}, nil
	}
	t, err := m.store.Get(r.name)
	if err != nil {
		return info{}, err
	}
	if r.how.transpose && len(t.Dims) == 2 {
		if t.DType.Quantized() {
			return info{}, m.fault(r.name, "%s, expected a type without blocks, since it is stored transposed", t.DType)
		}
		t.Dims[0], t.Dims[1] = t.Dims[1], t.Dims[0]
	}
	in := info{t.Dims, t.DType, int64(len(t.Data))}
	if r.how.of > 0 {
		if in.dims[0]%r.how.of != 0 {
			return info{}, m.fault(r.name, "dimensions %v, expected rows in %d equal parts", t.Dims, r.how.of)
		}
		in.dims[0] /= r.how.of
		in.bytes /= int64(r.how.of)
	}
	if r.how.firstRow {
		if len(in.dims) != 2 {
			return info{}, m.fault(r.name, "dimensions %v, expected [rows, width]", in.dims)
		}
		in.bytes /= int64(in.dims[0])
		in.dims = in.dims[1:]
	}
	if len(in.dims) == 1 {
		in.dtype = tensor.F32
	}
	return in, nil
}

func (m *Model) fault(name, format string, args ...any) error {
	return fmt.Errorf("%s: tensor %q: %s: %w", m.store.Path(), name, fmt.Sprintf(format, args...), weights.ErrInvalid)
}

// expect checks that a weight is there and has a shape.
func (m *Model) expect(key string, dims []int) error {
	in, err := m.inspect(key)
	if errors.Is(err, weights.ErrNoTensor) {
		return fmt.Errorf("%w, expected %v", err, dims)
	}
	if err == nil && !slices.Equal(in.dims, dims) {
		return m.fault(m.place(key).name, "dimensions %v, expected %v for %s", in.dims, dims, key)
	}
	return err
}

// madeTensor is a transposed copy and how many weights have still to be taken
// out of it before it can go.
type madeTensor struct {
	t    weights.Tensor
	left int
}

// Weight is a weight by its canonical key: a view of the file, or a copy where
// the file has it transposed, or a vector in another type than F32. Copies are
// kept until Drop.
func (m *Model) Weight(key string) (weights.Tensor, error) {
	shape, ok := m.want[key]
	if !ok {
		return weights.Tensor{}, fmt.Errorf("%s: weight %q: a %s model has none of this name: %w", m.store.Path(), key, m.cfg.Arch, weights.ErrNoTensor)
	}
	r := m.place(key)
	if r.made != nil {
		return vector(key, r.made)
	}
	t, err := m.store.Get(r.name)
	if err != nil {
		return t, err
	}
	if r.how.transpose && len(t.Dims) == 2 {
		if t, err = m.transposed(t, r.how); err != nil {
			return t, err
		}
	}
	if r.how.of > 0 {
		n := t.Dims[0] / r.how.of
		if t, err = t.Rows(r.how.part*n, (r.how.part+1)*n); err != nil {
			return t, err
		}
	}
	if r.how.firstRow {
		if t, err = t.Rows(0, 1); err != nil {
			return t, err
		}
		t.Dims = t.Dims[1:]
	}
	if shape.Rank() == 1 && t.DType != tensor.F32 {
		f, err := t.F32()
		if err != nil {
			return t, fmt.Errorf("%s: %w", m.store.Path(), err)
		}
		return vector(t.Name, f)
	}
	return t, nil
}

// transposed is a kept copy of a matrix with rows and columns exchanged.
func (m *Model) transposed(t weights.Tensor, how transform) (weights.Tensor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.made[t.Name]; c != nil {
		return c.t, nil
	}
	source := t
	t, err := t.Transpose()
	if err != nil {
		return t, fmt.Errorf("%s: %w", m.store.Path(), err)
	}
	m.store.Drop(source)
	m.made[t.Name] = &madeTensor{t, max(how.of, 1)}
	return t, nil
}

// Drop says that a backend has copied t: pages of the file may leave memory,
// and a transposed copy goes with the last weight that was taken out of it.
func (m *Model) Drop(t weights.Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.made[t.Name]
	if c == nil {
		m.store.Drop(t)
		return
	}
	if c.left--; c.left == 0 {
		delete(m.made, t.Name)
	}
}

func vector(name string, f []float32) (weights.Tensor, error) {
	t := weights.Tensor{Name: name, DType: tensor.F32, Dims: []int{len(f)}, Data: make([]byte, 4*len(f))}
	return t, tensor.Quantize(t.Data, tensor.F32, f)
}
