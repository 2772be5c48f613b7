package model

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Export gives emit every tensor of the model by the name and in the layout
// that its own files use, so that what reads the files reads the result.
// value gives a weight's new elements by canonical key, or nil where the
// file's stay. Tensors with a new weight come in F32 and may be views of these
// elements, so they last until the next call of value; others are views of the
// file. Those of sentence-transformers
// modules, which lie in files of their own, are left out, and so are tensors in
// an encoding that no weight has: old files keep the numbers of positions in I64.
func (m *Model) Export(value func(key string) ([]float32, error), emit func(weights.Tensor) error) error {
	keys := map[string][]string{} // by name in the files
	for _, key := range slices.Sorted(maps.Keys(m.want)) {
		if r := m.place(key); r.made == nil {
			names := r.names()
			if d, ok := r.how.derive.(inverter); ok {
				names = append(names, d.others()...)
			}
			for _, name := range names {
				keys[name] = append(keys[name], key)
			}
		}
	}
	// A tied head that is in the files all the same follows the token table.
	if key := m.headKey(); key != headWeight {
		keys[m.place(headWeight).name] = []string{key}
	}
	for _, name := range m.store.Names() {
		if m.ofModule(name) {
			continue
		}
		source, err := m.store.Get(name)
		if errors.Is(err, weights.ErrUnsupported) && len(keys[name]) == 0 {
			continue // a buffer, such as BERT's position_ids, which no part of the model reads
		}
		if err != nil {
			return err
		}
		t, err := m.replaced(source, keys[name], value)
		if err == nil && m.storesAnswers(name) {
			t, err = m.answerRows(t, value)
		}
		if err != nil {
			return err
		}
		if err := emit(t); err != nil {
			return err
		}
		m.store.Drop(source)
	}
	return nil
}

const headWeight, tokenTable = "output.weight", "token_embd.weight"

// headKey is the key of the head: that of the token table if they are tied.
func (m *Model) headKey() string {
	if _, used := m.want[headWeight]; !used {
		return tokenTable
	}
	return headWeight
}

// ExportFresh gives emit the weights that training began from nothing, by the
// names that files of the model have for them; those that files have no place
// for are left out, and adapters are part of what Export gives.
func (m *Model) ExportFresh(p *TrainParts, value func(key string) ([]float32, error), emit func(weights.Tensor) error) error {
	for _, q := range p.Params {
		name := m.freshName(q.Key)
		if !q.Fresh || name == "" || p.adapts(q.Value) {
			continue
		}
		f, err := value(q.Key)
		if err != nil {
			return err
		}
		dims := []int{q.Value.Shape.Outer.Add}
		if q.Value.Shape.Rank() > 1 {
			dims = append(dims, q.Value.Shape.RowLen())
		}
		if err := emit(weights.Tensor{Name: name, DType: tensor.F32, Dims: dims, Data: tensor.Bytes(f)}); err != nil {
			return err
		}
	}
	return nil
}

// adapts reports whether v is part of an adapter.
func (p *TrainParts) adapts(v *graph.Value) bool {
	return slices.ContainsFunc(p.Adapters, func(d Adapter) bool { return d.A == v || d.B == v })
}

// FreshLabels is the number of labels of a classifier that training began from
// nothing; 0 where there is none.
func (p *TrainParts) FreshLabels() int {
	for _, q := range p.Params {
		if q.Fresh && (q.Key == "cls.output.weight" || q.Key == "score.weight") {
			return q.Value.Shape.Outer.Add
		}
	}
	return 0
}

// freshName is the name of a fresh weight in files of the model, "" where they
// have none: GGUF files have no heads for masked tokens.
func (m *Model) freshName(key string) string {
	if m.store.Format() == weights.GGUF {
		if strings.HasPrefix(key, "mlm") {
			return ""
		}
		return key
	}
	if name, ok := m.maskedKeys()[key]; ok {
		return name
	}
	end := path.Ext(key)
	for _, row := range m.desc.names(m.store.Format()).rows {
		if row.key == strings.TrimSuffix(key, end) {
			return row.file + end
		}
	}
	return key
}

// Replaced is a tensor of a module with the weight of key replaced, where value
// has one.
func (m *Model) Replaced(t weights.Tensor, key string, value func(key string) ([]float32, error)) (weights.Tensor, error) {
	return m.replaced(t, []string{key}, value)
}

func (m *Model) ofModule(name string) bool {
	if m.store.HF() == nil {
		return false
	}
	return slices.ContainsFunc(m.store.HF().Modules, func(o weights.Module) bool {
		return o.Path != "" && strings.HasPrefix(name, o.Path+"/")
	})
}

// replaced is t with the weights that lie in it replaced.
func (m *Model) replaced(t weights.Tensor, keys []string, value func(string) ([]float32, error)) (weights.Tensor, error) {
	changed, turned := false, false
	for _, key := range keys {
		f, err := value(key)
		if err != nil {
			return t, err
		}
		if f == nil {
			continue
		}
		at := m.place(key)
		how := at.how
		if how.derive != nil {
			d, ok := how.derive.(inverter)
			if !ok || len(keys) > 1 {
				return t, m.fault(t.Name, "the weight %s is made of it, and it cannot be had back from its new elements", key)
			}
			t.DType, t.Data = tensor.F32, tensor.Bytes(d.invert(t, f))
			return t, nil
		}
		if how.stack > 0 { // t has one of equal shares of it
			share := len(f) / how.stack
			i := slices.Index(at.names(), t.Name)
			f = f[i*share : (i+1)*share]
		}
		if how.whole() && len(keys) == 1 && len(f) == t.Len() {
			t.DType, t.Data = tensor.F32, tensor.Bytes(f)
			return t, nil
		}
		if !changed {
			if t, err = decoded(t); err != nil {
				return t, err
			}
			if turned = how.transpose && len(t.Dims) == 2; turned {
				if t, err = t.Transpose(); err != nil {
					return t, err
				}
			}
			changed = true
		}
		part := t.Data // [rows,...], rows of the key's part
		if how.of > 0 {
			n := len(part) / how.of
			part = part[how.part*n : (how.part+1)*n]
		}
		if how.firstRow {
			part = part[:4*t.Dims[1]]
		}
		groups := max(how.groups, 1)
		from, to := 0, len(part)/groups // of each group
		if how.count > 0 {
			row := len(part) / t.Dims[0]
			from, to = how.first*row, (how.first+how.count)*row
		}
		if 4*len(f) != groups*(to-from) {
			return t, m.fault(t.Name, "%d new elements, expected %d for %s", len(f), groups*(to-from)/4, key)
		}
		for g := range groups {
			at := g * (len(part) / groups)
			n := (to - from) / 4
			if err := tensor.Quantize(part[at+from:at+to], tensor.F32, f[g*n:(g+1)*n]); err != nil {
				return t, err
			}
		}
	}
	if turned {
		return t.Transpose()
	}
	return t, nil
}

// decoded is a copy in F32.
func decoded(t weights.Tensor) (weights.Tensor, error) {
	f, err := t.F32()
	if err != nil {
		return t, err
	}
	t.DType, t.Data = tensor.F32, make([]byte, 4*len(f))
	return t, tensor.Quantize(t.Data, tensor.F32, f)
}
