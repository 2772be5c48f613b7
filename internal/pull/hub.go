package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"hotpath/internal/lockfile"
)

const (
	maxInfo      = 64 << 20 // bytes of the hub's description of a model
	mainRevision = "main"
)

// remote is a file of a model on the hub.
type remote struct {
	path string
	size int64 // -1 where the hub did not say
	file file
}

// repository is what the hub says about a model.
type repository struct {
	commit string
	files  []remote
}

// describe asks the hub what a model consists of.
func (p *Puller) describe(ctx context.Context, ref Ref) (repository, error) {
	rev := ref.Revision
	if rev == "" {
		rev = mainRevision
	}
	address := fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", p.Endpoint, ref.Repo, url.PathEscape(rev))
	body, _, _, err := p.get(ctx, address, p.hubHeader(), maxInfo)
	if err != nil {
		return repository{}, p.explain(ref, err)
	}
	var r repository
	err = eachOf(ctx, body, "siblings", func(dec *json.Decoder) error {
		f, err := sibling(dec)
		if r.files = append(r.files, f); len(r.files) > maxEntries {
			err = fmt.Errorf("more than %d files", maxEntries)
		}
		return err
	}, func(key string, value json.RawMessage) error {
		if key != "sha" {
			return nil
		}
		return json.Unmarshal(value, &r.commit)
	})
	if err != nil {
		return repository{}, fmt.Errorf("%s: %s: expected the description of a model: %w", ref, p.Endpoint, err)
	}
	if !hashName(r.commit, 7, 64) {
		return repository{}, fmt.Errorf("%s: field sha: %.60q, expected a commit", ref, r.commit)
	}
	return r, nil
}

