package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/format/gguf"
)

// Keys of a GGUF model that is split over several files.
const (
	splitCount = "split.count"
	splitNo    = "split.no"
	splitTotal = "split.tensors.count"
	maxParts   = 1024
)

// partName is how the files of a split model are called.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// ggufFile looks at a GGUF file as a part.
type ggufFile struct{ *gguf.File }

func (f ggufFile) Dims(name string) ([]int, bool) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, false
	}
	return t.Dims(), true
}

func (f ggufFile) Encoding(name string) string {
	t, _ := f.Tensor(name)
	return t.Type.String()
}

func (f ggufFile) Names() []string {
	tensors := f.Tensors()
	out := make([]string, len(tensors))
	for i, t := range tensors {
		out[i] = t.Name
	}
	slices.Sort(out)
	return out
}

// openGGUF opens s.path, a GGUF file or the first one of a split set.
func (s *Store) openGGUF() error {
	f, err := s.parseGGUF(s.path)
	if err != nil {
		return err
	}
	s.gguf, s.parts = f, []part{{file: ggufFile{f}}}
	n, err := f.IDOr(splitCount, 1)
	if err != nil || n <= 1 {
		return err
	}
	no, err := f.IDOr(splitNo, 0)
	if err != nil {
		return err
	}
	m := partName.FindStringSubmatch(filepath.Base(s.path))
	if m == nil {
		return fmt.Errorf("%s: one of %d files, expected a name that ends in -00001-of-%05d.gguf: %w", s.path, n, n, ErrInvalid)
	}
	name := func(i int) string {
		return filepath.Join(filepath.Dir(s.path), fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, n))
	}
	if count, _ := strconv.Atoi(m[3]); count != n || n > maxParts {
		return fmt.Errorf("%s: key %q: %d files, expected the %s of its name, and at most %d: %w", s.path, splitCount, n, m[3], maxParts, ErrInvalid)
	}
	if no != 0 {
		return fmt.Errorf("%s: part %d of %d, expected the first, %s: %w", s.path, no+1, n, filepath.Base(name(0)), ErrNotModel)
	}
	for i := 1; i < n; i++ {
		if err := s.joinGGUF(name(i), i, n); err != nil {
			return err
		}
	}
	got := len(f.Tensors())
	want, err := f.IDOr(splitTotal, got)
	if err == nil && want != got {
		err = fmt.Errorf("%s: key %q: %d, but its %d files have %d tensors: %w", s.path, splitTotal, want, n, got, ErrInvalid)
	}
	return err
}

// parseGGUF maps and reads a file.
func (s *Store) parseGGUF(path string) (*gguf.File, error) {
	m, err := s.mapFile(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix("GGUF", string(m.data[:min(4, len(m.data))])) {
		return nil, fmt.Errorf("%s: %w: expected a GGUF file or the directory of a Hugging Face model", path, ErrNotModel)
	}
	return gguf.Parse(path, m.data)
}

// joinGGUF adds the i-th of n files of a split model.
func (s *Store) joinGGUF(path string, i, n int) error {
	f, err := s.parseGGUF(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: one of %d files, but %s is missing: %w", s.path, n, filepath.Base(path), fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	for _, key := range []struct {
		name string
		want int
	}{{splitCount, n}, {splitNo, i}} {
		v, err := f.IDOr(key.name, 0)
		if err == nil && v != key.want {
			err = fmt.Errorf("%s: key %q: %d, expected %d: %w", path, key.name, v, key.want, ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
	return s.gguf.Join(f)
}
