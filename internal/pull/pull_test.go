package pull

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// asPull makes the test binary pull in place of testing, to be killed.
const asPull = "HOTPATH_TEST_PULL"

func TestMain(m *testing.M) {
	if os.Getenv(asPull) == "" {
		os.Exit(m.Run())
	}
	p, err := Env()
	if err == nil {
		var ref Ref
		if ref, err = ParseRef(os.Getenv(asPull)); err == nil {
			_, err = p.Pull(context.Background(), ref)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sentence() map[string][]byte {
	return map[string][]byte{
		"config.json":                       []byte(`{"model_type":"bert"}`),
		"modules.json":                      []byte(`[]`),
		"tokenizer.json":                    []byte(`{"version":"1.0"}`),
		"vocab.txt":                         []byte("[PAD]\n"),
		"1_Pooling/config.json":             []byte(`{"a":1}`),
		"2_Dense/model.safetensors":         noise(5_000),
		"2_Dense/pytorch_model.bin":         noise(4_000),
		"config_sentence_transformers.json": []byte(`{}`),
		"model.safetensors":                 noise(3_000_000),
		"pytorch_model.bin":                 noise(10),
		"onnx/model.onnx":                   noise(10),
		"onnx/config.json":                  []byte(`{}`),
		"README.md":                         []byte("text"),
	}
}

var notFetched = []string{"2_Dense/pytorch_model.bin", "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json", "README.md"}

func TestPullDirectory(t *testing.T) {
	h := newHub(t, sentence())
	p := h.puller(t)
	var last Event
	p.Progress = func(e Event) {
		if e.Total > 0 {
			last = e
		}
	}
	r := pulled(t, p, testRepo)
	root := filepath.Join(p.HubCache, "models--org--model")
	if want := filepath.Join(root, "snapshots", testCommit); r.Path != want || r.Name != testRepo || r.Bytes != r.Size {
		t.Errorf("%+v, expected %s", r, want)
	}
	for name, data := range h.files {
		at := filepath.Join(r.Path, name)
		if slices.Contains(notFetched, name) {
			if exists(at) {
				t.Errorf("%s was fetched", name)
			}
			continue
		}
		same(t, at, data)
		id := gitOf(data)
		if large(name) {
			id = sha256Of(data)
		}
		up := strings.Repeat("../", strings.Count(name, "/"))
		if target, err := os.Readlink(at); err != nil || target != up+"../../blobs/"+id {
			t.Errorf("%s: link to %q (%v)", name, target, err)
		}
	}
	same(t, filepath.Join(root, "refs", "main"), []byte(testCommit))
	if h.stolen != "" {
		t.Errorf("the store was sent %q", h.stolen)
	}
	if last.Done != last.Total || last.Total != r.Size {
		t.Errorf("progress ended at %+v of %d", last, r.Size)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "blobs", "*"+partSuffix)); len(left) > 0 {
		t.Error(left)
	}
	sent := h.sent
	if again := pulled(t, p, testRepo); again.Bytes != 0 || h.sent != sent || again.Path != r.Path {
		t.Errorf("a second pull fetched %d bytes", again.Bytes)
	}
	if got := pulled(t, p, testRepo+"@refs/pr/1"); got.Bytes != 0 {
		t.Error(got)
	}
	same(t, filepath.Join(root, "refs", "refs", "pr", "1"), []byte(testCommit))
}

// A hub that tells no sizes and hashes is asked file by file.
func TestPullBareHub(t *testing.T) {
	h := newHub(t, sentence())
	h.bare = true
	r := pulled(t, h.puller(t), testRepo)
	same(t, filepath.Join(r.Path, "model.safetensors"), h.files["model.safetensors"])
	same(t, filepath.Join(r.Path, "config.json"), h.files["config.json"])
	if h.stolen != "" {
		t.Error("the token went to the store")
	}
	if !slices.Contains(h.asked, "HEAD /org/model/resolve/"+testCommit+"/model.safetensors") {
		t.Error(h.asked)
	}
}

// cut ends the connection after n bytes of the body.
func cut(w http.ResponseWriter, body []byte, n int) {
	w.Write(body[:min(n, len(body))])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// rest serves what the range asks for, with headers of the caller's making.
func rest(r *http.Request, data []byte) (from int, body []byte) {
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	return from, data[from:]
}

func ggufHub(n int) map[string][]byte { return map[string][]byte{"m.gguf": noise(n)} }

func TestResume(t *testing.T) {
	const size = 3_000_000
	partial := func(w http.ResponseWriter, r *http.Request, data []byte, etag string) (from int, body []byte) {
		from, body = rest(r, data)
		w.Header().Set("ETag", etag)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		return from, body
	}
	for name, c := range map[string]struct {
		blob func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool
		most int // bytes that the store may send
	}{
		"cut again and again": {func(_ int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			_, body := partial(w, r, data, `"a"`)
			cut(w, body, 200_000)
			return true
		}, size + 100_000},
		"cut before the first byte": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n < 4 {
				cut(w, nil, 0)
			}
			return false
		}, size},
		"ranges ignored": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n == 0 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				cut(w, data, 1_000_000)
			}
			w.Write(data)
			return true
		}, size + 1_000_000},
		"another ETag, If-Range unheeded": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			_, body := partial(w, r, data, fmt.Sprintf(`"%d"`, min(n, 1)))
			if n == 0 {
				cut(w, body, 1_000_000)
			}
			w.Write(body)
			return true
		}, 3*size + 1_000_000},
		"another ETag, If-Range heeded": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n == 0 {
				_, body := partial(w, r, noise(size), `"old"`)
				cut(w, body, 1_000_000)
			}
			if got := r.Header.Get("If-Range"); n == 1 && got != `"old"` {
				t.Errorf("If-Range %q", got)
			}
			w.Header().Set("ETag", `"new"`)
			return false
		}, size + 1_000_000},
		"too busy": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n < 3 {
				http.Error(w, "", []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}[n])
				return true
			}
			return false
		}, size + 100},
		"a size that is a lie, once": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n == 0 {
				w.Write(append(data[:len(data):len(data)], "more"...))
				return true
			}
			return false
		}, 2*size + 100},
		"the wrong part": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			switch n {
			case 0:
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				cut(w, data, 1_000_000)
			case 1:
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", size-1, size))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(data[5:])
				return true
			}
			return false
		}, 3 * size},
		"stalls": {func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool {
			if n == 0 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				w.Write(data[:500_000])
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			}
			return false
		}, size + 600_000},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, ggufHub(size))
			var mu sync.Mutex
			n := -1
			h.blob = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
				mu.Lock()
				n++
				now := n
				mu.Unlock()
				return c.blob(now, w, r, data)
			}
			p := h.puller(t)
			if name == "stalls" {
				p.Stall = 200 * time.Millisecond
			}
			r := pulled(t, p, testRepo)
			same(t, r.Path, h.files["m.gguf"])
			if h.sent > c.most {
				t.Errorf("the store sent %d bytes, expected at most %d (%q)", h.sent, c.most, h.ranges)
			}
		})
	}
}

