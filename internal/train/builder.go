package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"unicode/utf8"

	"hotpath/internal/dataset"
)

// shardBytes is about how large a shard becomes.
const shardBytes = 64 << 20

// builder makes shards of files.
type builder struct {
	shard
	spec  *sourceSpec
	hash  hash.Hash
	limit int                // bytes of a shard; 0: one shard takes all
	full  func(*shard) error // takes a shard that is complete, and keeps nothing of it
}

func newBuilder(spec *sourceSpec) *builder { return &builder{spec: spec, hash: sha256.New()} }

// build reads all files on several workers. Shards depend on the data only.
func (b *builder) build(ctx context.Context, files []dataset.File, form *recordForm) error {
	encoders := make([]*encoder, b.spec.workers+1)
	for i := range encoders {
		encoders[i] = &encoder{ctx: ctx, spec: b.spec}
	}
	spare := make(chan *chunk, 2*b.spec.workers+2) // memory of chunks that are done
	work := func(worker int, block *dataset.Block) (*chunk, error) {
		e := encoders[worker]
		select {
		case e.out = <-spare:
			e.out.reset()
			e.out.joined = false
		default:
			e.out = new(chunk)
		}
		return e.out, e.block(block, form)
	}
	cut := encoders[b.spec.workers].cut // on the goroutine that reads
	done, total := int64(0), totalSize(files)
	return dataset.Each(ctx, files, b.spec.workers, cut, work, func(block *dataset.Block, c *chunk) error {
		if done += int64(len(block.Text)); b.spec.progress != nil {
			b.spec.progress(done, total)
		}
		b.count(c, block.File.Lines || block.Last)
		if b.limit > 0 && b.size() > b.limit {
			if err := b.end(); err != nil {
				return err
			}
			c.joined = false // a document of more than a shard goes on as another one
		}
		b.addChunk(c)
		select {
		case spare <- c:
		default:
		}
		return nil
	})
}

// end hands over the shard and begins another one in its memory.
func (b *builder) end() error {
	err := b.full(&b.shard)
	b.reset()
	return err
}

// block encodes a block of a file.
func (e *encoder) block(b *dataset.Block, form *recordForm) error {
	if b.File.Lines {
		return b.Objects(func(l dataset.Line) error {
			if err := form.fits(&l); err != nil {
				return err
			}
			return form.make(e, &l)
		})
	}
	where := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", b.Where(), fmt.Sprintf(format, args...), ErrData)
	}
	if form.kind != Text {
		return fmt.Errorf("%s: a text file among data of kind %s, expected .jsonl files only: %w", b.File.Path, form.kind, ErrData)
	}
	return e.text(string(b.Text), b.First, b.Last, where)
}

// count adds a chunk to the fingerprint, which does not depend on where chunks
// and shards end. ended says whether the last sequence is complete.
func (b *builder) count(c *chunk, ended bool) {
	begin, seq := int64(0), int64(0)
	var mark [12]byte
	for n, last := range c.examples {
		for ; seq < last; seq++ {
			end := c.seqs[seq]
			_, _ = b.hash.Write(bytesOf(c.ids[begin:end])) // a hash never fails
			if len(c.flags) > 0 {
				_, _ = b.hash.Write(c.flags[begin:end])
			}
			begin = end
			if ended || seq < int64(len(c.seqs))-1 {
				binary.LittleEndian.PutUint64(mark[:], math.MaxUint64) // no token has such an id
				_, _ = b.hash.Write(mark[:8])
			}
		}
		if ended || n < len(c.examples)-1 {
			binary.LittleEndian.PutUint32(mark[8:], math.Float32bits(c.values[n]))
			_, _ = b.hash.Write(mark[:])
		}
	}
}

func (b *builder) fingerprint() string { return hex.EncodeToString(b.hash.Sum(nil)) }

const (
	// cutReach is how many bytes on either side of a cut are looked at.
	cutReach = 256
	// cutTries is how many places of a kind are tried.
	cutTries = 16
)

// cut finds a position where a long text can be divided without a change of its
// tokens: at the end of a line or before a space, if the tokenizer allows it.
func (e *encoder) cut(text []byte) int {
	ends := [...]func(i int) bool{
		func(i int) bool { return text[i-1] == '\n' },
		func(i int) bool { return text[i] == ' ' && text[i-1] != ' ' && text[i-1] != '\n' },
	}
	for _, end := range ends {
		tries := 0
		for i := len(text) - cutReach; i > len(text)/2 && tries < cutTries; i-- {
			if !end(i) || !utf8.RuneStart(text[i]) {
				continue
			}
			tries++
			if e.divides(text[max(0, i-cutReach):i], text[i:i+cutReach]) {
				return i
			}
		}
	}
	return 0
}

// divides reports whether two texts have the same tokens apart and together.
func (e *encoder) divides(a, b []byte) bool {
	for len(a) > 0 && !utf8.RuneStart(a[0]) {
		a = a[1:]
	}
	for n := len(b); len(b) > n-utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); {
		b = b[:len(b)-1]
	}
	e.part = e.ids(e.ids(e.part[:0], string(a), false, false), string(b), false, false)
	e.part2 = e.ids(e.part2[:0], string(a)+string(b), false, false)
	return slices.Equal(e.part, e.part2)
}
