package hotpath

import (
	"fmt"

	"hotpath/internal/builtin"
)

// Names of the models that are part of the program, which [Open] takes like those
// of files. docs/default-models.md says what they are good for.
const (
	DefaultEmbedder  = builtin.Embedder
	DefaultGenerator = builtin.Generator
)

// OpenDefault opens the embedder that is part of the program, so that it needs no
// file; Open(DefaultGenerator, Options{}) opens the generator. A program that is
// built with -tags nomodels has none, which is an ErrNotModel.
func OpenDefault() (*Model, error) {
	if builtin.Default(DefaultEmbedder) == "" {
		return nil, fmt.Errorf("%s: %w: the program was built with -tags nomodels", DefaultEmbedder, ErrNotModel)
	}
	return Open(DefaultEmbedder, Options{})
}
