package safetensors

import (
	"cmp"
	"fmt"
	"slices"

	"hotpath/internal/format"
	"hotpath/internal/format/jsonview"
)

// entry is the description of one tensor in the header.
type entry struct {
	typ        string
	dims       [maxRank]int
	rank       int
	begin, end int
}

// fields are what a header says about a tensor.
var fields = [...]struct {
	name string
	kind jsonview.Kind
}{{"dtype", jsonview.String}, {"shape", jsonview.Array}, {"data_offsets", jsonview.Array}}

// readEntry decodes what a header says about a tensor.
func readEntry(v jsonview.Value) (e entry, err error) {
	var found [len(fields)]jsonview.Value
	for key, value := range v.Members() {
		for i, f := range fields {
			if !key.Is(f.name) {
				continue
			}
			if found[i].Kind() != jsonview.Invalid {
				return e, fmt.Errorf("field %s appears twice: %w", f.name, format.ErrInvalid)
			}
			found[i] = value
		}
	}
	for i, f := range fields {
		if kind := found[i].Kind(); kind != f.kind {
			return e, fmt.Errorf("field %s: expected %s, found %s: %w", f.name, f.kind, kind, format.ErrInvalid)
		}
	}
	dtype, shape, offsets := found[0], found[1], found[2]
	if e.typ, err = encoding(dtype); err != nil {
		return e, err
	}
	if e.rank, err = integers(shape, e.dims[:]); err != nil {
		return e, fmt.Errorf("field shape: %w", err)
	}
	var pair [2]int
	n, err := integers(offsets, pair[:])
	if err == nil && n != len(pair) {
		err = fmt.Errorf("%d numbers, expected two: %w", n, format.ErrInvalid)
	}
	if err != nil {
		return e, fmt.Errorf("field data_offsets: %w", err)
	}
	e.begin, e.end = pair[0], pair[1]
	return e, nil
}

// encoding is the name of an encoding, not copied where it is known.
func encoding(v jsonview.Value) (string, error) {
	if b, ok := v.Plain(); ok {
		for name := range dtypes {
			if string(b) == name {
				return name, nil
			}
		}
	}
	if n := v.TextLen(); n > maxType {
		return "", fmt.Errorf("field dtype: a name of %d bytes, expected at most %d: %w", n, maxType, format.ErrInvalid)
	}
	name, _ := v.Text()
	return name, nil
}

// integers decodes a list that is no longer than dst and returns its length.
func integers(v jsonview.Value, dst []int) (int, error) {
	n := 0
	for item := range v.Items() {
		if n == len(dst) {
			return 0, fmt.Errorf("more than %d numbers: %w", len(dst), format.ErrInvalid)
		}
		i, ok := item.Int()
		if !ok || int64(int(i)) != i {
			return 0, fmt.Errorf("%.40s, expected an integer: %w", item.Raw(), format.ErrInvalid)
		}
		dst[n] = int(i)
		n++
	}
	return n, nil
}

// check bounds a tensor within a data part of n bytes.
func (e *entry) check(n int) error {
	if e.begin < 0 || e.end < e.begin {
		return fmt.Errorf("data_offsets [%d %d], expected a range: %w", e.begin, e.end, format.ErrInvalid)
	}
	if e.end > n {
		return fmt.Errorf("data_offsets [%d %d], but the file has only %d bytes of tensors: %w", e.begin, e.end, n, format.ErrTruncated)
	}
	d, ok := dtypes[e.typ]
	if !ok { // an encoding of tomorrow: its size is not ours to check
		return nil
	}
	size, err := format.ByteSize(e.dims[:e.rank], 1, d.size)
	if err != nil {
		return fmt.Errorf("shape: %w", err)
	}
	if size != e.end-e.begin {
		return fmt.Errorf("data_offsets [%d %d] hold %d bytes, expected %d for %s %v: %w",
			e.begin, e.end, e.end-e.begin, size, e.typ, slices.Clone(e.dims[:e.rank]), format.ErrInvalid)
	}
	return nil
}

// checkPlaces holds the format to its word that the tensors fill the file, each
// behind the one before, and sorts the table by name.
func (f *File) checkPlaces() error {
	slices.SortFunc(f.table, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	end := 0
	for i, p := range f.table {
		switch {
		case p.begin < end:
			before := f.table[i-1]
			return fmt.Errorf("tensors %q (bytes %d to %d) and %q (bytes %d to %d) overlap: %w",
				f.text(before), before.begin, before.end, f.text(p), p.begin, p.end, format.ErrInvalid)
		case p.begin > end:
			return fmt.Errorf("tensor %q begins at byte %d, expected %d, where the one before it ends: %w", f.text(p), p.begin, end, format.ErrInvalid)
		}
		end = p.end
	}
	if end < len(f.data) {
		return fmt.Errorf("%d bytes of tensors, but the header describes %d: %w", len(f.data), end, format.ErrInvalid)
	}
	slices.SortFunc(f.table, func(a, b place) int {
		return f.header.At(int(a.key)).Compare(f.header.At(int(b.key)))
	})
	for i := 1; i < len(f.table); i++ {
		if f.key(i-1).Compare(f.key(i)) == 0 {
			return fmt.Errorf("header: tensor %q appears twice: %w", f.text(f.table[i]), format.ErrInvalid)
		}
	}
	return nil
}

func (f *File) text(p place) string {
	name, _ := f.header.At(int(p.key)).Text()
	return name
}
