package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/internal/lockfile"
)

// The hub's cache has a folder a model: blobs/HASH are contents, snapshots/
// COMMIT/ has the model's files as links to them, refs/NAME holds the commit of
// a branch or tag. Locks lie beside the models in .locks.
const hubPrefix = "models--"

// repoCache is one model of the hub's cache.
type repoCache struct{ dir, locks string }

// use is the lock that every pull of the model shares, and that removing it
// needs alone. The hub's own tools do not know it.
func (c repoCache) use() string { return filepath.Join(c.locks, "use.lock") }

// blobLock is held by who fetches or removes a content. The hub's own tools take
// it too, so the file stays when it is given back.
func (c repoCache) blobLock(id string) string { return filepath.Join(c.locks, id+".lock") }

// removeLocks deletes the locks of contents that are gone. The caller holds use,
// whose release deletes the last file.
func (c repoCache) removeLocks() error {
	entries, err := os.ReadDir(c.locks)
	for _, e := range entries {
		if e.Name() != filepath.Base(c.use()) {
			err = errors.Join(err, os.Remove(filepath.Join(c.locks, e.Name())))
		}
	}
	return err
}

// folderOf is the folder of a repository in the cache.
func folderOf(repo string) string { return hubPrefix + strings.ReplaceAll(repo, "/", "--") }

// Model is a model that is here.
type Model struct {
	Name string // that finds it again
	Path string // a GGUF file or a Hugging Face directory
	Size int64  // bytes
	ref  Ref    // with Select being the file, "" for a directory
	root string // the folder that its files lie in
	file []string
	refs []string // branches and tags of the hub that mean it
	old  bool     // a package has a newer version here

	local bool // it was not pulled: somebody put it here
}

// Format is the kind of the model's files.
func (m Model) Format() string {
	if path.Ext(m.Path) == ".gguf" {
		return "GGUF"
	}
	return "Hugging Face"
}

// List finds all models that are here, by name.
func (p *Puller) List() ([]Model, error) {
	out, err := p.listHub()
	if err != nil {
		return nil, err
	}
	packages, err := p.listPackages()
	if err != nil {
		return nil, err
	}
	local, err := p.listLocal()
	if err != nil {
		return nil, err
	}
	out = append(append(out, packages...), local...)
	slices.SortFunc(out, func(a, b Model) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return out, nil
}

// folders are the names of the folders in dir, none where there is no dir.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (p *Puller) listHub() ([]Model, error) {
	repos, err := folders(p.HubCache)
	if err != nil {
		return nil, err
	}
	var out []Model
	for _, folder := range repos {
		name, ok := strings.CutPrefix(folder, hubPrefix)
		if !ok {
			continue
		}
		c := p.cacheOf(folder)
		refs := c.refs()
		commits, err := folders(filepath.Join(c.dir, "snapshots"))
		if err != nil {
			return nil, err
		}
		for _, commit := range commits {
			r := Ref{Repo: strings.Replace(name, "--", "/", 1), Revision: commit[:min(8, len(commit))]}
			if names := refs[commit]; slices.Contains(names, mainRevision) {
				r.Revision = ""
			} else if len(names) > 0 {
				r.Revision = slices.Min(names)
			}
			models, err := modelsIn(filepath.Join(c.dir, "snapshots", commit), r)
			if err != nil {
				return nil, err
			}
			for i := range models {
				models[i].refs = refs[commit]
			}
			out = append(out, models...)
		}
	}
	return out, nil
}

func (p *Puller) cacheOf(folder string) repoCache {
	return repoCache{dir: filepath.Join(p.HubCache, folder), locks: filepath.Join(p.HubCache, ".locks", folder)}
}

// refs are the names of commits.
func (c repoCache) refs() map[string][]string {
	out := map[string][]string{}
	root := filepath.Join(c.dir, "refs")
	_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a name that cannot be read is none
		}
		commit, err := os.ReadFile(file)
		name, relErr := filepath.Rel(root, file)
		if err == nil && relErr == nil {
			at := strings.TrimSpace(string(commit))
			out[at] = append(out[at], filepath.ToSlash(name))
		}
		return nil
	})
	return out
}

// filesIn are the files below a folder, links followed; links that lead to no
// file are files that never came. enter says which folders below root to read.
func filesIn(root string, enter func(name string) bool) ([]remote, error) {
	var out []remote
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && !enter(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		out = append(out, remote{path: filepath.ToSlash(rel), size: info.Size()})
		return err
	})
	return out, err
}

// modelsIn are the models in one folder.
func modelsIn(root string, r Ref) ([]Model, error) {
	files, err := filesIn(root, func(string) bool { return true })
	return modelsOf(root, r, files), err
}

// modelsOf are the models that the files in one folder make.
func modelsOf(root string, r Ref, files []remote) []Model {
	var out []Model
	add := func(opens string, files []remote) {
		m := Model{ref: r, root: root, Path: filepath.Join(root, filepath.FromSlash(opens))}
		m.ref.Select = opens
		m.Name = m.ref.String()
		for _, f := range files {
			m.Size += f.size
			m.file = append(m.file, f.path)
		}
		out = append(out, m)
	}
	for _, d := range directories(files) {
		if d.path == "" || r.Package { // a repository of the hub is one directory
			add(d.path, d.files)
		}
	}
	for _, g := range ggufs(files) {
		// Of a split model all parts have to be there.
		var n int
		if m := splitName.FindStringSubmatch(g.first); m != nil {
			fmt.Sscan(m[3], &n)
		}
		if n == 0 || n == len(g.files) {
			add(g.first, g.files)
		}
	}
	return out
}

