package pull

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// listLocal are the models in the folder Models, which people and scripts fill
// with files, directories and links to them. A model is called what its entry
// is; what is no model, or cannot be read, is left out. Of a directory only the
// folders of modules are read: a link may lead to a whole disk.
func (p *Puller) listLocal() ([]Model, error) {
	entries, err := os.ReadDir(p.Models)
	if p.Models == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Model
	for _, e := range entries {
		at := filepath.Join(p.Models, e.Name())
		info, err := os.Stat(at)
		if hidden(e.Name()) || err != nil {
			continue
		}
		m := Model{Name: e.Name(), Path: at, Size: info.Size(), ref: Ref{Repo: e.Name()}, local: true}
		if info.IsDir() {
			root := at + string(filepath.Separator) // through a link, too
			files, err := filesIn(root, moduleName.MatchString)
			models := modelsOf(root, Ref{}, files)
			if err != nil || len(models) == 0 || models[0].ref.Select != "" { // the directory itself comes first
				continue
			}
			m.Size = models[0].Size
		} else if part := splitName.FindStringSubmatch(e.Name()); !strings.HasSuffix(e.Name(), ".gguf") || part != nil && part[2] != "00001" {
			continue
		}
		out = append(out, m)
	}
	return out, err
}

// Target is what the model's entry links to, "" if it is no link of somebody's
// own. Remove deletes such a link, and the model stays.
func (m Model) Target() string {
	if !m.local {
		return ""
	}
	to, err := os.Readlink(m.Path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(m.Path), to)
	}
	return to
}

// removeLocal deletes a link. What is no link was not made here.
func (p *Puller) removeLocal(m Model) error {
	if m.Target() == "" {
		return fmt.Errorf("%s: %s is the model itself, not a link, and hotpath did not fetch it: delete it by hand", m.Name, m.Path)
	}
	return os.Remove(m.Path)
}
