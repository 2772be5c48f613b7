package pull

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// choice is what of a repository is fetched.
type choice struct {
	files []remote
	opens string // the file that opens the model; "" for the directory
}

var (
	// splitName is how the files of a split GGUF model are called.
	splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)
	// moduleName is how sentence-transformers names the folders of its modules.
	moduleName = regexp.MustCompile(`^\d+_[A-Za-z0-9]+$`)
	// notModel are GGUF files that are no models by themselves.
	notModel = regexp.MustCompile(`(?i)(^|[-_.])(mmproj|imatrix)[-_.]`)
	// twins are second copies of the weights under other names.
	twins = regexp.MustCompile(`^(consolidated.*|adapter_model|model\.(fp16|bf16|fp32)(-\d+-of-\d+)?)\.safetensors$`)
)

// besideWeights are the endings of the small files that a directory needs.
var besideWeights = []string{".json", ".txt", ".model", ".jinja", ".tiktoken"}

// gguf is a model in one GGUF file or in several.
type gguf struct {
	first string
	size  int64
	files []remote
}

// choose picks the files of the model that ref names.
func choose(ref Ref, files []remote) (choice, error) {
	models := ggufs(files)
	weights := directory(files)
	switch {
	case ref.Select != "":
		return selected(ref, models, files)
	case len(weights) > 0:
		return choice{files: weights}, nil
	case len(models) == 1:
		return choice{files: models[0].files, opens: models[0].first}, nil
	case len(models) > 1:
		return choice{}, several(ref, models)
	}
	hint := ""
	for _, f := range files {
		if ext := path.Ext(f.path); ext == ".bin" || ext == ".pth" || ext == ".onnx" || ext == ".h5" {
			hint = fmt.Sprintf(" (%s is not read)", f.path)
			break
		}
	}
	return choice{}, fmt.Errorf("%s: %w: expected config.json with *.safetensors, or *.gguf%s", ref, ErrNoModel, hint)
}

// ggufs are the GGUF models among files, by name.
func ggufs(files []remote) []gguf {
	byName := map[string]*gguf{}
	var out []*gguf
	for _, f := range files {
		if path.Ext(f.path) != ".gguf" || notModel.MatchString(path.Base(f.path)) {
			continue
		}
		name := f.path
		if m := splitName.FindStringSubmatch(f.path); m != nil {
			name = fmt.Sprintf("%s-00001-of-%s.gguf", m[1], m[3])
		}
		g := byName[name]
		if g == nil {
			g = &gguf{first: name}
			byName[name] = g
			out = append(out, g)
		}
		g.files = append(g.files, f)
		g.size += max(f.size, 0)
	}
	models := make([]gguf, len(out))
	for i, g := range out {
		models[i] = *g
	}
	slices.SortFunc(models, func(a, b gguf) int { return cmp.Compare(a.first, b.first) })
	return models
}

// selected picks by file name, or by a part of it that stands by itself.
func selected(ref Ref, models []gguf, files []remote) (choice, error) {
	var fit []gguf
	for _, g := range models {
		if g.first == ref.Select || path.Base(g.first) == ref.Select || slices.ContainsFunc(g.files, func(f remote) bool { return f.path == ref.Select }) {
			return choice{files: g.files, opens: g.first}, nil
		}
		if tagged(g.first, ref.Select) {
			fit = append(fit, g)
		}
	}
	switch {
	case len(fit) == 1:
		return choice{files: fit[0].files, opens: fit[0].first}, nil
	case len(fit) > 1:
		return choice{}, several(ref, fit)
	}
	for _, f := range files { // any file, by its exact name
		if f.path == ref.Select {
			return choice{files: []remote{f}, opens: f.path}, nil
		}
	}
	if len(models) == 0 {
		return choice{}, fmt.Errorf("%s: no file %q: %w", ref, ref.Select, ErrNotFound)
	}
	return choice{}, fmt.Errorf("%s: no file is %q: %w", ref, ref.Select, several(ref, models))
}

// tagged reports whether a file's name or folder has a tag, such as Q4_K_M,
// that is not part of a longer one: Q4_K is not in Q4_K_M.
func tagged(file, tag string) bool {
	name := strings.ToLower(strings.TrimSuffix(file, path.Ext(file)))
	tag = strings.ToLower(tag)
	inside := func(b byte) bool { return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' }
	for at := 0; ; at++ {
		next := strings.Index(name[at:], tag)
		if next < 0 {
			return false
		}
		at += next
		end := at + len(tag)
		if (at == 0 || !inside(name[at-1])) && (end == len(name) || !inside(name[end])) {
			return true
		}
	}
}

func several(ref Ref, models []gguf) error {
	e := &ChoiceError{Name: ref.String()}
	ref.Select = ""
	for _, g := range models {
		named := ref
		named.Select = g.first
		e.Choices = append(e.Choices, Choice{named.String(), g.size})
	}
	return e
}

// folder is a Hugging Face directory among other files.
type folder struct {
	path  string // "" for the root
	files []remote
}

// byFolder sorts files by the directory that they may belong to, with their
// paths in it: that of their own folder and, where it is a module's, that of the
// folder above. So the work on all directories grows with the files, not with
// files times folders.
func byFolder(files []remote) map[string][]remote {
	inside := map[string][]remote{}
	for _, f := range files {
		dir, name := path.Split(f.path)
		dir = strings.TrimSuffix(dir, "/")
		inside[dir] = append(inside[dir], remote{path: name, size: f.size})
		if up, module := path.Split(dir); moduleName.MatchString(module) {
			up = strings.TrimSuffix(up, "/")
			inside[up] = append(inside[up], remote{path: module + "/" + name, size: f.size})
		}
	}
	return inside
}

// directories are the Hugging Face directories among files, by path.
func directories(files []remote) []folder {
	var out []folder
	for dir, in := range byFolder(files) {
		d := directory(in)
		if moduleName.MatchString(path.Base(dir)) || !slices.ContainsFunc(d, func(f remote) bool { return f.path == "config.json" || f.path == "modules.json" }) {
			continue
		}
		for i := range d {
			d[i].path = path.Join(dir, d[i].path)
		}
		out = append(out, folder{dir, d})
	}
	slices.SortFunc(out, func(a, b folder) int { return cmp.Compare(a.path, b.path) })
	return out
}

// directory is what a Hugging Face directory needs, nothing where it holds no
// safetensors.
func directory(files []remote) []remote {
	index := slices.ContainsFunc(files, func(f remote) bool { return f.path == "model.safetensors.index.json" })
	whole := slices.ContainsFunc(files, func(f remote) bool { return f.path == "model.safetensors" })
	var out []remote
	weights := false
	for _, f := range files {
		dir, name := path.Split(f.path)
		if dir = strings.TrimSuffix(dir, "/"); dir != "" && !moduleName.MatchString(dir) {
			continue
		}
		switch {
		case path.Ext(name) == ".safetensors":
			// Where the whole is there beside its parts, one of them is enough.
			if twins.MatchString(name) || dir == "" && whole && index && name != "model.safetensors" {
				continue
			}
			weights = true
		case name == "model.safetensors.index.json" && whole:
			continue
		case strings.HasSuffix(name, ".index.json") && name != "model.safetensors.index.json":
			continue // of weights that are not fetched
		case !slices.Contains(besideWeights, path.Ext(name)):
			continue
		}
		out = append(out, f)
	}
	if !weights {
		return nil
	}
	return out
}