// Find is the model that a name means: as List spells it, without the owner, by
// quantization, or by the name of its file.
func (p *Puller) Find(name string) (Model, error) {
	all, err := p.List()
	if err != nil {
		return Model{}, err
	}
	var fit []Model
	ref, refErr := ParseRef(name)
	for _, m := range all {
		switch {
		case strings.EqualFold(m.Name, name):
			return m, nil
		case refErr == nil && m.is(ref), m.isFile(name):
			fit = append(fit, m)
		}
	}
	if dirs := slices.DeleteFunc(slices.Clone(fit), func(m Model) bool { return m.ref.Select != "" }); len(dirs) == 1 && ref.Select == "" {
		fit = dirs // a directory comes before the files in it
	}
	switch len(fit) {
	case 0:
		return Model{}, fmt.Errorf("%s: %w among the pulled models", name, ErrNotFound)
	case 1:
		return fit[0], nil
	}
	e := &ChoiceError{Name: name}
	for _, m := range fit {
		e.Choices = append(e.Choices, Choice{m.Name, m.Size})
	}
	return Model{}, e
}

// isFile reports whether a name is that of the model's GGUF file.
func (m Model) isFile(name string) bool {
	file, ok := strings.CutSuffix(filepath.Base(m.Path), ".gguf")
	return ok && strings.EqualFold(file, strings.TrimSuffix(name, ".gguf"))
}

// is reports whether a reference as people write it means the model.
func (m Model) is(r Ref) bool {
	repo, revision := m.ref.Repo, r.Revision
	if !strings.Contains(r.Repo, "/") {
		repo = path.Base(repo)
	}
	if revision == mainRevision {
		revision = ""
	}
	same := m.ref.Revision == revision || slices.Contains(m.refs, revision) || revision == "" && m.ref.Package && !m.old
	if len(revision) >= 7 && !r.Package { // a commit, perhaps shortened
		same = same || strings.HasPrefix(filepath.Base(m.root), revision)
	}
	kind := r.Package == m.ref.Package || m.ref.Package && !strings.Contains(r.Repo, "/")
	return kind && strings.EqualFold(repo, r.Repo) && same &&
		(r.Select == "" || r.Select == m.ref.Select || path.Base(m.ref.Select) == r.Select || m.ref.Select != "" && tagged(m.ref.Select, r.Select))
}

// Remove deletes a model that List or Find gave, but not what another model
// here shares with it. While a pull of it is under way it is ErrBusy.
func (p *Puller) Remove(ctx context.Context, m Model) error {
	if m.local {
		return p.removeLocal(m)
	}
	c := p.cacheOf(folderOf(m.ref.Repo))
	use := c.use()
	if m.ref.Package {
		use = p.packageLock(m.ref.Repo)
	}
	only, busy := context.WithCancelCause(ctx)
	defer busy(nil)
	held, err := lockfile.Wait(only, use, lockfile.Acquire, func(by *lockfile.HeldError) {
		busy(fmt.Errorf("%s: %w: %s", m.Name, ErrBusy, by.Holder))
	})
	if err != nil {
		return err
	}
	defer func() {
		held.Release()
		os.Remove(filepath.Dir(use)) // unless other locks are in it
	}()
	if m.ref.Package {
		return p.removePackage(m)
	}
	for _, name := range m.file {
		if err := os.Remove(filepath.Join(m.root, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	left, err := p.listHub()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(left, func(o Model) bool { return !o.ref.Package && o.ref.Repo == m.ref.Repo }) {
		return errors.Join(os.RemoveAll(c.dir), c.removeLocks())
	}
	return c.sweep(ctx)
}

// sweep deletes contents that no snapshot links to.
func (c repoCache) sweep(ctx context.Context) error {
	used := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(c.dir, "snapshots"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			var target string
			if target, err = os.Readlink(file); err == nil {
				used[filepath.Base(target)] = true
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	blobs := filepath.Join(c.dir, "blobs")
	entries, err := os.ReadDir(blobs)
	for _, e := range entries {
		if err != nil || used[e.Name()] {
			continue
		}
		var held *lockfile.Lock
		id := strings.TrimSuffix(e.Name(), partSuffix)
		if held, err = lockfile.Wait(ctx, c.blobLock(id), lockfile.Acquire, nil); err == nil {
			err = errors.Join(os.Remove(filepath.Join(blobs, e.Name())), held.Leave())
		}
	}
	return err
}

// link makes at a link to a content, relative, so that the cache can be moved.
func link(blob, at string) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(at), blob)
	if err != nil {
		return err
	}
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil
	}
	// Under another name first: who looks meanwhile sees the old link or the new.
	temp := tempName(at)
	if os.Symlink(target, temp) != nil {
		// Where there are no links, a second name for the content serves.
		if err := os.Link(blob, temp); err != nil {
			return err
		}
	}
	return os.Rename(temp, at)
}

// tempName is a name beside at that no other pull uses.
func tempName(at string) string { return fmt.Sprintf("%s.%016x.tmp", at, rand.Uint64()) }

// writeWhole writes a small file that appears at once.
func writeWhole(at string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return atomicfile.Replace(at, data)
}
