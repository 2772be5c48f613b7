package train

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/tokenizer"
)

// ErrData reports training data that cannot be read.
var ErrData = errors.New("invalid training data")

// maxLine is the longest line of a .jsonl file in bytes.
const maxLine = 64 << 20

// corpus is all documents as token ids, one after the other.
type corpus struct {
	ids  []int32
	ends []int // of each document in ids
}

// readCorpus tokenizes everything below paths, in the order of paths and of
// names within a directory, so that the same files give the same corpus.
func readCorpus(ctx context.Context, paths []string, t *tokenizer.Tokenizer, vocab int) (*corpus, error) {
	c := &corpus{}
	var scratch tokenizer.Scratch
	eos, hasEOS := t.EOS()
	add := func(from, text string) error {
		begin := len(c.ids)
		c.ids = t.Encode(c.ids, text, tokenizer.Options{Special: true, Done: ctx.Done()}, &scratch)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if n := len(c.ids); n == begin {
			return nil
		} else if hasEOS && c.ids[n-1] != eos {
			c.ids = append(c.ids, eos)
		}
		for i, id := range c.ids[begin:] {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("%s: token %d has the id %d, expected one below %d, the model's vocabulary: %w", from, i, id, vocab, ErrData)
			}
		}
		c.ends = append(c.ends, len(c.ids))
		return nil
	}
	for _, path := range paths {
		if err := readPath(ctx, path, add); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// maxFile bounds a file of texts, which is held in memory.
const maxFile = 4 << 30

// readPath calls add for each document of a file, or of the .txt and .jsonl
// files below a directory.
func readPath(ctx context.Context, path string, add func(from, text string) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("field data: %w", err)
	}
	if !info.IsDir() {
		return readFile(ctx, path, add)
	}
	found := false
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || d.IsDir() {
			return err
		}
		if ext := strings.ToLower(filepath.Ext(file)); ext != ".txt" && ext != ".jsonl" {
			return nil
		}
		found = true
		return readFile(ctx, file, add)
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no .txt and no .jsonl file in this directory: %w", path, ErrData)
	}
	return err
}

func readFile(ctx context.Context, path string, add func(from, text string) error) error {
	info, err := os.Stat(path) // before it is opened, which waits where it is a pipe
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return fmt.Errorf("%s: expected a regular file of at most %d bytes: %w", path, int64(maxFile), ErrData)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := until{ctx, f}
	if strings.EqualFold(filepath.Ext(path), ".jsonl") {
		return readLines(path, in, add)
	}
	var text strings.Builder
	if _, err := io.Copy(&text, in); err != nil {
		return err
	}
	return add(path, text.String())
}

// until reads while ctx lasts: a file may have billions of bytes before the next
// document, or none.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(b)
}

// readLines calls add for the "text" of each object of a .jsonl file.
func readLines(path string, f io.Reader, add func(from, text string) error) error {
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var object struct {
			Text *string `json:"text"`
		}
		from := fmt.Sprintf("%s: line %d", path, n)
		if err := json.Unmarshal(line, &object); err != nil || object.Text == nil {
			return fmt.Errorf("%s: expected an object with a string %q: %w", from, "text", ErrData)
		}
		if err := add(from, *object.Text); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: line %d: %w", path, n+1, err)
	}
	return nil
}

// fingerprint tells this corpus from any other.
func (c *corpus) fingerprint() string {
	h := sha256.New()
	var b []byte
	for _, end := range c.ends {
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(end))
		_, _ = h.Write(b) // a hash never fails
	}
	b = make([]byte, 0, 4096)
	for i, id := range c.ids {
		if b = binary.LittleEndian.AppendUint32(b, uint32(id)); len(b) == cap(b) || i == len(c.ids)-1 {
			_, _ = h.Write(b)
			b = b[:0]
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// piece is a stretch of one document: n ids to read, each of which has a next.
type piece struct {
	start int // in corpus.ids
	n     int
}

// pieces cuts documents into stretches of at most seqLen, so that every token
// but the first of a document is predicted once in an epoch.
func (c *corpus) pieces(seqLen int) []piece {
	var ps []piece
	begin := 0
	for _, end := range c.ends {
		for at := begin; at < end-1; at += seqLen {
			ps = append(ps, piece{at, min(seqLen, end-1-at)})
		}
		begin = end
	}
	return ps
}
