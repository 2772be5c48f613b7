package pull

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hotpath/internal/lockfile"
)

// A file name with a separator was written outside of the download's folder,
// and cleaning up removed the folder that it led to.
func TestIndexNamesStayInside(t *testing.T) {
	for _, html := range []bool{false, true} {
		for _, name := range []string{
			"my_pkg-1.0-py3-none/../../../victim/x-any.whl",
			"my_pkg-1.0-py3-none/../../../../../victim/x-any.whl",
			"my_pkg-1.0-py3-none/x-any.whl",
			`my_pkg-1.0-py3-none\..\..\..\victim\x-any.whl`,
			"my_pkg-..-py3-none-any.whl",
			"my_pkg-1/../..-py3-none-any.whl",
			"my_pkg-...tar.gz",
			"my-pkg-1/../../../victim/x.tar.gz",
			"my_pkg-1.0-py3-none\x1b[2J-any.whl",
			"my_pkg-1.0-py3-none-" + strings.Repeat("x", 300) + "any.whl",
		} {
			wheel := zipOf(t, holder...)
			x := newIndex(t, map[string][]byte{})
			x.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/file" {
					w.Write(wheel)
				} else if html {
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprintf(w, "<A HREF='/file#sha256=%s'>%s</A>", sha256Of(wheel), name)
				} else {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"files":[{"filename":%s,"url":"/file","size":%d,"hashes":{"sha256":"%s"}}]}`, jsonString(t, name), len(wheel), sha256Of(wheel))
				}
			})
			p := x.puller(t)
			root := t.TempDir()
			p.Packages = filepath.Join(root, "cache", "packages")
			victim := filepath.Join(root, "victim", "precious")
			if err := errors.Join(os.MkdirAll(filepath.Dir(victim), 0o755), os.WriteFile(victim, []byte("mine"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if r, err := p.Pull(t.Context(), mustRef(t, "pip:my-pkg")); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %+v, %v, expected a file that does not fit", name, r, err)
			}
			same(t, victim, []byte("mine"))
			if left, _ := filepath.Glob(filepath.Join(root, "victim", "*")); len(left) != 1 {
				t.Errorf("%q: %v", name, left)
			}
		}
	}
}

func jsonString(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Names that a hub gives to files reach neither the disk nor a terminal.
func TestHubNamesStayInside(t *testing.T) {
	for _, name := range []string{"../x.gguf", "/x.gguf", "a//x.gguf", "./x.gguf", "", ".", `a\x.gguf`, "a\x1b[2J.gguf", "a\nb.gguf",
		strings.Repeat("a/", maxDepth) + "x.gguf", strings.Repeat("x", maxPath) + ".gguf"} {
		if localPath(name) {
			t.Errorf("%q was taken", name)
		}
	}
	for _, name := range []string{"x.gguf", "a/b/x.gguf", "ä ö.gguf", "..x", "a..b/c"} {
		if !localPath(name) {
			t.Errorf("%q was refused", name)
		}
	}
}

// Two packages may have a file of the same content. Each pull removes only the
// folder that it made.
func TestPackagesOfTheSameContent(t *testing.T) {
	wheel := zipOf(t, holder[1:3]...)
	first := make(chan struct{}) // closed when the first pull is done
	asked := make(chan struct{}) // closed when the second pull asks for its file
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, isPage := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/simple/")
		switch {
		case isPage:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"files":[{"filename":"%s-1.0-py3-none-any.whl","url":"/%s","size":%d,"hashes":{"sha256":"%s"}}]}`, name, name, len(wheel), sha256Of(wheel))
			return
		case r.URL.Path == "/two":
			w.Write(wheel[:1])
			http.NewResponseController(w).Flush()
			close(asked)
			<-first
			w.Write(wheel[1:])
		default:
			<-asked
			w.Write(wheel)
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	puller := func() *Puller { return &Puller{Index: s.URL + "/simple", HubCache: t.TempDir(), Packages: dir} }
	var all sync.WaitGroup
	p, q := puller(), puller()
	all.Go(func() {
		if _, err := q.Pull(t.Context(), mustRef(t, "pip:two")); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Pull(t.Context(), mustRef(t, "pip:one")); err != nil {
		t.Error(err)
	}
	close(first)
	all.Wait()
	if got := names(t, p); got != "pip:one pip:two" {
		t.Error(got)
	}
}

// Whoever waits for a lock hears who holds it.
func TestWaitingNamesHolder(t *testing.T) {
	h := newHub(t, ggufHub(1000))
	x := newIndex(t, map[string][]byte{"my_pkg-1.0-py3-none-any.whl": zipOf(t, holder[1:3]...)})
	p := h.puller(t)
	p.Index = x.URL + "/simple"
	for name, path := range map[string]string{
		testRepo:     p.cacheOf(folderOf(testRepo)).blobLock(sha256Of(h.files["m.gguf"])),
		"pip:my-pkg": p.packageLock("my-pkg"),
	} {
		held, err := lockfile.Acquire(path)
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		p.Progress = func(e Event) {
			if e.Note != "" {
				notes = append(notes, e.Note)
				held.Release()
			}
		}
		pulled(t, p, name)
		if want := fmt.Sprintf("waiting for pid %d on ", os.Getpid()); len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("%s: notes %q, expected one with %q", name, notes, want)
		}
	}
}

// A server that sends a part and then says that the file changed is not asked
// for ever.
func TestChangingFileEnds(t *testing.T) {
	h := newHub(t, ggufHub(1_000_000))
	var n atomic.Int32
	h.blob = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
		now := n.Add(1)
		if now > 200 {
			return false
		}
		from, body := rest(r, data)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, now))
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}
		cut(w, body, 300_000)
		return true
	}
	p := h.puller(t)
	p.Backoff = time.Microsecond
	if _, err := p.Pull(t.Context(), mustRef(t, testRepo)); err == nil || !strings.Contains(err.Error(), "attempts") {
		t.Error(err)
	}
	if n.Load() > 30 {
		t.Errorf("%d requests", n.Load())
	}
}