// What is left of an earlier process is used if it is a beginning of the file,
// and thrown away if it is not.
func TestLeftOvers(t *testing.T) {
	h := newHub(t, ggufHub(500_000))
	data := h.files["m.gguf"]
	for name, c := range map[string]struct {
		left []byte
		most int
	}{
		"a beginning":   {data[:400_000], 100_000},
		"all of it":     {data, 0},
		"something":     {noise(400_001), 600_000},
		"another, long": {noise(600_000), 500_000},
		"same length":   {noise(500_000 - 1), 500_001},
		"nothing":       {nil, 500_000},
	} {
		p := h.puller(t)
		blobs := filepath.Join(p.HubCache, "models--org--model", "blobs")
		if err := os.MkdirAll(blobs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(blobs, sha256Of(data)+partSuffix), c.left, 0o644); err != nil {
			t.Fatal(err)
		}
		h.sent = 0
		r := pulled(t, p, testRepo)
		same(t, r.Path, data)
		if h.sent > c.most || r.Bytes != int64(h.sent) {
			t.Errorf("%s: the store sent %d bytes, expected at most %d; %d were counted", name, h.sent, c.most, r.Bytes)
		}
	}
}

func TestPullFails(t *testing.T) {
	status := func(code int, errorCode string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Error-Code", errorCode)
			http.Error(w, "", code)
			return true
		}
	}
	answer := func(body string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, body); return true }
	}
	info := func(file string) string {
		return fmt.Sprintf(`{"sha":"%s","siblings":[%s]}`, testCommit, file)
	}
	always := func(f func(w http.ResponseWriter, data []byte)) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, _ *http.Request, data []byte) bool { f(w, data); return true }
	}
	for name, c := range map[string]struct {
		api  func(w http.ResponseWriter, r *http.Request) bool
		blob func(w http.ResponseWriter, r *http.Request, data []byte) bool
		is   error
		says string
	}{
		"401":            {api: status(401, ""), is: ErrDenied, says: "HF_TOKEN may not see it"},
		"gated":          {api: status(403, "GatedRepo"), is: ErrDenied, says: "ask for an agreement"},
		"404":            {api: status(404, "RepoNotFound"), is: ErrNotFound, says: "org/model: not found at http"},
		"no revision":    {api: status(404, "RevisionNotFound"), is: ErrNotFound, says: "revision"},
		"500":            {api: status(500, ""), says: "500 Internal Server Error (after 3 attempts)"},
		"429":            {api: status(429, ""), says: "429 Too Many Requests (after 3 attempts)"},
		"400":            {api: status(400, ""), says: "400 Bad Request"},
		"no JSON":        {api: answer("<html>"), says: "expected the description of a model"},
		"no commit":      {api: answer(`{"siblings":[]}`), says: "expected a commit"},
		"commit is path": {api: answer(`{"sha":"../../../../x"}`), says: "expected a commit"},
		"file outside":   {api: answer(info(`{"rfilename":"../x.gguf"}`)), says: "expected a path within the model"},
		"file absolute":  {api: answer(info(`{"rfilename":"/x.gguf"}`)), says: "expected a path within the model"},
		"file backslash": {api: answer(info(`{"rfilename":"a\\..\\x.gguf"}`)), says: "expected a path within the model"},
		"hash is a path": {api: answer(info(`{"rfilename":"m.gguf","lfs":{"sha256":"../../x","size":5}}`)), says: "expected a hash"},
		"nothing":        {api: answer(info("")), is: ErrNoModel, says: "expected config.json with *.safetensors"},
		"pickle":         {api: answer(info(`{"rfilename":"config.json"},{"rfilename":"pytorch_model.bin"}`)), is: ErrNoModel, says: "pytorch_model.bin is not read"},
		"no space":       {api: answer(info(`{"rfilename":"m.gguf","lfs":{"sha256":"` + sha256Of(nil) + `","size":1152921504606846976}}`)), is: ErrSpace, says: "MB free"},
		"API hangs":      {api: func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, says: "after 3 attempts"},
		"redirect loop": {api: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
			return true
		}, says: "more than 10 redirects"},
		"file 404":       {blob: always(func(w http.ResponseWriter, _ []byte) { http.Error(w, "", http.StatusNotFound) }), is: ErrNotFound, says: "not found"},
		"file 403":       {blob: always(func(w http.ResponseWriter, _ []byte) { http.Error(w, "", http.StatusForbidden) }), is: ErrDenied, says: "org/model"},
		"wrong content":  {blob: always(func(w http.ResponseWriter, data []byte) { w.Write(noise(len(data))[1:]); w.Write([]byte("x")) }), is: ErrCorrupt, says: "m.gguf: SHA-256"},
		"too short":      {blob: always(func(w http.ResponseWriter, data []byte) { w.Write(data[:10]) }), is: ErrCorrupt, says: "the server has 10 bytes, expected 300000"},
		"announces more": {blob: always(func(w http.ResponseWriter, data []byte) { w.Header().Set("Content-Length", "999999"); w.Write(data) }), is: ErrCorrupt, says: "the server has 999999 bytes"},
		"endless": {blob: always(func(w http.ResponseWriter, data []byte) {
			http.NewResponseController(w).Flush()
			w.Write(data)
			w.Write(data)
		}), is: ErrCorrupt, says: "more than the 300000 bytes"},
		"always cut": {blob: always(func(w http.ResponseWriter, data []byte) {
			w.Header().Set("Content-Length", "300000")
			cut(w, data, 100)
		}), says: "after 3 attempts"},
		"slow loris":      {blob: func(w http.ResponseWriter, r *http.Request, data []byte) bool { drip(w, r, data); return true }, says: "next to nothing"},
		"never an answer": {blob: func(_ http.ResponseWriter, r *http.Request, _ []byte) bool { <-r.Context().Done(); return true }, says: "next to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, ggufHub(300_000))
			h.api, h.blob = c.api, c.blob
			p := h.puller(t)
			p.Retries, p.Stall = 2, 100*time.Millisecond
			r, err := p.Pull(context.Background(), mustRef(t, testRepo))
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), testRepo) && c.is != ErrSpace && !strings.Contains(err.Error(), h.URL) {
				t.Errorf("%+v, %v, expected %q (%v)", r, err, c.says, c.is)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), testToken)) {
				t.Errorf("%q", err)
			}
			if models, err := p.List(); err != nil || len(models) > 0 {
				t.Errorf("%v lies there (%v)", models, err)
			}
			blobs, _ := filepath.Glob(filepath.Join(p.HubCache, "models--*", "blobs", "*"))
			if slices.ContainsFunc(blobs, func(s string) bool { return !strings.HasSuffix(s, partSuffix) }) || c.is == ErrCorrupt && name == "wrong content" && len(blobs) > 0 {
				t.Errorf("%v lies there", blobs)
			}
		})
	}
}

