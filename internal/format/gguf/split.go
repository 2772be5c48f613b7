package gguf

import (
	"fmt"

	"hotpath/internal/format"
)

// Join makes the tensors of a split model's other files tensors of f, its first
// one, which has the metadata. It must come before anybody else uses f. A tensor
// that two files have is an error.
func (f *File) Join(others ...*File) error {
	for _, o := range others {
		for _, t := range o.tensors {
			if holder, dup := f.holder(t.Name); dup {
				return fmt.Errorf("%s: tensor %q is in %s too: %w", o.name, t.Name, holder.name, format.ErrInvalid)
			}
		}
		if f.holders == nil {
			f.holders = make(map[string]*File)
		}
		for _, t := range o.tensors {
			f.holders[t.Name] = o
		}
		f.parts = append(f.parts, o)
	}
	return nil
}

// holder is the file of a split model that has a tensor.
func (f *File) holder(name string) (*File, bool) {
	if _, ok := f.index[name]; ok {
		return f, true
	}
	p, ok := f.holders[name]
	return p, ok
}
