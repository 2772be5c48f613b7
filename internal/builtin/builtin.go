// Package builtin holds the models that are part of the program: GGUF files
// that commands and the library open by name where no other model is given.
// docs/default-models.md says how they were trained and what they are good for.
//
// It imports nothing of ours; weights opens what it has. The build tag nomodels
// leaves the files out, and then there are no models.
package builtin

// Names of the models.
const (
	Embedder  = "hotpath-embedder"
	Generator = "hotpath-generator"
)

// Model is a GGUF file inside the program.
type Model struct {
	Name string
	Data []byte // read-only memory
}

// Models are all of them; none where the build leaves them out.
func Models() []Model { return models }

// Find is the file of a name.
func Find(name string) ([]byte, bool) {
	for _, m := range models {
		if m.Name == name {
			return m.Data, true
		}
	}
	return nil, false
}

// Default is name where the program has that model, "" where it does not.
func Default(name string) string {
	if _, ok := Find(name); !ok {
		return ""
	}
	return name
}
