package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// vectorWriter writes embeddings in input order. flush makes what was written
// visible; end completes the output.
type vectorWriter interface {
	write(in text, tokens int, vector []float32) error
	flush() error
	end() error
}

// vectorFormats are the values of embed --format, the default first.
var vectorFormats = []string{"text", "json", "jsonl", "csv", "npy", "bin"}

func newVectorWriter(w io.Writer, format string) (vectorWriter, error) {
	switch format {
	case "json", "jsonl":
		return &vectorRecords{records: newRecords(w, format)}, nil
	case "csv":
		return &vectorCSV{w: bufio.NewWriterSize(w, 64<<10)}, nil
	case "bin":
		return &vectorBin{w: bufio.NewWriterSize(w, 64<<10)}, nil
	case "npy":
		return newVectorNpy(w)
	}
	return &vectorText{bufio.NewWriter(w)}, nil
}

// vectorText shows people that there is a vector and what it begins with.
type vectorText struct{ w *bufio.Writer }

func (v *vectorText) write(in text, tokens int, vector []float32) error {
	var head strings.Builder
	for _, x := range vector[:min(4, len(vector))] {
		fmt.Fprintf(&head, "% .4f ", x)
	}
	_, err := fmt.Fprintf(v.w, "%d: %s… (%d dimensions, %d tokens) %s\n", in.index, head.String(), len(vector), tokens, excerpt(in.body, 40))
	return err
}

func (v *vectorText) flush() error { return v.w.Flush() }
func (v *vectorText) end() error   { return v.w.Flush() }

// vectorRecords is {"index":0,"tokens":3,"embedding":[...]}, written without
// reflection: it is most of what a long file costs beside the model.
type vectorRecords struct {
	*records
	buf []byte
}

func (v *vectorRecords) write(in text, tokens int, vector []float32) error {
	b := append(v.buf[:0], `{"index":`...)
	b = strconv.AppendInt(b, int64(in.index), 10)
	b = append(b, `,"tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	b = append(b, `,"embedding":[`...)
	b, err := appendFloats(b, vector)
	if err != nil {
		return fmt.Errorf("%s: %w", in.where, err)
	}
	v.buf = appendCarried(append(b, "]}"...), in.carry)
	v.records.write(v.buf)
	return nil
}

// appendFloats separates by commas, with the digits that give the same f32 back.
func appendFloats(b []byte, vector []float32) ([]byte, error) {
	for i, x := range vector {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return b, fmt.Errorf("the embedding has %v at position %d, expected a number", x, i)
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return b, nil
}

// vectorCSV is one line a text, numbers only.
type vectorCSV struct {
	w   *bufio.Writer
	buf []byte
}

func (v *vectorCSV) write(in text, _ int, vector []float32) (err error) {
	if v.buf, err = appendFloats(v.buf[:0], vector); err != nil {
		return fmt.Errorf("%s: %w", in.where, err)
	}
	v.w.Write(v.buf)
	return v.w.WriteByte('\n')
}

func (v *vectorCSV) flush() error { return v.w.Flush() }
func (v *vectorCSV) end() error   { return v.w.Flush() }

// vectorBin is little-endian f32, one vector after the other.
type vectorBin struct {
	w   *bufio.Writer
	buf []byte
}

func (v *vectorBin) write(_ text, _ int, vector []float32) error {
	v.buf = v.buf[:0]
	for _, x := range vector {
		v.buf = binary.LittleEndian.AppendUint32(v.buf, math.Float32bits(x))
	}
	_, err := v.w.Write(v.buf)
	return err
}

func (v *vectorBin) flush() error { return v.w.Flush() }
func (v *vectorBin) end() error   { return v.w.Flush() }

// vectorNpy is NumPy's format. Its header, which comes first, has the number of
// rows: vectors wait in a temporary file, so that memory stays bounded.
type vectorNpy struct {
	out       io.Writer
	spool     *os.File
	bin       vectorBin
	rows, dim int
}

func newVectorNpy(w io.Writer) (*vectorNpy, error) {
	f, err := os.CreateTemp("", "hotpath-*.npy")
	if err != nil {
		return nil, err
	}
	// Where the system allows it, the file goes away however the process ends.
	os.Remove(f.Name())
	return &vectorNpy{out: w, spool: f, bin: vectorBin{w: bufio.NewWriterSize(f, 64<<10)}}, nil
}

func (v *vectorNpy) write(in text, tokens int, vector []float32) error {
	v.rows++
	v.dim = len(vector)
	return v.bin.write(in, tokens, vector)
}

func (v *vectorNpy) flush() error { return nil }

func (v *vectorNpy) end() (err error) {
	defer func() {
		err = errors.Join(err, v.spool.Close())
		os.Remove(v.spool.Name())
	}()
	if err := v.bin.flush(); err != nil {
		return err
	}
	if _, err := v.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.WriteString(v.out, npyHeader(v.rows, v.dim)); err != nil {
		return err
	}
	_, err = io.Copy(v.out, v.spool)
	return err
}

// npyHeader pads so that the data begin at a multiple of 64 bytes.
func npyHeader(rows, dim int) string {
	h := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, dim)
	h += strings.Repeat(" ", (64-(10+len(h)+1)%64)%64) + "\n"
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(h)))) + h
}
