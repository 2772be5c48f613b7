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
	// made are weights that the configuration gives and the files lack.
	made map[string]madeWeight
}

// madeWeight is a small f32 weight.
type madeWeight struct {
	dims []int
	data []float32
}

// nameRow maps a canonical key to a name in the files, both without their
// ending .weight or .bias. "{}" stands for the layer. Of several rows with one
// key the first is taken whose tensor is there.
type nameRow struct {
	key, file string
	how       transform
}

// transform is how a weight is made of what the file has.
type transform struct {
	transpose bool // a matrix is stored [in,out]
	part, of  int  // rows are one of several equal parts; of is 0 for all rows
	firstRow  bool // only the first row of a table, as a vector
	// count rows from first on, of each of groups equal groups (0 means one) of
	// height rows; count 0 means all rows. Fused projections are cut so.
	groups, height, first, count int
	// stack tensors lie one below the other: the name's "{e}" counts them, or
	// files lists them.
	stack int
	files []string
	flat  bool // a stack of matrices is one tensor: [n,rows,cols] is used as [n*rows,cols]
	row   bool // a matrix, or a stack of vectors, is one vector
	bare  bool // the name in the files has no ending

	derive deriver // computes the weight; nothing else applies then
}

// whole reports whether a tensor of the files is the weight as it is.
func (t *transform) whole() bool {
	return !t.transpose && t.of == 0 && !t.firstRow && t.groups <= 1 && t.count == 0 && t.stack == 0 && t.derive == nil
}

// deriver computes a weight in F32 out of a tensor of the files.
type deriver interface {
	// dims is the shape of the weight, given the tensor's.
	dims(of []int) ([]int, error)
	derive(t weights.Tensor) ([]float32, error)
}

// inverter is a deriver whose weight can be trained: its tensors can be had back.
type inverter interface {
	deriver
	// others are the tensors that the weight is made of besides the place's own.
	others() []string
	// invert is what tensor t of the files becomes where the weight is f.
	invert(t weights.Tensor, f []float32) []float32
}

// copies reports whether a weight cannot be a view of the file.
func (t transform) copies() bool { return t.groups > 1 || t.stack > 0 }

// place is where a weight is found.
type place struct {
	name string // with "{e}" where tensors are stacked
	how  transform
	made *madeWeight // not in the files at all
}

// site is where a weight lies, whatever is made of it.
type site struct {
	name        string
	part, first int
}

func (p place) site() site { return site{p.name, p.how.part, p.how.first} }

// names are the tensors that a weight is made of.
func (p place) names() []string {
	switch {
	case p.how.files != nil:
		return p.how.files
	case p.how.stack == 0:
		return []string{p.name}
	}
	names := make([]string, p.how.stack)
	for i := range names {
		names[i] = strings.Replace(p.name, "{e}", strconv.Itoa(i), 1)
	}
	return names
}

// oldNorms are the endings of norms in files of before 2020.
var oldNorms = map[string]string{".weight": ".gamma", ".bias": ".beta"}

// resolve fills the table for every layer. Keys that it does not mention have
// the same name in the files.
func (n naming) resolve(st *weights.Store, layers int) (map[string]place, error) {
	places := map[string]place{}
	for key, w := range n.made {
		places[key] = place{made: &w}
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
				name := strings.Replace(row.file, "{}", layer, 1)
				if !row.how.bare {
					name += end
				} else if end == ".bias" {
					break
				}
				// A head lies beside the body, outside of its prefix.
				at := place{name: prefix + name, how: row.how}
				if bare := (place{name: name, how: row.how}); !at.in(st) && bare.in(st) {
					at = bare
				}
				if !at.in(st) && !row.how.bare {
					if old := strings.TrimSuffix(at.name, end) + oldNorms[end]; st.Has(old) {
						at.name = old
					}
				}
				key := strings.Replace(row.key, "{}", layer, 1) + end
				if _, taken := places[key]; !taken || !places[key].in(st) && at.in(st) {
					places[key] = at
				}
			}
		}
	}
	return places, nil
}

// in reports whether the files have the place's first tensor.
func (p place) in(st *weights.Store) bool {
	if p.how.files != nil {
		return st.Has(p.how.files[0])
	}
	return st.Has(strings.Replace(p.name, "{e}", "0", 1))
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
	return r.made != nil || r.in(m.store)
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
	in, err := m.stored(key)
	if err == nil && m.live[key] != nil {
		in.dtype = tensor.F32
	}
	return in, err
}

