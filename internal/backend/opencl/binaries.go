package opencl

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hotpath/internal/atomicfile"
)

// binaries keeps compiled programs in files, so that a second start compiles nothing. A
// file is named after the device, its driver, the source and the options; it begins
// with the checksum of the binary. Files that cannot be used are replaced.
type binaries struct {
	folder string // "": nothing is kept
	device string // device and driver
}

const (
	// maxBinary bounds a file that is read.
	maxBinary = 64 << 20
	// mostBinaries is how many files are kept: of the device at hand and of earlier
	// drivers. The oldest ones go.
	mostBinaries = 400
)

// newBinaries keeps programs of a device in a folder. PoCL has a cache of its own, and
// compiles every kernel for groups of any size where it is asked for a binary.
func newBinaries(folder string, d description) binaries {
	if folder == "" || d.Platform == pocl {
		return binaries{}
	}
	return binaries{filepath.Join(folder, "opencl-programs"), fmt.Sprintf("%q %q %q %q", d.Platform, d.Name, d.Driver, d.Version)}
}

// file is where the program of a source is kept.
func (k binaries) file(text, options string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s", k.device, options, text)
	return filepath.Join(k.folder, fmt.Sprintf("%x", h.Sum(nil)[:16]))
}

// load makes a program of a kept binary, if there is one that the runtime takes.
func (k binaries) load(drv driver, text, options string) (program, bool) {
	if k.folder == "" {
		return 0, false
	}
	f, err := os.Open(k.file(text, options))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBinary))
	if err != nil || len(data) <= sha256.Size {
		return 0, false
	}
	sum := sha256.Sum256(data[sha256.Size:])
	if !bytes.Equal(sum[:], data[:sha256.Size]) {
		return 0, false
	}
	p, err := drv.load(data[sha256.Size:], options)
	return p, err == nil
}

// store keeps the binary of a program. That it cannot be kept is no reason to fail.
func (k binaries) store(drv driver, p program, text, options string) {
	if k.folder == "" {
		return
	}
	data, err := drv.binary(p)
	if err != nil || len(data) == 0 || os.MkdirAll(k.folder, 0o777) != nil {
		return
	}
	sum := sha256.Sum256(data)
	_ = atomicfile.WriteFile(k.file(text, options), append(sum[:], data...))
	k.prune()
}

// prune removes the oldest files where there are too many.
func (k binaries) prune() {
	entries, err := os.ReadDir(k.folder)
	if err != nil || len(entries) <= mostBinaries {
		return
	}
	age := func(e os.DirEntry) int64 {
		about, err := e.Info()
		if err != nil { // it is gone
			return 0
		}
		return about.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return int(age(a) - age(b)) })
	for _, e := range entries[:len(entries)-mostBinaries] {
		_ = os.Remove(filepath.Join(k.folder, e.Name()))
	}
}
