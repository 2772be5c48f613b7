package hotpath

import (
	"context"

	"hotpath/internal/engine"
)

// Digest identifies the model by its content: a SHA-256, in hexadecimal, of its
// configuration, its tokenizer and every byte of its tensors. Copies have the
// same one under any path, and a model that differs in one weight has another.
// It reads all files, at about the speed at which the processors hash them.
func (m *Model) Digest(ctx context.Context) (digest string, err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return "", err
	}
	err = m.eng.Do(func() (err error) {
		digest, err = m.store.Digest(ctx)
		return err
	})
	return digest, err
}