// drip sends a byte now and then.
func drip(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	for i := 0; r.Context().Err() == nil; i++ {
		w.Write(data[i : i+1])
		http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
	}
}

// A hub that changes its mind about a hash between two answers.
func TestPullHashChanges(t *testing.T) {
	h := newHub(t, ggufHub(1000))
	p := h.puller(t)
	p.Retries = 1
	h.api = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/resolve/") {
			w.Header().Set("X-Linked-ETag", `"`+sha256Of([]byte("other"))+`"`)
			http.Redirect(w, r, h.store.URL+"/m.gguf", http.StatusFound)
			return true
		}
		return false
	}
	if _, err := p.Pull(context.Background(), mustRef(t, testRepo)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "announced") {
		t.Error(err)
	}
}

func TestPullCancelled(t *testing.T) {
	h := newHub(t, ggufHub(100_000))
	ctx, cancel := context.WithCancel(context.Background())
	h.blob = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		cancel()
		<-r.Context().Done()
		return true
	}
	if _, err := h.puller(t).Pull(ctx, mustRef(t, testRepo)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Two pulls at the same time fetch everything once.
func TestPullsAtTheSameTime(t *testing.T) {
	h := newHub(t, ggufHub(2_000_000))
	h.blob = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
		w.Write(data[:1000])
		time.Sleep(100 * time.Millisecond)
		w.Write(data[1000:])
		return true
	}
	p := h.puller(t)
	q := h.puller(t)
	q.HubCache = p.HubCache
	var all sync.WaitGroup
	for _, p := range []*Puller{p, q} {
		all.Go(func() {
			if r, err := p.Pull(context.Background(), mustRef(t, testRepo)); err != nil {
				t.Error(err)
			} else {
				same(t, r.Path, h.files["m.gguf"])
			}
		})
	}
	all.Wait()
	if h.sent != 2_000_000 {
		t.Errorf("the store sent %d bytes", h.sent)
	}
}

