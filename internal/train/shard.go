package train

import (
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"
)

// shard is a part of the data as ids, in memory or in a mapped file. Sequences
// lie one after the other, and so do examples.
type shard struct {
	ids      []int32   // [n]
	seqs     []int64   // [sequences] where each ends in ids
	examples []int64   // [examples] where each ends in seqs
	values   []float32 // [examples] label or score
	flags    []byte    // [n], nil where the kind has none
}

// chunk is a shard in the making, of one block of a file.
type chunk struct {
	shard
	joined bool // its first sequence goes on with the last one before it
}

// reset forgets all but the memory.
func (s *shard) reset() {
	s.ids, s.seqs, s.examples, s.values, s.flags = s.ids[:0], s.seqs[:0], s.examples[:0], s.values[:0], s.flags[:0]
}

// flagged reports whether tokens of the kind have flags.
func (k Kind) flagged() bool { return k == Answer || k == Preference || k == Labelled }

// addChunk appends a chunk.
func (s *shard) addChunk(c *chunk) {
	ids, seqs := int64(len(s.ids)), int64(len(s.seqs))
	s.ids, s.flags = append(s.ids, c.ids...), append(s.flags, c.flags...)
	for i, end := range c.seqs {
		if c.joined && i == 0 {
			s.seqs[seqs-1] = ids + end
		} else {
			s.seqs = append(s.seqs, ids+end)
		}
	}
	for i, end := range c.examples {
		if c.joined && i == 0 {
			continue
		}
		if c.joined {
			end--
		}
		s.examples, s.values = append(s.examples, seqs+end), append(s.values, c.values[i])
	}
}

// size is about how many bytes it takes.
func (s *shard) size() int { return 4*len(s.ids) + len(s.flags) + 8*len(s.seqs) + 12*len(s.examples) }

// span is where sequence i lies in ids.
func (s *shard) span(i int64) (from, to int64) {
	if i > 0 {
		from = s.seqs[i-1]
	}
	return from, s.seqs[i]
}

// The file of a shard is a header of 48 bytes, then ids, ends of sequences, ends of
// examples, values and flags. Each part begins at a multiple of 8 bytes. Numbers are
// little endian.
const (
	shardMagic  = "HPTOKEN1"
	shardHeader = 48
)

func (s *shard) sections() [][]byte {
	return [][]byte{bytesOf(s.ids), bytesOf(s.seqs), bytesOf(s.examples), bytesOf(s.values), s.flags}
}

func bytesOf[T int32 | int64 | float32](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

func viewOf[T int32 | int64 | float32](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(t)))
}

// write writes the file of a shard.
func (s *shard) write(w io.Writer) error {
	header := append(make([]byte, 0, shardHeader), shardMagic...)
	for _, n := range []int{len(s.ids), len(s.seqs), len(s.examples), len(s.flags), 0} {
		header = binary.LittleEndian.AppendUint64(header, uint64(n))
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	var zero [8]byte
	for _, section := range s.sections() {
		if _, err := w.Write(section); err != nil {
			return err
		}
		if _, err := w.Write(zero[:padding8(len(section))]); err != nil {
			return err
		}
	}
	return nil
}

func padding8(n int) int { return -n & 7 }

// parseShard checks data, the bytes of a file; path is for errors. The shard lies
// in data, which must begin at a multiple of 8.
func parseShard(path string, data []byte) (*shard, error) {
	bad := func(format string, args ...any) (*shard, error) {
		return nil, fmt.Errorf("%s: %s: remove the folder, the next run creates it again: %w", path, fmt.Sprintf(format, args...), ErrData)
	}
	if len(data) < shardHeader || string(data[:len(shardMagic)]) != shardMagic {
		return bad("expected a file of tokens")
	}
	var n [4]int
	for i := range n {
		v := binary.LittleEndian.Uint64(data[len(shardMagic)+8*i:])
		if v > uint64(len(data)) {
			return bad("section %d has %d entries, expected fewer than the file has bytes", i, v)
		}
		n[i] = int(v)
	}
	rest := data[shardHeader:]
	take := func(size int) []byte {
		if size > len(rest) {
			return nil
		}
		section := rest[:size:size]
		rest = rest[min(len(rest), size+padding8(size)):]
		return section
	}
	want := 0
	for _, size := range []int{4 * n[0], 8 * n[1], 8 * n[2], 4 * n[2], n[3]} {
		want += size + padding8(size)
	}
	if want != len(rest) {
		return bad("%d bytes, expected %d", len(data), shardHeader+want)
	}
	s := &shard{ids: viewOf[int32](take(4 * n[0])), seqs: viewOf[int64](take(8 * n[1])), examples: viewOf[int64](take(8 * n[2])), values: viewOf[float32](take(4 * n[2]))}
	if n[3] > 0 {
		s.flags = take(n[3])
	}
	if n[3] != 0 && n[3] != n[0] {
		return bad("%d flags of %d tokens", n[3], n[0])
	}
	if !rising(s.seqs, int64(n[0])) || !rising(s.examples, int64(n[1])) {
		return bad("ends of sequences or examples do not rise to the end of what they divide")
	}
	return s, nil
}

// suits reports whether a shard has what examples of a kind need.
func (s *shard) suits(k Kind) bool {
	return (!k.flagged() || len(s.flags) == len(s.ids)) && (k != Text || len(s.examples) == len(s.seqs))
}

// rising reports whether ends divide n things into parts.
func rising(ends []int64, n int64) bool {
	last := int64(0)
	for _, end := range ends {
		if end < last {
			return false
		}
		last = end
	}
	return last == n
}
