package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
	unlock, err := lock(ctx, p.packageLock(ref.Repo), func() { p.note("%s: waiting for another pull", ref) })
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	archive, version, fetched, err := p.fetchPackage(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	if archive != "" {
		err := p.unpackPackage(ctx, ref, archive, version)
		if err = errors.Join(err, os.RemoveAll(filepath.Dir(archive))); err != nil {
			return Result{}, err
		}
	}
	wanted := ref
	wanted.Revision = version
	m, err := p.Find(wanted.String())
	if err != nil {
		return Result{}, err
	}
	return Result{m.Name, m.Path, m.Size, fetched}, nil
}

// fetchPackage brings the archive of a package, in a folder of its own; none
// where that version is here.
func (p *Puller) fetchPackage(ctx context.Context, ref Ref) (archive, version string, fetched int64, err error) {
	if p.Index == "" {
		return p.pipDownload(ctx, ref)
	}
	r, err := p.findRelease(ctx, ref)
	if err != nil {
		return "", "", 0, err
	}
	if exists(p.packageDir(ref.Repo, r.version)) {
		return "", r.version, 0, nil
	}
	f := &file{url: r.url, name: r.name, size: r.size, sha256: r.sha256}
	if f.size < 0 {
		if f.size, err = p.sizeOf(ctx, f); err != nil {
			return "", "", 0, fmt.Errorf("%s: %w", ref, err)
		}
	}
	dir := filepath.Join(p.Packages, ".downloads", r.sha256)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", 0, err
	}
	if err := p.checkSpace(dir, 2*f.size); err != nil { // the archive and what is in it
		return "", "", 0, err
	}
	event := Event{Total: f.size}
	n, err := p.fetch(ctx, f, filepath.Join(dir, r.name), func(n int64) {
		p.tell(func() Event { event.Done += n; return event })
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", ref, err)
	}
	return filepath.Join(dir, r.name), r.version, n, err
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
func (p *Puller) pipDownload(ctx context.Context, ref Ref) (archive, version string, fetched int64, err error) {
	python, err := exec.LookPath(p.Python)
	if err != nil {
		return "", "", 0, fmt.Errorf("%s: no index of packages is configured and %s is not here to ask pip: set PIP_INDEX_URL", ref, p.Python)
	}
	dir, err := os.MkdirTemp(p.Packages, ".download-")
	if err != nil {
		return "", "", 0, err
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
			return "", "", 0, context.Cause(ctx)
		}
		return "", "", 0, fmt.Errorf("%s: pip could not download it: %s", ref, lastLine(out, err))
	}
	found, err := fs.Glob(os.DirFS(dir), "*.whl")
	r := release{}
	if err == nil && (len(found) != 1 || func() bool { r.name = found[0]; return !r.parse(ref.Repo) }()) {
		err = fmt.Errorf("%s: pip left %d wheels, expected the one of the package", ref, len(found))
	}
	if err != nil {
		return "", "", 0, err
	}
	if exists(p.packageDir(ref.Repo, r.version)) {
		return "", r.version, 0, os.RemoveAll(dir)
	}
	wheel := filepath.Join(dir, found[0])
	info, err := os.Stat(wheel)
	if err != nil {
		return "", "", 0, err
	}
	return wheel, r.version, info.Size(), nil
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
	if !revision.MatchString(version) || !filepath.IsLocal(version) || strings.ContainsAny(version, `/\`) {
		return fmt.Errorf("%s: version %q, expected one that can be a folder", ref, version)
	}
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
	root := p.packageDir(name, version)
	files, err := filesIn(root)
	if err != nil {
		return nil, err
	}
	var out []Model
	for _, dir := range modelFolders(files) {
		models, err := modelsIn(filepath.Join(root, filepath.FromSlash(dir)), Ref{Package: true, Repo: name, Revision: version})
		if err != nil {
			return nil, err
		}
		for _, m := range models {
			if m.ref.Select = path.Join(dir, m.ref.Select); m.ref.Select == "." {
				m.ref.Select = ""
			}
			if !slices.ContainsFunc(out, func(o Model) bool { return o.Path == m.Path }) {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// modelFolders are the folders that files of models lie in.
func modelFolders(files []remote) []string {
	var out []string
	for _, f := range files {
		dir, name := path.Split(f.path)
		if dir = path.Clean(dir); (name == "config.json" || name == "modules.json" || path.Ext(name) == ".gguf") && !moduleName.MatchString(path.Base(dir)) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
