package weights

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"hotpath/internal/group"
)

// digestChunk is what one goroutine hashes at a time, in whole pages of any
// size. Digests depend on it.
const digestChunk = 4 << 20

// Digest is a SHA-256 of everything that the model was read from: descriptions,
// tokenizer and every byte of its tensors. Copies have the same one, whatever
// their path is; a model that differs in one bit has another. All processors
// hash, and pages leave memory behind them.
func (s *Store) Digest(ctx context.Context) (string, error) {
	if s.closed {
		return "", fmt.Errorf("%s: %w", s.path, ErrClosed)
	}
	h := sha256.New()
	fmt.Fprintf(h, "hotpath model 1 %s %d files\n", s.Format(), len(s.maps))
	if s.hf != nil {
		s.hf.digest(h)
	}
	for _, m := range s.maps {
		name := "" // of a GGUF file the name says nothing
		if s.hf != nil {
			rel, err := filepath.Rel(s.path, m.path)
			if err != nil {
				return "", err
			}
			name = filepath.ToSlash(rel)
		}
		sums, err := m.digest(ctx)
		if err != nil {
			return "", err
		}
		framed(h, name, binary.LittleEndian.AppendUint64(sums, uint64(len(m.data))))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// framed writes a named content so that no other list of contents is the same.
func framed(h hash.Hash, name string, content []byte) {
	fmt.Fprintf(h, "%q %d\n", name, len(content))
	h.Write(content)
}

// digest writes the descriptions.
func (h *HFDir) digest(to hash.Hash) {
	for _, c := range append(h.configs(), configFile{"config_sentence_transformers.json", &h.Sentence}) {
		if *c.to != nil {
			framed(to, c.file, (*c.to).Bytes())
		}
	}
	if h.TokenizerJSON != nil {
		framed(to, tokenizerFile, h.TokenizerJSON)
	}
	for _, m := range h.Modules {
		io.WriteString(to, "module\n")
		framed(to, m.Type, []byte(m.Path))
		if m.Config != nil {
			framed(to, "config.json", m.Config.Bytes())
		}
	}
}

// digest are the SHA-256 sums of the file's chunks, one behind the other.
func (m *mapping) digest(ctx context.Context) ([]byte, error) {
	n := (len(m.data) + digestChunk - 1) / digestChunk
	sums := make([]byte, n*sha256.Size)
	var next atomic.Int64
	var all group.Group
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				begin, end := i*digestChunk, min((i+1)*digestChunk, len(m.data))
				sum := sha256.Sum256(m.data[begin:end])
				copy(sums[i*sha256.Size:], sum[:])
				m.drop(begin, end)
			}
		})
	}
	all.Wait()
	return sums, context.Cause(ctx)
}
