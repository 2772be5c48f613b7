package pull

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stocked is a hub with several models and a cache that holds them.
func stocked(t *testing.T) (*hub, *Puller) {
	t.Helper()
	files := sentence()
	files["m-Q8_0.gguf"], files["m-Q4_K_M.gguf"] = noise(2000), noise(1000)
	files["big-00001-of-00002.gguf"], files["big-00002-of-00002.gguf"] = noise(501), noise(502)
	h := newHub(t, files)
	p := h.puller(t)
	for _, name := range []string{testRepo, testRepo + ":Q8_0", testRepo + ":Q4_K_M", testRepo + ":big"} {
		pulled(t, p, name)
	}
	return h, p
}

func names(t *testing.T, p *Puller) string {
	t.Helper()
	models, err := p.List()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range models {
		out = append(out, m.Name)
	}
	return strings.Join(out, " ")
}

func TestListAndFind(t *testing.T) {
	_, p := stocked(t)
	if got, want := names(t, p), "org/model org/model:big-00001-of-00002.gguf org/model:m-Q4_K_M.gguf org/model:m-Q8_0.gguf"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	for name, want := range map[string]string{
		"org/model": "org/model", "model": "org/model", "Org/Model": "org/model", "org/model@main": "org/model",
		"org/model@" + testCommit[:10]: "org/model", "org/model:Q8_0": "org/model:m-Q8_0.gguf", "model:q4_k_m": "org/model:m-Q4_K_M.gguf",
		"m-Q8_0.gguf": "org/model:m-Q8_0.gguf", "m-Q8_0": "org/model:m-Q8_0.gguf", "org/model/m-Q8_0.gguf": "org/model:m-Q8_0.gguf",
		"big-00001-of-00002": "org/model:big-00001-of-00002.gguf",
	} {
		m, err := p.Find(name)
		if err != nil || m.Name != want || !exists(m.Path) {
			t.Errorf("%s: %q at %s, %v, expected %q", name, m.Name, m.Path, err, want)
		}
		if again, err := p.Find(m.Name); err != nil || again.Path != m.Path {
			t.Errorf("%s does not find itself: %v", m.Name, err)
		}
	}
	for _, name := range []string{"other", "org/other", "org/model:Q2_K", "other/model", "org/model@v2", "", "..", "a b"} {
		if m, err := p.Find(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %+v, %v", name, m, err)
		}
	}
	other := filepath.Join(p.HubCache, "models--else--model", "snapshots", "abc", "model.gguf")
	if err := errors.Join(os.MkdirAll(filepath.Dir(other), 0o755), os.WriteFile(other, noise(5), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Find("model.gguf"); err != nil {
		t.Error(err)
	}
	if m, err := p.Find("else/model@abc"); err != nil || m.Path != other {
		t.Errorf("%+v %v", m, err)
	}
	if models, err := (&Puller{HubCache: filepath.Join(p.HubCache, "absent")}).List(); err != nil || models != nil {
		t.Error(models, err)
	}
}

// Every branch and tag that was pulled finds its model, also where several mean
// the same commit.
func TestFindByTag(t *testing.T) {
	p := newHub(t, sentence()).puller(t)
	for _, name := range []string{testRepo + "@v1.0", testRepo, testRepo + "@v1.1"} {
		pulled(t, p, name)
	}
	for _, name := range []string{"org/model@v1.0", "org/model@v1.1", "org/model@main", "org/model"} {
		if m, err := p.Find(name); err != nil || m.Name != "org/model" {
			t.Errorf("%s: %q, %v", name, m.Name, err)
		}
	}
	if m, err := p.Find("org/model@v1.2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a tag that was not pulled: %q, %v", m.Name, err)
	}
}

func TestRemove(t *testing.T) {
	_, p := stocked(t)
	root := filepath.Join(p.HubCache, "models--org--model")
	count := func() int {
		blobs, _ := filepath.Glob(filepath.Join(root, "blobs", "*"))
		return len(blobs)
	}
	before := count()
	for _, step := range []struct {
		name string
		gone int // blobs
	}{{"m-Q8_0", 1}, {"big-00001-of-00002.gguf", 2}, {"org/model", 8}} {
		m, err := p.Find(step.name)
		if err == nil {
			err = p.Remove(context.Background(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if now := count(); before-now != step.gone || exists(m.Path) && m.Format() == "GGUF" {
			t.Errorf("%s: %d blobs before, %d after, expected %d fewer", step.name, before, now, step.gone)
		}
		before = count()
	}
	if got := names(t, p); got != "org/model:m-Q4_K_M.gguf" {
		t.Error(got)
	}
	m, err := p.Find("model:Q4_K_M")
	if err == nil {
		err = p.Remove(context.Background(), m)
	}
	if err != nil || exists(root) || exists(filepath.Join(p.HubCache, ".locks", "models--org--model")) {
		t.Errorf("something is left of the model (%v)", err)
	}
}

func TestEnv(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOTPATH_CACHE", "PIP_INDEX_URL", "PIP_CERT", "PIP_CONFIG_FILE", "VIRTUAL_ENV"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", dir)
	env := func() *Puller {
		t.Helper()
		p, err := Env()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := env(); p.HubCache != filepath.Join(dir, ".cache", "huggingface", "hub") || p.Packages != filepath.Join(dir, ".cache", "hotpath", "packages") ||
		p.Endpoint != DefaultEndpoint || p.Token != "" || p.Offline {
		t.Errorf("%+v", p)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "xdg"))
	if p := env(); p.HubCache != filepath.Join(dir, "xdg", "huggingface", "hub") {
		t.Error(p.HubCache)
	}
	t.Setenv("HF_HOME", filepath.Join(dir, "hf"))
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "hf"), 0o755), os.WriteFile(filepath.Join(dir, "hf", "token"), []byte("abc\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if p := env(); p.HubCache != filepath.Join(dir, "hf", "hub") || p.Token != "abc" {
		t.Error(p.HubCache, p.Token)
	}
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "cache"))
	t.Setenv("HF_TOKEN", " def ")
	t.Setenv("HF_ENDPOINT", "http://localhost:1/")
	t.Setenv("HF_HUB_OFFLINE", "1")
	config := filepath.Join(dir, "pip.conf")
	if err := os.WriteFile(config, []byte("[global]\nindex-url = http://a/simple/\n# cert = no\n[install]\nindex-url = http://no\n[download]\nindex_url = http://b/simple/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PIP_CONFIG_FILE", config)
	p := env()
	if p.HubCache != filepath.Join(dir, "cache") || p.Token != "def" || p.Endpoint != "http://localhost:1" || !p.Offline || p.Index != "http://b/simple" {
		t.Errorf("%+v", p)
	}
	if _, err := p.Pull(context.Background(), Ref{Repo: "a/b"}); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Error(err)
	}
	t.Setenv("PIP_INDEX_URL", "http://c/simple")
	if p := env(); p.Index != "http://c/simple" {
		t.Error(p.Index)
	}
	t.Setenv("HF_TOKEN", "a\nb")
	if _, err := Env(); err == nil {
		t.Error("a token of two lines was taken")
	}
}

