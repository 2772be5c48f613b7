package hotpath

import (
	"fmt"

	"hotpath/internal/builtin"
)

// OpenDefault opens a model that is part of the program, so that it needs no
// file: use is "embed" for the embedder, "generate" for the generator.
// docs/default-models.md says what they are good for. A program that is built
// with -tags nomodels has none, which is an ErrNotModel.
func OpenDefault(use string, o Options) (*Model, error) {
	names := map[string]string{"embed": builtin.Embedder, "generate": builtin.Generator}
	name, ok := names[use]
	if !ok {
		return nil, fmt.Errorf("%w: use %q of a default model, expected embed or generate", ErrInput, use)
	}
	if builtin.Default(name) == "" {
		return nil, fmt.Errorf("%s: %w: the program was built with -tags nomodels", name, ErrNotModel)
	}
	return Open(name, o)
}
