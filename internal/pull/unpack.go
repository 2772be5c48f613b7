package pull

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxEntries  = 100_000
	maxGrowth   = 20      // times an archive's size that its models may have
	someContent = 1 << 30 // bytes that they may have in any case
)

// unpackModels extracts the models in an archive, and nothing else, into a
// folder, while ctx lasts.
func unpackModels(ctx context.Context, archive, to string) error {
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	var files []remote
	err = walkArchive(archive, func(name string, size int64, _ io.Reader) error {
		files = append(files, remote{path: name, size: size})
		return nil
	})
	if err != nil {
		return err
	}
	wanted := map[string]int64{}
	var total int64
	for _, dir := range modelFolders(files) {
		for _, f := range modelFiles(files, dir) {
			if _, twice := wanted[f.path]; !twice {
				wanted[f.path] = f.size
				total += f.size
			}
		}
	}
	if len(wanted) == 0 {
		return fmt.Errorf("%s: %w: expected config.json with *.safetensors, or *.gguf", filepath.Base(archive), ErrNoModel)
	}
	if limit := max(someContent, maxGrowth*info.Size()); total > limit {
		return fmt.Errorf("%s: %d bytes of models in an archive of %d, expected at most %d", filepath.Base(archive), total, info.Size(), limit)
	}
	if free := freeSpace(to); free >= 0 && free < total {
		return fmt.Errorf("%s: %d MB are missing and %d MB free: %w", to, total>>20, free>>20, ErrSpace)
	}
	return walkArchive(archive, func(name string, size int64, r io.Reader) error {
		if _, ok := wanted[name]; !ok {
			return nil
		}
		delete(wanted, name) // a second entry of the name is none of ours
		return extract(filepath.Join(to, filepath.FromSlash(name)), size, &until{ctx, r})
	})
}

// modelFiles are the files of the models in one folder of an archive.
func modelFiles(files []remote, dir string) []remote {
	var inside []remote
	for _, f := range files {
		rel := f.path
		if dir != "." {
			var ok bool
			if rel, ok = strings.CutPrefix(f.path, dir+"/"); !ok {
				continue
			}
		}
		inside = append(inside, remote{path: rel, size: f.size})
	}
	var out []remote
	if d := directory(inside); slices.ContainsFunc(d, func(f remote) bool { return f.path == "config.json" || f.path == "modules.json" }) {
		out = append(out, d...)
	}
	for _, g := range ggufs(inside) {
		out = append(out, g.files...)
	}
	for i := range out {
		out[i].path = path.Join(dir, out[i].path)
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
		err = fmt.Errorf("%s: the archive says %d bytes, but holds others: %w", filepath.Base(at), size, ErrCorrupt)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// walkArchive visits the regular files of a wheel, zip or tar.gz. A name that
// leads out of the archive is an attack and ends the walk.
func walkArchive(archive string, visit func(name string, size int64, r io.Reader) error) error {
	n := 0
	checked := func(name string, size int64, r io.Reader) error {
		if n++; n > maxEntries {
			return fmt.Errorf("%s: more than %d files", filepath.Base(archive), maxEntries)
		}
		if !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsAny(name, "\\\x00") || size < 0 {
			return fmt.Errorf("%s: entry %q, expected a path within the archive: %w", filepath.Base(archive), name, ErrCorrupt)
		}
		return visit(name, size, r)
	}
	if strings.HasSuffix(archive, ".tar.gz") {
		return walkTar(archive, checked)
	}
	return walkZip(archive, checked)
}

func walkZip(archive string, visit func(name string, size int64, r io.Reader) error) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(archive), err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Base(archive), f.Name, err)
		}
		if err := errors.Join(visit(f.Name, int64(f.UncompressedSize64), r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func walkTar(archive string, visit func(name string, size int64, r io.Reader) error) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(archive), err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Nobody reads through more than there may be of content.
	for t := tar.NewReader(io.LimitReader(unzipped, 2*max(someContent, maxGrowth*info.Size()))); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(archive), err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := visit(path.Clean(h.Name), h.Size, t); err != nil {
			return err
		}
	}
}
