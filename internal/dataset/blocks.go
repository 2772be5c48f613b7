package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

const (
	// blockSize is about how many bytes a worker takes at a time.
	blockSize = 1 << 20
	// maxLine bounds a line of a .jsonl file in bytes, and what a block may grow
	// to before a text without line ends and spaces is cut.
	maxLine = 64 << 20
	// maxText bounds what is read of a text before it can be cut.
	maxText = 4 << 30
)

// bom begins some text files. It is no part of their text.
var bom = []byte("\ufeff")

// Block is a part of a file.
type Block struct {
	File *File
	Line int // number of its first line, from 1
	// The file begins and ends with it.
	First, Last bool
	Text        []byte
}

// Where names the block for errors.
func (b *Block) Where() string { return fmt.Sprintf("%s: line %d", b.File.Path, b.Line) }

// Cut says how much of a text that is not at its end can be a block; 0: more
// must be read first.
type Cut func(text []byte) int

// cutObjects ends blocks of .jsonl files with a line.
func cutObjects(text []byte) int { return bytes.LastIndexByte(text, '\n') + 1 }

// CutLines ends blocks of text with a line or, where a line is very long, before
// a space.
func CutLines(text []byte) int {
	if n := bytes.LastIndexByte(text, '\n') + 1; n > 0 {
		return n
	}
	if n := bytes.LastIndexByte(text, ' '); n > 0 {
		return n
	}
	if len(text) < maxLine {
		return 0
	}
	n := len(text)
	for n > len(text)-utf8.UTFMax && !utf8.RuneStart(text[n-1]) {
		n--
	}
	return n - 1
}

// reader cuts files into blocks.
type reader struct {
	cut   Cut // for files that are not .jsonl
	spare chan []byte
}

// buffer is memory for a block: that of one which is done, where there is one.
func (r *reader) buffer() []byte {
	select {
	case b := <-r.spare:
		return b[:0]
	default:
		return make([]byte, 0, blockSize+blockSize/8)
	}
}

// free gives the memory of a block back.
func (r *reader) free(b *Block) {
	select {
	case r.spare <- b.Text:
	default:
	}
}

// file calls yield for each block of a file. An empty file has none.
func (r *reader) file(ctx context.Context, f *File, yield func(*Block) error) (err error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	cut := r.cut
	if f.Lines {
		cut = cutObjects
	}
	buf, line, want, begun, first := r.buffer(), 1, blockSize, false, true
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var ended bool
		if buf, ended, err = fill(in, buf, want); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if !begun {
			buf, begun = bytes.TrimPrefix(buf, bom), true
		}
		if ended {
			if len(buf) == 0 {
				return nil
			}
			return yield(&Block{f, line, first, true, buf})
		}
		n := cut(buf)
		if n <= 0 {
			if f.Lines && len(buf) > maxLine {
				return fmt.Errorf("%s: line %d: expected at most %d bytes: %w", f.Path, line, maxLine, ErrData)
			}
			if int64(len(buf)) > maxText {
				return fmt.Errorf("%s: line %d: expected a place to cut the text at within %d bytes: %w", f.Path, line, int64(maxText), ErrData)
			}
			want = 2 * len(buf) // so that a long line is looked through a few times only
			continue
		}
		rest := append(r.buffer(), buf[n:]...)
		b := &Block{f, line, first, false, buf[:n]}
		first = false
		line += bytes.Count(b.Text, []byte("\n"))
		if err := yield(b); err != nil {
			return err
		}
		buf, want = rest, max(blockSize, len(rest)+1)
	}
}

// fill reads until buf has want bytes or the file ends.
func fill(in io.Reader, buf []byte, want int) (_ []byte, ended bool, err error) {
	for len(buf) < want {
		if cap(buf)-len(buf) < 4096 {
			grown := make([]byte, len(buf), max(2*cap(buf), 64<<10))
			copy(grown, buf)
			buf = grown
		}
		n, err := in.Read(buf[len(buf):min(cap(buf), want+4096)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, true, nil
		}
		if err != nil {
			return buf, false, err
		}
	}
	return buf, false, nil
}