// stored is inspect of the files.
func (m *Model) stored(key string) (info, error) {
	r := m.place(key)
	if r.made != nil {
		return info{slices.Clone(r.made.dims), tensor.F32, 0}, nil
	}
	t, bytes, err := m.stacked(r)
	if err != nil {
		return info{}, err
	}
	if r.how.derive != nil {
		dims, err := r.how.derive.dims(t.Dims)
		if err != nil {
			return info{}, m.fault(r.name, "%v", err)
		}
		return info{dims, tensor.F32, bytes}, nil
	}
	if r.how.flat && len(t.Dims) == 3 {
		t.Dims = []int{t.Dims[0] * t.Dims[1], t.Dims[2]}
	}
	if r.how.row {
		t.Dims = oneRow(t.Dims)
	}
	if r.how.transpose && len(t.Dims) == 2 {
		if t.DType.Quantized() {
			return info{}, m.fault(r.name, "%s, expected a type without blocks, since it is stored transposed", t.DType)
		}
		t.Dims[0], t.Dims[1] = t.Dims[1], t.Dims[0]
	}
	in := info{t.Dims, t.DType, bytes}
	if n := r.how.of; n > 0 {
		if in.dims[0]%n != 0 {
			return info{}, m.fault(r.name, "dimensions %v, expected rows in %d equal parts", t.Dims, n)
		}
		in.dims[0] /= n
		in.bytes /= int64(n)
	}
	if n := r.how.count; n > 0 {
		groups := max(r.how.groups, 1)
		if in.dims[0] != groups*r.how.height {
			return info{}, m.fault(r.name, "dimensions %v, expected %d rows, which several weights share", t.Dims, groups*r.how.height)
		}
		in.bytes = in.bytes / int64(in.dims[0]) * int64(groups*n)
		in.dims[0] = groups * n
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

// oneRow are the dimensions of a matrix [rows,cols] as one vector.
func oneRow(dims []int) []int {
	if len(dims) != 2 {
		return dims
	}
	return []int{dims[0] * dims[1]}
}

// stacked is the first tensor of a place, with as many rows as all of them
// have, and their bytes in the files.
func (m *Model) stacked(r place) (weights.Tensor, int64, error) {
	names := r.names()
	t, err := m.store.Get(names[0])
	if err != nil {
		return t, 0, err
	}
	for _, name := range names[1:] {
		o, err := m.store.Get(name)
		if err != nil {
			return t, 0, err
		}
		if o.DType != t.DType || !slices.Equal(o.Dims, t.Dims) {
			return t, 0, m.fault(name, "%s %v, expected %s %v as in %s", o.DType, o.Dims, t.DType, t.Dims, names[0])
		}
	}
	bytes := int64(len(names)) * int64(len(t.Data))
	if r.how.stack > 0 {
		if len(t.Dims) == 1 { // vectors become rows
			t.Dims = append([]int{1}, t.Dims...)
		}
		t.Dims[0] *= len(names)
	}
	return t, bytes, nil
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
	if m.live[key] != nil {
		return m.liveWeight(key, shape)
	}
	r := m.place(key)
	if r.made != nil {
		return vector(key, r.made.data, r.made.dims...)
	}
	if r.how.copies() {
		return m.gathered(key, r)
	}
	t, err := m.store.Get(r.name)
	if err != nil {
		return t, err
	}
	if r.how.derive != nil {
		return m.derived(key, t, r.how.derive)
	}
	if r.how.flat && len(t.Dims) == 3 {
		t.Dims = []int{t.Dims[0] * t.Dims[1], t.Dims[2]}
	}
	if r.how.row {
		t.Dims = oneRow(t.Dims)
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
	if r.how.count > 0 {
		if t, err = t.Rows(r.how.first, r.how.first+r.how.count); err != nil {
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
		return vector(t.Name, f, len(f))
	}
	return t, nil
}

// derived is computed anew each time: backends ask once.
func (m *Model) derived(key string, t weights.Tensor, d deriver) (weights.Tensor, error) {
	dims, err := d.dims(t.Dims)
	if err != nil {
		return t, m.fault(t.Name, "%v", err)
	}
	f, err := d.derive(t)
	if err != nil {
		return t, fmt.Errorf("%s: %w", m.store.Path(), err)
	}
	return vector(key, f, dims...)
}

// gathered is a kept copy of rows that do not lie together.
func (m *Model) gathered(key string, r place) (weights.Tensor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.made[key]; c != nil {
		return c.t, nil
	}
	in, err := m.inspect(key)
	if err != nil {
		return weights.Tensor{}, err
	}
	out := weights.Tensor{Name: key, Dims: in.dims}
	groups := max(r.how.groups, 1)
	for _, name := range r.names() {
		t, err := m.store.Get(name)
		if err != nil {
			return t, err
		}
		if r.how.flat && len(t.Dims) == 3 {
			t.Dims = []int{t.Dims[0] * t.Dims[1], t.Dims[2]}
		}
		if len(t.Dims) == 1 && t.DType != tensor.F32 { // as inspect has promised
			f, err := t.F32()
			if err == nil {
				t, err = vector(name, f, len(f))
			}
			if err != nil {
				return t, fmt.Errorf("%s: %w", m.store.Path(), err)
			}
		}
		out.DType = t.DType
		if out.Data == nil {
			out.Data = make([]byte, 0, in.dtype.RowBytes(out.Len()))
		}
		group := t.Dims[0] / groups
		first, count := r.how.first, r.how.count
		if count == 0 {
			count = group
		}
		for g := range groups {
			part, err := t.Rows(g*group+first, g*group+first+count)
			if err != nil {
				return t, fmt.Errorf("%s: %w", m.store.Path(), err)
			}
			out.Data = append(out.Data, part.Data...)
		}
	}
	m.made[key] = &madeTensor{out, 1}
	return out, nil
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

// EachMapping calls f with the memory of each mapped file of the weights.
func (m *Model) EachMapping(f func(name string, mem []byte)) { m.store.EachMapping(f) }

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

func vector(name string, f []float32, dims ...int) (weights.Tensor, error) {
	t := weights.Tensor{Name: name, DType: tensor.F32, Dims: dims, Data: make([]byte, 4*len(f))}
	return t, tensor.Quantize(t.Data, tensor.F32, f)
}
