package pull

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testRepo   = "org/model"
	testCommit = "0123456789abcdef0123456789abcdef01234567"
	testToken  = "secret"
)

// hub is a server that speaks the hub's protocol, with another one beside it
// that holds the large files.
type hub struct {
	*httptest.Server
	store *httptest.Server
	files map[string][]byte
	// api and blob, where they are not nil, may answer a request themselves.
	api  func(w http.ResponseWriter, r *http.Request) bool
	blob func(w http.ResponseWriter, r *http.Request, data []byte) bool
	bare bool // the description has neither sizes nor hashes

	mu     sync.Mutex
	sent   int // bytes of large files
	ranges []string
	stolen string // token that reached the store
	asked  []string
}

func sha256Of(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

func gitOf(b []byte) string {
	s := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(b), b))
	return hex.EncodeToString(s[:])
}

// large are the files that the store holds.
func large(name string) bool {
	return path.Ext(name) == ".safetensors" || path.Ext(name) == ".gguf" || path.Ext(name) == ".bin"
}

func noise(n int) []byte {
	r, b := rand.New(rand.NewPCG(uint64(n), 7)), make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func newHub(t *testing.T, files map[string][]byte) *hub {
	t.Helper()
	h := &hub{files: files}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	h.store = httptest.NewServer(http.HandlerFunc(h.serveBlob))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.store.CloseClientConnections()
		h.Close()
		h.store.Close()
	})
	return h
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Method+" "+r.URL.Path)
	h.mu.Unlock()
	if h.api != nil && h.api(w, r) {
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/"+testRepo+"/resolve/"+testCommit+"/"); ok {
		h.resolve(w, r, name)
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/api/models/"+testRepo+"/revision/") {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "", http.StatusNotFound)
		return
	}
	type object = map[string]any
	siblings := []object{}
	for name, data := range h.files {
		s := object{"rfilename": name}
		if !h.bare {
			s["size"], s["blobId"] = len(data), gitOf(data)
			if large(name) {
				s["blobId"], s["lfs"] = gitOf([]byte("pointer")), object{"sha256": sha256Of(data), "size": len(data)}
			}
		}
		siblings = append(siblings, s)
	}
	json.NewEncoder(w).Encode(object{"id": testRepo, "sha": testCommit, "siblings": siblings})
}

func (h *hub) resolve(w http.ResponseWriter, r *http.Request, name string) {
	data, ok := h.files[name]
	if !ok {
		http.Error(w, "", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", testCommit)
	if !large(name) {
		w.Header().Set("ETag", `"`+gitOf(data)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		return
	}
	w.Header().Set("X-Linked-ETag", `"`+sha256Of(data)+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
	http.Redirect(w, r, h.store.URL+"/"+name, http.StatusFound)
}

func (h *hub) serveBlob(w http.ResponseWriter, r *http.Request) {
	data := h.files[r.URL.Path[1:]]
	h.mu.Lock()
	h.ranges = append(h.ranges, r.Header.Get("Range"))
	if r.Header.Get("Authorization") != "" {
		h.stolen = r.Header.Get("Authorization")
	}
	h.mu.Unlock()
	w = &counting{w, h}
	if h.blob != nil && h.blob(w, r, data) {
		return
	}
	w.Header().Set("ETag", `"store"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

type counting struct {
	http.ResponseWriter
	h *hub
}

func (c *counting) Write(b []byte) (int, error) {
	c.h.mu.Lock()
	c.h.sent += len(b)
	c.h.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (h *hub) puller(t *testing.T) *Puller {
	t.Helper()
	return &Puller{
		Endpoint: h.URL, Token: testToken, HubCache: t.TempDir(), Packages: t.TempDir(),
		Backoff: time.Millisecond, Stall: 5 * time.Second,
	}
}

func mustRef(t testing.TB, text string) Ref {
	t.Helper()
	r, err := ParseRef(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pulled(t *testing.T, p *Puller, name string) Result {
	t.Helper()
	r, err := p.Pull(context.Background(), mustRef(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(t *testing.T, at string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(at); err != nil || string(got) != string(want) {
		t.Errorf("%s: %d bytes, expected %d (%v)", at, len(got), len(want), err)
	}
}
