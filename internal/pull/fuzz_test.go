package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fuzzMemory is how many bytes reading something small may allocate: a
// decompressor and its windows, and not what a field of the input claims.
const fuzzMemory = 64 << 20

// everything lists what lies below a folder.
func everything(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = info.Size()
			if m := info.Mode(); !m.IsRegular() && !m.IsDir() {
				t.Fatalf("%s is %v", path, m)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzUnpack: whatever an archive holds, nothing lands outside of the folder,
// nothing but plain files lands in it, and neither memory nor disk is spent on
// what only a field claims.
func FuzzUnpack(f *testing.F) {
	f.Add(zipOf(f, holder...), false)
	f.Add(tarOf(f, holder...), true)
	f.Add(zipOf(f, entry{"../x.gguf", "x"}), false)
	f.Add(tarOf(f, entry{"/x.gguf", "x"}, entry{"x", "link:/etc"}, entry{"x/y.gguf", "z"}), true)
	f.Add(tarOf(f, entry{"x", "link:../.."}, entry{"x/in.gguf", "z"}), true)
	f.Add(zipOf(f, entry{"a.gguf", "x"}, entry{"a.gguf", "y"}, entry{"a.gguf/b.gguf", "z"}), false)
	f.Add(zipOf(f, entry{"m.gguf", strings.Repeat("\x00", 1<<20)}), false)
	f.Add(tarOf(f, entry{"m.gguf", strings.Repeat("\x00", 1<<20)}), true)
	f.Add(manyEntries(1000), false)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if len(data) > 1<<20 {
			return
		}
		dir := t.TempDir()
		archive, to := filepath.Join(dir, "a.whl"), filepath.Join(dir, "in", "to")
		if isTar {
			archive = filepath.Join(dir, "a.tar.gz")
		}
		if err := errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(archive, data, 0o644)); err != nil {
			t.Fatal(err)
		}
		// Enough looks for all entries, not for a bomb of a gigabyte.
		ctx := newUntilSteps(5000)
		var err error
		if got := allocated(func() { err = unpackModels(ctx, archive, to) }); got > fuzzMemory {
			t.Fatalf("%d bytes of memory for an archive of %d (%v)", got, len(data), err)
		}
		var disk int64
		for path, size := range everything(t, dir) {
			switch inside := strings.HasPrefix(path, to+string(filepath.Separator)); {
			case inside:
				disk += size
			case path != dir && path != archive && path != filepath.Dir(to) && path != to:
				t.Fatalf("%s lies outside of the folder (%v)", path, err)
			}
		}
		if disk > someContent+int64(len(data)) {
			t.Fatalf("%d bytes on the disk from an archive of %d (%v)", disk, len(data), err)
		}
	})
}

// FuzzIndex: whatever a page of an index says, the file that is picked has a
// bare name and a version that can be a folder, and is of the package.
func FuzzIndex(f *testing.F) {
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, name := range []string{"my_pkg-1.0-py3-none-any.whl", "my_pkg-1.0-py3-none/../../x-any.whl", "my-pkg-..tar.gz", "my-pkg-1.zip", `my_pkg-1-a-b\..-any.whl`} {
		f.Add(fmt.Appendf(nil, `{"meta":{},"files":[{"filename":%q,"url":"../x","size":5,"hashes":{"sha256":"%s"},"yanked":false}]}`, name, hash), true)
		f.Add(fmt.Appendf(nil, "<html><a href=\"../x#sha256=%s\">%s</a><A \nHREF='' data-yanked>&amp;</A>", hash, name), false)
	}
	f.Fuzz(func(t *testing.T, page []byte, isJSON bool) {
		if len(page) > 1<<20 {
			return
		}
		pick := picker{ref: Ref{Package: true, Repo: "my-pkg"}}
		got := allocated(func() {
			if isJSON {
				_ = jsonReleases(t.Context(), page, pick.offer)
			} else {
				_ = htmlReleases(t.Context(), string(page), pick.offer)
			}
		})
		if got > fuzzMemory {
			t.Fatalf("%d bytes of memory for a page of %d", got, len(page))
		}
		r := pick.best
		if r.name == "" {
			return
		}
		for _, s := range []string{r.name, r.version} {
			if at := filepath.Join("/top/in", s); filepath.Dir(at) != "/top/in" || filepath.Base(at) != s || strings.ContainsAny(s, "/\\\x00\n\x1b") {
				t.Fatalf("%q is no bare name", s)
			}
		}
		if normalName(r.name[:len("my-pkg")]) != "my-pkg" {
			t.Fatalf("%q is no file of my-pkg", r.name)
		}
	})
}

// answering is a server without a network.
type answering func(r *http.Request) (status int, body []byte)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	length := int64(len(body))
	if r.Method == http.MethodHead {
		body = nil
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: length, Request: r}, nil
}

// FuzzHub: whatever the hub says of a model, nothing lands outside of its
// folder, and no request leaves the hub's host with names that were not escaped.
func FuzzHub(f *testing.F) {
	f.Add([]byte(`{"sha":"` + testCommit + `","siblings":[{"rfilename":"m.gguf","size":5,"blobId":"` + gitOf([]byte("hello")) + `"}]}`))
	f.Add([]byte(`{"sha":"` + testCommit + `","siblings":[{"rfilename":"../m.gguf","size":-5},{"rfilename":"a/b.gguf","lfs":{"sha256":"../x","size":1}}]}`))
	f.Add([]byte(`{"sha":"../x","siblings":[{}],"siblings":[[]]}`))
	f.Fuzz(func(t *testing.T, page []byte) {
		if len(page) > 1<<16 {
			return
		}
		dir := t.TempDir()
		p := &Puller{Endpoint: "http://hub.invalid", HubCache: filepath.Join(dir, "hub"), Packages: filepath.Join(dir, "packages"), Retries: 1, Backoff: 1}
		p.client = &http.Client{Transport: answering(func(r *http.Request) (int, []byte) {
			if r.URL.Host != "hub.invalid" {
				t.Fatalf("%s was asked", r.URL)
			}
			if strings.HasPrefix(r.URL.Path, "/api/") {
				return http.StatusOK, page
			}
			return http.StatusOK, []byte("hello")
		}), CheckRedirect: checkRedirect}
		p.turn = &sync.Mutex{}
		r, err := p.Pull(context.Background(), Ref{Repo: "org/model"})
		root := filepath.Join(dir, "hub") + string(filepath.Separator)
		if err == nil && !strings.HasPrefix(r.Path, root) {
			t.Fatalf("%s", r.Path)
		}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir || path+string(filepath.Separator) == root {
				return err
			}
			if !strings.HasPrefix(path, root+"models--org--model") && !strings.HasPrefix(path, root+".locks") {
				t.Fatalf("%s lies outside of the model's folder", path)
			}
			if d.Type()&fs.ModeSymlink != 0 {
				if to, err := filepath.EvalSymlinks(path); err != nil || filepath.Dir(to) != filepath.Join(dir, "hub", "models--org--model", "blobs") {
					t.Fatalf("%s leads to %s (%v)", path, to, err)
				}
			}
			return nil
		})
	})
}
