package safetensors

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"hotpath/internal/format"
)

// Stream is a file whose header is written and whose tensors come one by one,
// in any order.
type Stream struct {
	out  io.WriterAt
	left map[string]span // tensors that have not come
}

type span struct {
	begin int64 // in the file
	size  int   // bytes
}

// Stream writes the header, with a place for every tensor; those added with
// their data are written too. What it makes is a file only when Close succeeds.
func (w *Writer) Stream(out io.WriterAt) (*Stream, error) {
	sorted := w.sorted()
	head, err := w.header(sorted)
	if err != nil {
		return nil, err
	}
	if _, err := out.WriteAt(head, 0); err != nil {
		return nil, err
	}
	s := &Stream{out: out, left: map[string]span{}}
	at := int64(len(head))
	for _, t := range sorted {
		s.left[t.name] = span{at, t.size}
		at += int64(t.size)
		if t.data != nil {
			if err := s.Put(t.name, t.data); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Put writes the data of a tensor to its place. data may be used again after it
// returns.
func (s *Stream) Put(name string, data []byte) error {
	p, ok := s.left[name]
	if !ok || len(data) != p.size {
		return fmt.Errorf("tensor %q: %d bytes came, expected %d of a tensor that has a place and no data: %w", name, len(data), p.size, format.ErrInvalid)
	}
	delete(s.left, name)
	_, err := s.out.WriteAt(data, p.begin)
	return err
}

// Close fails if a tensor has not come. It leaves the file open.
func (s *Stream) Close() error {
	if len(s.left) > 0 {
		return fmt.Errorf("tensor %q: its data never came: %w", slices.Min(slices.Collect(maps.Keys(s.left))), format.ErrInvalid)
	}
	return nil
}