// What is being pulled is not removed from under the pull.
// Files that the environment names may be devices, which have no end.
func TestEnvOfDevices(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no such device here")
	}
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_TOKEN_PATH", "/dev/zero")
	t.Setenv("PIP_CONFIG_FILE", "/dev/zero")
	t.Setenv("PIP_CERT", "/dev/zero")
	p, err := Env()
	if err != nil || p.Token != "" {
		t.Fatalf("token of %d bytes, %v, expected none", len(p.Token), err)
	}
	if err := p.open(); err == nil {
		t.Error("a device was taken for certificates")
	}
}

func TestRemoveDuringPull(t *testing.T) {
	h := newHub(t, map[string][]byte{"m-Q4_0.gguf": noise(1000), "m-Q8_0.gguf": noise(2000)})
	p := h.puller(t)
	first := pulled(t, p, testRepo+":Q4_0")
	entered, pass := make(chan struct{}), make(chan struct{})
	h.blob = func(http.ResponseWriter, *http.Request, []byte) bool {
		close(entered)
		<-pass
		return false
	}
	done := make(chan error)
	go func() {
		q := h.puller(t)
		q.HubCache = p.HubCache
		_, err := q.Pull(context.Background(), mustRef(t, testRepo+":Q8_0"))
		done <- err
	}()
	<-entered
	m, err := p.Find(testRepo + ":Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(context.Background(), m); !errors.Is(err, ErrBusy) || !exists(first.Path) {
		t.Errorf("removing during a pull: %v", err)
	}
	close(pass)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(context.Background(), m); err != nil || exists(first.Path) {
		t.Errorf("removing after the pull: %v", err)
	}
	same(t, filepath.Join(filepath.Dir(first.Path), "m-Q8_0.gguf"), h.files["m-Q8_0.gguf"])
}
