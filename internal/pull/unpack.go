package pull

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	maxEntries   = 100_000
	maxDirectory = 16 << 20 // bytes of a zip's list of entries
	maxGrowth    = 20       // times an archive's size that its models may have
	someContent  = 1 << 30  // bytes that they may have in any case
)

// visit is called for each regular file of an archive. open gives its content.
type visit func(name string, size int64, open func() (io.ReadCloser, error)) error

// unpackModels extracts the models in an archive, and nothing else, into a
// folder, while ctx lasts.
func unpackModels(ctx context.Context, archive, to string) error {
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	var files []remote
	err = walkArchive(ctx, archive, func(name string, size int64, _ func() (io.ReadCloser, error)) error {
		files = append(files, remote{path: name, size: size})
		return nil
	})
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	var total int64
	for _, f := range modelFiles(files) {
		if !wanted[f.path] {
			wanted[f.path] = true
			total = plus(total, f.size)
		}
	}
	if len(wanted) == 0 {
		return fmt.Errorf("%s: %w: expected config.json with *.safetensors, or *.gguf", filepath.Base(archive), ErrNoModel)
	}
	if limit := max(someContent, maxGrowth*info.Size()); total > limit {
		return fmt.Errorf("%s: %d bytes of models in an archive of %d, expected at most %d", filepath.Base(archive), total, info.Size(), limit)
	}
	if free := freeSpace(to); free >= 0 && free < total {
		return fmt.Errorf("%s: %d MB to write, but %d MB free: %w", to, total>>20, free>>20, ErrSpace)
	}
	return walkArchive(ctx, archive, func(name string, size int64, open func() (io.ReadCloser, error)) error {
		if !wanted[name] {
			return nil
		}
		delete(wanted, name) // a second entry of the name is none of ours
		r, err := open()
		if err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Base(archive), name, err)
		}
		err = extract(filepath.Join(to, filepath.FromSlash(name)), size, &until{ctx, r})
		return errors.Join(err, r.Close())
	})
}

// modelFiles are the files of all models among files; some may be there twice.
func modelFiles(files []remote) []remote {
	var out []remote
	for _, d := range directories(files) {
		out = append(out, d.files...)
	}
	for _, g := range ggufs(files) {
		out = append(out, g.files...)
	}
	return out
}

// extract writes one file of exactly the size that the archive says.
func extract(at string, size int64, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("%s: the archive announces %d bytes, but its content differs: %w", filepath.Base(at), size, ErrCorrupt)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// walkArchive visits the regular files of a wheel, zip or tar.gz while ctx
// lasts. A name that leads out of the archive is an attack and ends the walk.
func walkArchive(ctx context.Context, archive string, see visit) error {
	n := 0
	counted := func() error {
		if n++; n > maxEntries {
			return fmt.Errorf("%s: more than %d entries", filepath.Base(archive), maxEntries)
		}
		return context.Cause(ctx)
	}
	checked := func(name string, size int64, open func() (io.ReadCloser, error)) error {
		if !localPath(name) || size < 0 {
			return fmt.Errorf("%s: entry %.200q, expected a path within the archive: %w", filepath.Base(archive), name, ErrCorrupt)
		}
		return see(name, size, open)
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	walk := walkZip
	if strings.HasSuffix(archive, ".tar.gz") {
		walk = walkTar
	}
	return walk(ctx, f, info.Size(), counted, checked)
}

func walkZip(_ context.Context, f *os.File, size int64, counted func() error, see visit) error {
	bounded := &boundedAt{ReaderAt: f, left: maxDirectory}
	z, err := zip.NewReader(bounded, size)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(f.Name()), err)
	}
	bounded.left = math.MaxInt64 // contents have bounds of their own
	for _, e := range z.File {
		if err := counted(); err != nil {
			return err
		}
		if !e.Mode().IsRegular() {
			continue
		}
		if err := see(e.Name, int64(e.UncompressedSize64), e.Open); err != nil {
			return err
		}
	}
	return nil
}

// boundedAt reads so many bytes and no more. The list of entries becomes memory
// while it is read, whatever number of entries the archive says it has.
type boundedAt struct {
	io.ReaderAt
	left int64
}

func (b *boundedAt) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("a list of entries of more than %d bytes: %w", maxDirectory, ErrCorrupt)
	}
	return b.ReaderAt.ReadAt(p, at)
}

func walkTar(ctx context.Context, f *os.File, size int64, counted func() error, see visit) error {
	unzipped, err := gzip.NewReader(&until{ctx, f})
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(f.Name()), err)
	}
	// Nobody reads through more than there may be of content.
	for t := tar.NewReader(io.LimitReader(unzipped, 2*max(someContent, maxGrowth*size))); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(f.Name()), err)
		}
		if err := counted(); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := see(path.Clean(h.Name), h.Size, func() (io.ReadCloser, error) { return io.NopCloser(t), nil }); err != nil {
			return err
		}
	}
}