// Sizes near the largest integer must not wrap around into small ones.
func TestSizesThatOverflow(t *testing.T) {
	h := newHub(t, nil)
	h.api = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprintf(w, `{"sha":"%s","siblings":[{"rfilename":"config.json","size":2,"blobId":"%s"}`, testCommit, gitOf([]byte("{}")))
		for i := range 3 {
			fmt.Fprintf(w, `,{"rfilename":"model-%d.safetensors","lfs":{"sha256":"%s","size":%d}}`, i, sha256Of([]byte{byte(i)}), int64(1)<<62)
		}
		fmt.Fprint(w, "]}")
		return true
	}
	if _, err := h.puller(t).Pull(t.Context(), mustRef(t, testRepo)); !errors.Is(err, ErrSpace) {
		t.Errorf("hub: %v, expected %v", err, ErrSpace)
	}
	x := newIndex(t, map[string][]byte{})
	x.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"files":[{"filename":"my_pkg-1-py3-none-any.whl","url":"/f","size":%d,"hashes":{"sha256":"%s"}}]}`, int64(1)<<62+1, sha256Of(nil))
	})
	if _, err := x.puller(t).Pull(t.Context(), mustRef(t, "pip:my-pkg")); !errors.Is(err, ErrSpace) {
		t.Errorf("index: %v, expected %v", err, ErrSpace)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range 2 {
		if _, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("m%d.gguf", i), Method: zip.Deflate, CompressedSize64: 0, UncompressedSize64: 1 << 62}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unpackModels(t.Context(), written(t, "a.whl", b.Bytes()), t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected at most") {
		t.Errorf("archive: %v", err)
	}
}

func written(t testing.TB, name string, data []byte) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// Credentials of an index stay with its host, and so does its address. The size
// of a file that lies elsewhere is asked there.
func TestIndexCredentialsStay(t *testing.T) {
	wheel := zipOf(t, holder[1:3]...)
	var mu sync.Mutex
	var leaked []string
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		leaked = append(leaked, r.Header.Get("Authorization")+r.Header.Get("Referer")+r.Header.Get("Cookie"))
		mu.Unlock()
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wheel))
	}))
	defer store.Close()
	for _, direct := range []bool{false, true} {
		x := newIndex(t, map[string][]byte{})
		x.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, ok := r.BasicAuth(); !ok || user != "me" || password != "secret" {
				http.Error(w, "", http.StatusUnauthorized)
				return
			}
			at := "/file"
			if direct {
				at = store.URL + "/file"
			}
			if r.URL.Path == "/file" {
				http.Redirect(w, r, store.URL+"/elsewhere", http.StatusFound)
				return
			}
			fmt.Fprintf(w, `<a href="%s#sha256=%s">my_pkg-1.0-py3-none-any.whl</a>`, at, sha256Of(wheel))
		})
		p := x.puller(t)
		at, err := url.Parse(p.Index)
		if err != nil {
			t.Fatal(err)
		}
		at.User = url.UserPassword("me", "secret")
		p.Index = at.String()
		pulled(t, p, "pip:my-pkg")
	}
	if got := strings.Join(leaked, ""); got != "" || len(leaked) != 4 {
		t.Errorf("%d requests, which told the store %q", len(leaked), got)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A list of many small things costs memory in proportion to its bytes.
func TestListsCostWhatTheyAre(t *testing.T) {
	const n = 300_000
	list := func(begin, element string) []byte {
		return []byte(begin + strings.Repeat(element+",", n) + element + "]}")
	}
	for name, c := range map[string]struct {
		page []byte
		read func(page []byte) error
	}{
		"files": {list(`{"files":[`, "{}"), func(page []byte) error {
			return jsonReleases(t.Context(), page, func(release) {})
		}},
		"hashes": {[]byte(`{"files":[{"hashes":{` + strings.Repeat(`"a":"",`, n) + `"b":""}}]}`), func(page []byte) error {
			return jsonReleases(t.Context(), page, func(release) {})
		}},
		"yanked": {[]byte(`{"files":[{"yanked":[` + strings.Repeat(`[],`, n) + `[]]}]}`), func(page []byte) error {
			return jsonReleases(t.Context(), page, func(release) {})
		}},
		"links": {bytes.Repeat([]byte("<a href=''></a>"), n), func(page []byte) error {
			return htmlReleases(t.Context(), string(page), func(release) {})
		}},
		"siblings": {list(`{"sha":"`+testCommit+`","siblings":[`, `{"rfilename":"a"}`), func(page []byte) error {
			h := newHub(t, nil)
			h.api = func(w http.ResponseWriter, _ *http.Request) bool { w.Write(page); return true }
			p := h.puller(t)
			_, err := p.Pull(t.Context(), mustRef(t, testRepo))
			if err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("%v, expected too many files", err)
			}
			return nil
		}},
	} {
		var err error
		if got := allocated(func() { err = c.read(c.page) }); err != nil || got > 40*uint64(len(c.page)) {
			t.Errorf("%s: %d bytes for a page of %d (%v)", name, got, len(c.page), err)
		}
	}
}

// A wheel of 60,000 entries took 90 seconds: every folder looked at every file.
// Now a file is looked at in two folders at most.
func TestModelFilesWork(t *testing.T) {
	const n = 10_000
	for name, shape := range map[string]func(i int) []string{
		"beside each other": func(i int) []string {
			return []string{fmt.Sprintf("d%d/config.json", i), fmt.Sprintf("d%d/model.safetensors", i)}
		},
		"below one": func(i int) []string { return []string{"a/config.json", fmt.Sprintf("a/%d/x.gguf", i)} },
		"nested":    func(i int) []string { return []string{strings.Repeat("a/", i%maxDepth) + fmt.Sprintf("%d.gguf", i)} },
		"modules": func(i int) []string {
			return []string{fmt.Sprintf("%d_A/config.json", i), "modules.json", "model.safetensors"}
		},
		"modules in modules": func(i int) []string {
			return []string{strings.Repeat("1_A/", i%maxDepth) + "config.json", strings.Repeat("1_A/", i%maxDepth) + "x.gguf"}
		},
	} {
		var files []remote
		for i := range n {
			for _, path := range shape(i) {
				files = append(files, remote{path: path})
			}
		}
		looks := 0
		for _, in := range byFolder(files) {
			looks += len(in)
		}
		if looks > 2*len(files) {
			t.Errorf("%s: %d looks at %d files", name, looks, len(files))
		}
		if found := len(modelFiles(files)); found < n {
			t.Errorf("%s: %d files of models, expected at least %d", name, found, n)
		}
	}
}

// untilSteps is a context that ends after so many looks at it.
type untilSteps struct {
	context.Context
	left atomic.Int64
	done chan struct{}
}

func newUntilSteps(n int64) *untilSteps {
	c := &untilSteps{Context: context.Background(), done: make(chan struct{})}
	c.left.Store(n)
	return c
}

func (c *untilSteps) Done() <-chan struct{} { return c.done }

func (c *untilSteps) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Every loop over what an archive or a page says watches its context.
func TestLoopsAreInterrupted(t *testing.T) {
	var entries []entry
	for i := range 2000 {
		entries = append(entries, entry{fmt.Sprintf("%d.py", i), "x"})
	}
	page := bytes.Repeat([]byte("<a href='x'>y</a>"), 2000)
	files := []byte(`{"files":[` + strings.Repeat("{},", 2000) + "{}]}")
	wheel, sdist := written(t, "a.whl", zipOf(t, entries...)), written(t, "a.tar.gz", tarOf(t, entries...))
	for name, work := range map[string]func(ctx context.Context) error{
		"wheel": func(ctx context.Context) error { return unpackModels(ctx, wheel, t.TempDir()) },
		"sdist": func(ctx context.Context) error { return unpackModels(ctx, sdist, t.TempDir()) },
		"html":  func(ctx context.Context) error { return htmlReleases(ctx, string(page), func(release) {}) },
		"json":  func(ctx context.Context) error { return jsonReleases(ctx, files, func(release) {}) },
	} {
		ctx := newUntilSteps(1000)
		if err := work(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, expected %v", name, err, context.Canceled)
		}
	}
}

// manyEntries is a zip whose list has n entries, whatever it says itself.
func manyEntries(n int) []byte {
	one := make([]byte, 47)
	binary.LittleEndian.PutUint32(one, 0x02014b50)
	binary.LittleEndian.PutUint16(one[28:], 1) // length of the name
	one[46] = 'x'
	list := bytes.Repeat(one, n)
	end := make([]byte, 22)
	binary.LittleEndian.PutUint32(end, 0x06054b50)
	binary.LittleEndian.PutUint16(end[8:], uint16(n))
	binary.LittleEndian.PutUint16(end[10:], uint16(n))
	binary.LittleEndian.PutUint32(end[12:], uint32(len(list)))
	return append(list, end...)
}

// The list of a zip's entries is memory while it is read, so its length has a
// bound, and so has the number of entries.
func TestZipListIsBounded(t *testing.T) {
	for n, says := range map[int]string{
		maxEntries + 1:          "more than 100000 entries",
		2 * (maxDirectory / 47): "a list of entries of more than",
	} {
		archive := written(t, "a.whl", manyEntries(n))
		var err error
		got := allocated(func() { err = unpackModels(t.Context(), archive, t.TempDir()) })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%d entries: %v, expected %q", n, err, says)
		}
		if got > 256<<20 {
			t.Errorf("%d entries: %d MB of memory", n, got>>20)
		}
	}
}

// Content of another length than an archive says is refused, and no more of it
// is written than that.
func TestArchiveLiesAboutSizes(t *testing.T) {
	for _, says := range []uint64{0, 10, 1 << 20} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.CreateRaw(&zip.FileHeader{Name: "m.gguf", Method: zip.Store, CompressedSize64: 5000, UncompressedSize64: says})
		if err == nil {
			_, err = io.WriteString(w, strings.Repeat("x", 5000))
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if err := unpackModels(t.Context(), written(t, "a.whl", b.Bytes()), to); err == nil {
			t.Errorf("%d bytes said, 5000 there: no error", says)
		}
		if info, err := os.Stat(filepath.Join(to, "m.gguf")); err == nil && info.Size() > int64(says)+1 {
			t.Errorf("%d bytes said, %d written", says, info.Size())
		}
	}
}