// sibling reads what the hub says of one file.
func sibling(dec *json.Decoder) (remote, error) {
	var s struct {
		Name   string `json:"rfilename"`
		Size   *int64 `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	}
	if err := dec.Decode(&s); err != nil {
		return remote{}, err
	}
	if !localPath(s.Name) {
		return remote{}, fmt.Errorf("field rfilename: %.60q, expected a path within the model", s.Name)
	}
	f := remote{path: s.Name, size: -1}
	if s.Size != nil {
		f.size = *s.Size
	}
	f.file = file{name: s.Name, git: s.BlobID}
	if s.LFS != nil {
		f.file.sha256, f.size = s.LFS.SHA256, s.LFS.Size
	}
	f.file.size = f.size
	return f, nil
}

// resolve is the address of a file.
func (p *Puller) resolve(repo, commit, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return fmt.Sprintf("%s/%s/resolve/%s/%s", p.Endpoint, repo, commit, strings.Join(parts, "/"))
}

// explain says what an error of the hub means for who asked.
func (p *Puller) explain(ref Ref, err error) error {
	var s *statusError
	if !errors.As(err, &s) {
		return fmt.Errorf("%s: %w", ref, err)
	}
	page := p.Endpoint + "/" + ref.Repo
	switch {
	case s.code == "GatedRepo" || s.status == http.StatusForbidden:
		return fmt.Errorf("%s: %w: its owners ask for an agreement: see %s, then set HF_TOKEN", ref, ErrDenied, page)
	case s.code == "RevisionNotFound":
		return fmt.Errorf("%s: revision %q: %w", ref, ref.Revision, ErrNotFound)
	case s.status == http.StatusUnauthorized && p.Token != "":
		return fmt.Errorf("%s: %w: there is no such model at %s, or HF_TOKEN may not see it", ref, ErrDenied, p.Endpoint)
	case s.status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w: there is no such model at %s, or it is private: then set HF_TOKEN", ref, ErrDenied, p.Endpoint)
	case s.status == http.StatusNotFound:
		return fmt.Errorf("%s: %w at %s", ref, ErrNotFound, p.Endpoint)
	}
	return fmt.Errorf("%s: %w", ref, err)
}

// pullHub fetches a model of the hub into its cache.
func (p *Puller) pullHub(ctx context.Context, ref Ref) (Result, error) {
	r, err := p.describe(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	chosen, err := choose(ref, r.files)
	if err != nil {
		return Result{}, err
	}
	c := repoCache{dir: filepath.Join(p.HubCache, folderOf(ref.Repo)), locks: filepath.Join(p.HubCache, ".locks", folderOf(ref.Repo))}
	for i := range chosen.files {
		f := &chosen.files[i]
		f.file.url, f.file.header = p.resolve(ref.Repo, r.commit, f.path), p.hubHeader()
		if err := p.complete(ctx, f); err != nil {
			return Result{}, p.explain(ref, err)
		}
	}
	held, err := p.wait(ctx, ref.String(), c.use(), lockfile.AcquireShared)
	if err != nil {
		return Result{}, err
	}
	defer held.Release()
	fetched, err := p.fetchAll(ctx, c, chosen.files)
	if err != nil {
		return Result{}, p.explain(ref, err)
	}
	snapshot := filepath.Join(c.dir, "snapshots", r.commit)
	var size int64
	for _, f := range chosen.files {
		size += f.size
		if err := link(filepath.Join(c.dir, "blobs", f.file.id()), filepath.Join(snapshot, filepath.FromSlash(f.path))); err != nil {
			return Result{}, err
		}
	}
	rev := ref.Revision
	if rev == "" {
		rev = mainRevision
	}
	if rev != r.commit { // a commit names itself
		if err := writeWhole(filepath.Join(c.dir, "refs", filepath.FromSlash(rev)), []byte(r.commit)); err != nil {
			return Result{}, err
		}
	}
	at := snapshot
	if chosen.opens != "" {
		at = filepath.Join(snapshot, filepath.FromSlash(chosen.opens))
	}
	named := ref
	named.Select = chosen.opens
	return Result{Name: named.String(), Path: at, Size: size, Bytes: fetched}, nil
}

// complete asks for the size and hash of a file where the hub's description had
// none.
func (p *Puller) complete(ctx context.Context, f *remote) error {
	if f.size >= 0 && (hashName(f.file.sha256, 64, 64) || f.file.sha256 == "" && hashName(f.file.git, 40, 40)) {
		return nil
	}
	return p.retry(ctx, func() (bool, error) {
		link := &linked{}
		resp, err := p.do(context.WithValue(ctx, linkedKey{}, link), http.MethodHead, f.file.url, f.file.header)
		if err != nil {
			return false, err
		}
		resp.Body.Close()
		tag, size := resp.Header.Get("ETag"), resp.ContentLength
		if h := resp.Header; h.Get("X-Linked-ETag") != "" {
			link.header = h
		}
		if t := link.header.Get("X-Linked-ETag"); t != "" {
			tag = t
			if _, err := fmt.Sscan(link.header.Get("X-Linked-Size"), &size); err != nil {
				return false, permanent{fmt.Errorf("%s: X-Linked-Size: %w", f.file.name, err)}
			}
		}
		f.file.sha256, f.file.git = "", ""
		switch tag = plainTag(tag); {
		case hashName(tag, 64, 64):
			f.file.sha256 = tag
		case hashName(tag, 40, 40):
			f.file.git = tag
		default:
			return false, permanent{fmt.Errorf("%s: ETag %.80q, expected a hash", f.file.name, tag)}
		}
		if size < 0 {
			return false, permanent{fmt.Errorf("%s: the server does not say how long it is", f.file.name)}
		}
		f.size, f.file.size = size, size
		return false, nil
	})
}

// fetchAll brings the content of files into the cache, several at a time, and
// counts the bytes that came.
func (p *Puller) fetchAll(ctx context.Context, c repoCache, files []remote) (int64, error) {
	blobs := filepath.Join(c.dir, "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return 0, err
	}
	var todo []*file
	var event Event
	var missing int64
	seen := map[string]bool{} // two files may have the same content
	for i := range files {
		f := &files[i].file
		if blob := filepath.Join(blobs, f.id()); seen[f.id()] || exists(blob) {
			continue
		} else if info, err := os.Stat(blob + partSuffix); err == nil {
			missing -= info.Size()
		}
		seen[f.id()] = true
		todo = append(todo, f)
		event.Total = plus(event.Total, f.size)
		missing = plus(missing, f.size)
	}
	if err := p.checkSpace(blobs, missing); err != nil {
		return 0, err
	}
	add := func(n int64) {
		p.tell(func() Event { event.Done += n; return event })
	}
	var fetched atomic.Int64
	err := each(ctx, p.Parallel, todo, func(ctx context.Context, f *file) error {
		held, err := p.wait(ctx, f.name, c.blobLock(f.id()), lockfile.Acquire)
		if err != nil {
			return err
		}
		defer held.Leave()
		blob := filepath.Join(blobs, f.id())
		if exists(blob) { // who held the lock has fetched it
			add(f.size)
			return nil
		}
		n, err := p.fetch(ctx, f, blob, add)
		fetched.Add(n)
		return err
	})
	return fetched.Load(), err
}

// checkSpace refuses a download that the disk has no room for.
func (p *Puller) checkSpace(dir string, need int64) error {
	const reserve = 64 << 20 // bytes that stay free
	if free := freeSpace(dir); free >= 0 && need > 0 && free < plus(need, reserve) {
		return fmt.Errorf("%s: %.1f MB to write and %d MB to leave free, but %.1f MB free: %w",
			dir, float64(need)/(1<<20), reserve>>20, float64(free)/(1<<20), ErrSpace)
	}
	return nil
}

// plus adds sizes that a server said, which may be any.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// wait takes a lock, and tells people for whom it has to wait.
func (p *Puller) wait(ctx context.Context, what, path string, take func(string) (*lockfile.Lock, error)) (*lockfile.Lock, error) {
	return lockfile.Wait(ctx, path, take, func(by *lockfile.HeldError) { p.note("%s: waiting for %s", what, by.Holder) })
}

// each does work on all items, at most n at a time. The first error ends it.
func each[T any](ctx context.Context, n int, items []T, work func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, n)
	var all sync.WaitGroup
	for _, item := range items {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := work(ctx, item); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
