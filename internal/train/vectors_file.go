package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// vectorsFile is a mapped .npy file of vectors, as `hotpath embed` writes it:
// little-endian f32, one row per text.
type vectorsFile struct {
	path        string
	rows, width int
	values      []float32 // [rows,width]
	unmap       func() error
}

const npyMagic = "\x93NUMPY"

var npyDict = regexp.MustCompile(`^\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d{1,10}), (\d{1,6})\),? *\}\s*$`)

// openVectors maps the file and checks its header.
func openVectors(path string) (*vectorsFile, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a .npy file, as embed --format npy writes it: %w", path, ErrData)
	}
	data, unmap, err := weights.MapFile(path)
	if err != nil {
		return nil, err
	}
	v := &vectorsFile{path: path, unmap: unmap}
	if err := v.parse(data); err != nil {
		_ = unmap() // the first error is the one to know
		return nil, err
	}
	return v, nil
}

func (v *vectorsFile) parse(data []byte) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", v.path, fmt.Sprintf(format, args...), ErrData)
	}
	if len(data) < 10 || !bytes.HasPrefix(data, []byte(npyMagic)) {
		return bad("expected a .npy file, as embed --format npy writes it")
	}
	begin, size := 10, int(binary.LittleEndian.Uint16(data[8:])) // version 1
	if data[6] > 1 {
		if len(data) < 12 {
			return bad("the header ends after %d bytes", len(data))
		}
		begin, size = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if size < 0 || size > len(data)-begin {
		return bad("a header of %d bytes, but the file has %d", size, len(data))
	}
	shape := npyDict.FindSubmatch(data[begin : begin+size])
	if shape == nil {
		return bad("header %.80q, expected rows of '<f4' in C order", data[begin:begin+size])
	}
	v.rows, _ = strconv.Atoi(string(shape[1]))
	v.width, _ = strconv.Atoi(string(shape[2]))
	body := data[begin+size:]
	if v.rows == 0 || v.width == 0 || len(body) != 4*v.rows*v.width {
		return bad("%d bytes of values, expected %d for %d rows of %d", len(body), 4*v.rows*v.width, v.rows, v.width)
	}
	if (begin+size)%4 != 0 {
		return bad("values begin at byte %d, expected a multiple of 4", begin+size)
	}
	v.values = viewOf[float32](body)
	return nil
}

func (v *vectorsFile) row(i int) []float32 { return v.values[i*v.width : (i+1)*v.width] }

// digest tells the vectors from others.
func (v *vectorsFile) digest() string {
	sum := sha256.Sum256(tensor.Bytes(v.values))
	return hex.EncodeToString(sum[:])
}

func (v *vectorsFile) close() error { return v.unmap() }
