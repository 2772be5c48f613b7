package train

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// An interrupt ends reading where no document comes for a long time: blank lines,
// one large text, a folder of other files.
func TestReadingIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "other/notes.md", "no text of ours")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for _, path := range []string{
		write(t, dir, "blank.jsonl", strings.Repeat("\n", 1000)),
		write(t, dir, "large.txt", strings.Repeat("words ", 1000)),
		dir + "/other",
	} {
		err := readPath(ctx, path, func(from, _ string) error {
			t.Errorf("%s was read to its end", from)
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v, expected the cause of the interrupt", path, err)
		}
	}
}
