package train

import (
	"context"
	"fmt"

	"hotpath/internal/dataset"
)

// ErrData reports training data that cannot be read.
var ErrData = dataset.ErrData

// readPath calls add for each document of a file, or of the .txt and .jsonl
// files below a directory. from names the document.
func readPath(ctx context.Context, path string, add func(from, text string) error) error {
	files, err := dataset.Files(ctx, []string{path})
	if err != nil {
		return fmt.Errorf("field data: %w", err)
	}
	never := func([]byte) int { return 0 } // a text file is one document
	return dataset.Each(ctx, files, 1, never, func(_ int, b *dataset.Block) (int, error) {
		if !b.File.Lines {
			return 0, add(b.File.Path, string(b.Text))
		}
		return 0, b.Objects(func(l dataset.Line) error {
			v, err := l.Text("text")
			if err != nil {
				return err
			}
			text, _ := v.Text()
			return add(fmt.Sprintf("%s: line %d", l.File, l.Number), text)
		})
	}, func(*dataset.Block, int) error { return nil })
}
