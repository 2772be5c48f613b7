package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/lockfile"
)

// pullPackage fetches a package and unpacks the models in it.
func (p *Puller) pullPackage(ctx context.Context, ref Ref) (Result, error) {
	if ref.Revision != "" { // a version never changes
		if m, err := p.Find(ref.String()); err == nil {
			return Result{m.Name, m.Path, m.Size, 0}, nil
		}
	}
	if err := os.MkdirAll(p.Packages, 0o755); err != nil {
		return Result{}, err
	}
	held, err := p.wait(ctx, ref.String(), p.packageLock(ref.Repo), lockfile.Acquire)
	if err != nil {
		return Result{}, err
	}
	defer held.Release()
	got, err := p.fetchPackage(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	if got.dir != "" {
		err := p.unpackPackage(ctx, ref, filepath.Join(got.dir, got.name), got.version)
		if err = errors.Join(err, os.RemoveAll(got.dir)); err != nil {
			return Result{}, err
		}
	}
	wanted := ref
	wanted.Revision = got.version
	m, err := p.Find(wanted.String())
	if err != nil {
		return Result{}, err
	}
	return Result{m.Name, m.Path, m.Size, got.fetched}, nil
}

// archive is a package as it was fetched.
type archive struct {
	dir     string // made for it alone; "" where that version was here already
	name    string // of its file in dir
	version string
	fetched int64 // bytes
}

// fetchPackage brings the archive of a package into a folder of its own.
func (p *Puller) fetchPackage(ctx context.Context, ref Ref) (archive, error) {
	if p.Index == "" {
		return p.pipDownload(ctx, ref)
	}
	r, err := p.findRelease(ctx, ref)
	if err != nil {
		return archive{}, err
	}
	if exists(p.packageDir(ref.Repo, r.version)) {
		return archive{version: r.version}, nil
	}
	f := &file{url: r.url, name: r.name, size: r.size, sha256: r.sha256}
	if f.size < 0 {
		if f.size, err = p.sizeOf(ctx, f); err != nil {
			return archive{}, fmt.Errorf("%s: %w", ref, err)
		}
	}
	// Under the package's name, because its lock guards the folder: another
	// package may have a file of the same content.
	dir := filepath.Join(p.Packages, ".downloads", ref.Repo+"-"+r.sha256)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return archive{}, err
	}
	if err := p.checkSpace(dir, plus(f.size, f.size)); err != nil { // the archive and what is in it
		return archive{}, err
	}
	event := Event{Total: f.size}
	n, err := p.fetch(ctx, f, filepath.Join(dir, r.name), func(n int64) {
		p.tell(func() Event { event.Done += n; return event })
	})
	if err != nil {
		return archive{}, fmt.Errorf("%s: %w", ref, err)
	}
	return archive{dir, r.name, r.version, n}, nil
}

// sizeOf asks how long a file is.
func (p *Puller) sizeOf(ctx context.Context, f *file) (size int64, err error) {
	err = p.retry(ctx, func() (bool, error) {
		resp, err := p.do(ctx, "HEAD", f.url, f.header)
		if err != nil {
			return false, err
		}
		resp.Body.Close()
		if size = resp.ContentLength; size < 0 {
			return false, permanent{fmt.Errorf("%s: the server does not say how long it is", f.name)}
		}
		return false, nil
	})
	return size, err
}

// pipDownload leaves the download to pip, which knows the index that this
// machine uses and checks its hashes. Wheels only: pip would run the code of
// other packages.
func (p *Puller) pipDownload(ctx context.Context, ref Ref) (got archive, err error) {
	python, err := exec.LookPath(p.Python)
	if err != nil {
		return archive{}, fmt.Errorf("%s: no index of packages is configured, and %s, which would run pip, is not installed: set PIP_INDEX_URL", ref, p.Python)
	}
	dir, err := os.MkdirTemp(p.Packages, ".download-")
	if err != nil {
		return archive{}, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	spec := ref.Repo
	if ref.Revision != "" {
		spec += "==" + ref.Revision
	}
	p.note("%s: downloading with pip", ref)
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-input", "--no-deps", "--only-binary", ":all:", "--dest", dir, spec)
	out, err := cmd.CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			return archive{}, context.Cause(ctx)
		}
		return archive{}, fmt.Errorf("%s: pip could not download it: %s", ref, lastLine(out, err))
	}
	found, err := fs.Glob(os.DirFS(dir), "*.whl")
	r := release{}
	if err == nil && (len(found) != 1 || func() bool { r.name = found[0]; return !r.parse(ref.Repo) }()) {
		err = fmt.Errorf("%s: pip left %d wheels, expected the one of the package", ref, len(found))
	}
	if err != nil {
		return archive{}, err
	}
	if exists(p.packageDir(ref.Repo, r.version)) {
		return archive{version: r.version}, os.RemoveAll(dir)
	}
	wheel := filepath.Join(dir, found[0])
	info, err := os.Stat(wheel)
	if err != nil {
		return archive{}, err
	}
	return archive{dir, r.name, r.version, info.Size()}, nil
}

// lastLine is what a program said last, or how it ended.
func lastLine(out []byte, err error) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}

// packageLock is held by who fetches or removes a package.
func (p *Puller) packageLock(name string) string {
	return filepath.Join(p.Packages, ".locks", name+".lock")
}

func (p *Puller) packageDir(name, version string) string {
	return filepath.Join(p.Packages, name, version)
}

// unpackPackage puts the models of an archive into their place.
func (p *Puller) unpackPackage(ctx context.Context, ref Ref, archive, version string) error {
	final := p.packageDir(ref.Repo, version)
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(final), ".unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := unpackModels(ctx, archive, temp); err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	return os.Rename(temp, final)
}

// listPackages are the models of unpacked packages.
func (p *Puller) listPackages() ([]Model, error) {
	names, err := folders(p.Packages)
	if err != nil {
		return nil, err
	}
	var out []Model
	for _, name := range names {
		versions, err := folders(filepath.Join(p.Packages, name))
		if err != nil {
			return nil, err
		}
		versions = slices.DeleteFunc(versions, hidden)
		slices.SortFunc(versions, compareVersions)
		for _, version := range versions {
			if hidden(name) {
				continue
			}
			models, err := p.inPackage(name, version)
			if err != nil {
				return nil, err
			}
			for i := range models {
				m := &models[i]
				if len(models) == 1 {
					m.ref.Select = ""
				}
				named := m.ref
				if m.old = version != versions[len(versions)-1]; !m.old { // the newest goes without saying
					named.Revision = ""
				}
				m.Name = named.String()
			}
			out = append(out, models...)
		}
	}
	return out, nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// inPackage are the models of one version of a package.
func (p *Puller) inPackage(name, version string) ([]Model, error) {
	return modelsIn(p.packageDir(name, version), Ref{Package: true, Repo: name, Revision: version})
}

// removePackage deletes a model of a package, and what is left without one.
func (p *Puller) removePackage(m Model) error {
	for _, name := range m.file {
		if err := os.Remove(filepath.Join(m.root, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	dir := p.packageDir(m.ref.Repo, m.ref.Revision)
	if left, err := p.inPackage(m.ref.Repo, m.ref.Revision); err != nil || len(left) > 0 {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if left, err := folders(filepath.Dir(dir)); err == nil && len(left) == 0 {
		return os.RemoveAll(filepath.Dir(dir))
	}
	return nil
}