// A process that is killed in the middle of a download leaves what the next one
// goes on with.
func TestKilled(t *testing.T) {
	const size = 8_000_000
	h := newHub(t, ggufHub(size))
	half := make(chan bool)
	h.blob = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
		if r.Header.Get("Range") != "" {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:size/2])
		http.NewResponseController(w).Flush()
		half <- true
		<-r.Context().Done()
		return true
	}
	p := h.puller(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asPull+"="+testRepo, "HF_ENDPOINT="+h.URL, "HF_TOKEN="+testToken, "HF_HUB_CACHE="+p.HubCache)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	part := filepath.Join(p.HubCache, "models--org--model", "blobs", sha256Of(h.files["m.gguf"])+partSuffix)
	for {
		if info, err := os.Stat(part); err == nil && info.Size() > size/4 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if models, err := p.List(); err != nil || len(models) > 0 {
		t.Errorf("half a model is listed: %v %v", models, err)
	}
	r := pulled(t, p, testRepo)
	same(t, r.Path, h.files["m.gguf"])
	if r.Bytes >= size*3/4 || r.Bytes == 0 {
		t.Errorf("%d of %d bytes were fetched again", r.Bytes, size)
	}
}

// An address that is none is said at once, without trying again.
func TestEndpointIsNoAddress(t *testing.T) {
	for _, at := range []string{"foo", "hub.example", "ftp://hub.example", "http://", "http://a b"} {
		p := &Puller{Endpoint: at, HubCache: t.TempDir(), Backoff: time.Hour}
		if _, err := p.Pull(t.Context(), mustRef(t, testRepo)); err == nil || !strings.Contains(err.Error(), "HF_ENDPOINT") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
