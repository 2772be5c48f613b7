package pull

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Models that somebody put or linked into the folder go by the names of their
// entries.
func TestLocalModels(t *testing.T) {
	root := t.TempDir()
	p := &Puller{HubCache: filepath.Join(root, "hub"), Packages: filepath.Join(root, "packages"), Models: filepath.Join(root, "models")}
	if all, err := p.List(); err != nil || len(all) > 0 {
		t.Fatalf("%v, %v, expected none", all, err)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for _, file := range []string{
		at("elsewhere", "bert", "config.json"), at("elsewhere", "bert", "model.safetensors"), at("elsewhere", "tiny.gguf"),
		at("models", "own.gguf"), at("models", "big-00001-of-00002.gguf"), at("models", "big-00002-of-00002.gguf"),
		at("models", "notes.txt"), at("models", ".hidden.gguf"), at("models", "empty", "readme.md"), at("models", "files", "x.gguf"),
		at("hub", "models--owner--bert", "snapshots", "0123456789", "config.json"),
		at("hub", "models--owner--bert", "snapshots", "0123456789", "model.safetensors"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("data"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"Bert": at("elsewhere", "bert"), "tiny.gguf": at("elsewhere", "tiny.gguf"), "gone": at("nowhere"), "gone.gguf": at("nowhere")} {
		if err := os.Symlink(to, at("models", link)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := p.List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	if want := []string{"Bert", "big-00001-of-00002.gguf", "own.gguf", "owner/bert@01234567", "tiny.gguf"}; !slices.Equal(names, want) {
		t.Fatalf("%q, expected %q", names, want)
	}
	for name, path := range map[string]string{
		"bert": at("models", "Bert"), "tiny": at("models", "tiny.gguf"), "tiny.gguf": at("models", "tiny.gguf"),
		"owner/bert@01234567": at("hub", "models--owner--bert", "snapshots", "0123456789"),
	} {
		if m, err := p.Find(name); err != nil || filepath.Clean(m.Path) != path {
			t.Errorf("%s is %s, %v, expected %s", name, m.Path, err, path)
		}
	}
	if m, err := p.Find("bert"); err != nil || m.Format() != "Hugging Face" || m.Size != 8 {
		t.Errorf("%+v, %v", m, err)
	}
	// A link goes, its model stays; a model that nobody fetched stays.
	m, err := p.Find("bert")
	if to := m.Target(); to != at("elsewhere", "bert") {
		t.Errorf("%q is linked, expected elsewhere/bert", to)
	}
	if err == nil {
		err = p.Remove(t.Context(), m)
	}
	if _, gone := os.Lstat(at("models", "Bert")); err != nil || !errors.Is(gone, os.ErrNotExist) {
		t.Errorf("%v, %v", err, gone)
	}
	if _, err := os.Stat(at("elsewhere", "bert", "config.json")); err != nil {
		t.Error(err)
	}
	m, err = p.Find("own")
	if to := m.Target(); to != "" {
		t.Errorf("%q is linked, expected none", to)
	}
	if err == nil {
		err = p.Remove(t.Context(), m)
	}
	if err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Error(err)
	}
	// A name is that of one model again.
	if m, err := p.Find("own.gguf"); err != nil || m.Path != at("models", "own.gguf") {
		t.Errorf("%v, %v", m, err)
	}
}

// One entry that leads nowhere must not hide the models beside it, nor may a
// link to a disk make every name cost a walk over that disk.
func TestLocalEntriesThatAreNoModels(t *testing.T) {
	root := t.TempDir()
	models := filepath.Join(root, "models")
	p := &Puller{HubCache: filepath.Join(root, "hub"), Packages: filepath.Join(root, "packages"), Models: models}
	snapshot := filepath.Join(p.HubCache, "models--owner--name", "snapshots", "0123456789")
	disk := filepath.Join(root, "disk")
	for _, file := range []string{
		filepath.Join(models, "own.gguf"), filepath.Join(snapshot, "hub.gguf"), filepath.Join(models, "broken", "config.json"),
		filepath.Join(disk, "config.json"), filepath.Join(disk, "model.safetensors"),
		filepath.Join(disk, "1_Pooling", "config.json"), filepath.Join(disk, "home", "config.json"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("data"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{
		filepath.Join(models, "loop"):                        "loop",
		filepath.Join(models, "loop.gguf"):                   "loop.gguf",
		filepath.Join(models, "broken", "model.safetensors"): "model.safetensors",
		filepath.Join(models, "disk"):                        disk,
		filepath.Join(snapshot, "config.json"):               "config.json",
	} {
		if err := os.Symlink(to, at); err != nil {
			t.Skip("no links here")
		}
	}
	unreadable := filepath.Join(disk, "home")
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(unreadable, 0o755)
	all, err := p.List()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, m := range all {
		sizes[m.Name] = m.Size
	}
	if want := map[string]int64{"own.gguf": 4, "disk": 12, "owner/name@01234567:hub.gguf": 4}; !maps.Equal(sizes, want) {
		t.Errorf("%v, expected %v", sizes, want)
	}
	files, err := filesIn(disk+string(filepath.Separator), moduleName.MatchString)
	if err != nil || len(files) != 3 {
		t.Errorf("%v, %v, expected what lies in the folder and in its module's", files, err)
	}
}
