// Package atomicfile writes files atomically: a file is written without a name,
// or under a hidden one beside its target where the system has no such files,
// synced and renamed. Whatever fails, the target is as it was, and nothing else
// is left. A killed process leaves a file only where it needs a hidden name.
//
// It imports lockfile only; whoever writes files may import it. Every error
// names the file as the caller did, never the hidden one.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hotpath/internal/lockfile"
)

// File is a file that gets its name when it is complete. It is for one
// goroutine.
type File struct {
	file   *os.File
	path   string // as the caller gave it
	target string // where the links of path lead
	temp   string // hidden name; "" for a pipe or a device, which is written directly
	named  bool   // temp is in the folder
	mode   fs.FileMode
	failed error // of the first write that failed
	closed bool
}

// Create begins a file. A target that may not be written, or is a directory, is
// an error now. A pipe or a device is opened and written directly.
func Create(path string) (*File, error) {
	f := &File{path: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, f.wrong(err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: cannot be written: is a directory, expected a file", path)
	case !info.Mode().IsRegular():
		if f.file, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
			return nil, f.wrong(err)
		}
		return f, nil
	default:
		// Renaming would replace a file that its owner protects from writing.
		old, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = old.Close()
		}
		if err != nil {
			return nil, f.wrong(err)
		}
		f.mode = info.Mode().Perm()
	}
	if f.target, err = Followed(path); err != nil {
		return nil, err
	}
	return f.begin()
}

// begin opens what will be renamed.
func (f *File) begin() (_ *File, err error) {
	f.temp = f.hide()
	if f.file, err = unnamed(filepath.Dir(f.target)); err == nil {
		return f, nil
	}
	for f.named = true; ; f.temp = f.hide() {
		f.file, err = os.OpenFile(f.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, f.wrong(err)
		}
	}
}

// hide is a hidden name that is most likely free.
func (f *File) hide() string {
	return hidden(f.target, fmt.Sprintf("%s%x", tempMark, rand.Uint64()))
}

// Check says what Create would, and changes nothing.
func Check(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil // opening a pipe would wait
	}
	f, err := Create(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Direct reports whether the file is a pipe or a device, which is written from
// its beginning to its end.
func (f *File) Direct() bool { return f.temp == "" }

func (f *File) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	return n, f.fail(err)
}

// WriteAt is for files that are not Direct.
func (f *File) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.file.WriteAt(b, at)
	return n, f.fail(err)
}

func (f *File) fail(err error) error {
	err = f.wrong(err)
	if f.failed == nil {
		f.failed = err
	}
	return err
}

func (f *File) wrong(err error) error { return Named(f.path, err) }

// Named is the error of a write to path, whichever name the system knows the
// file by.
func Named(path string, err error) error {
	if err == nil {
		return nil
	}
	var at *fs.PathError
	var moved *os.LinkError
	switch {
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &moved):
		err = moved.Err
	}
	return fmt.Errorf("%s: cannot be written: %w", path, err)
}

// Commit gives the file its name and closes it. It fails if any write did.
func (f *File) Commit() error {
	if f.closed {
		return f.wrong(os.ErrClosed)
	}
	if f.failed != nil {
		_ = f.Close() // the first error is the one to know
		return f.failed
	}
	f.closed = true
	if f.Direct() {
		return f.wrong(f.file.Close())
	}
	err := f.file.Sync()
	if err == nil && f.mode != 0 {
		err = f.file.Chmod(f.mode)
	}
	if err == nil && !f.named {
		err = link(f.file, f.temp)
		f.named = err == nil
	}
	if closed := f.file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.temp, f.target)
	}
	if err != nil {
		if f.named {
			_ = os.Remove(f.temp) // the first error is the one to know
		}
		return f.wrong(err)
	}
	return f.wrong(SyncDir(filepath.Dir(f.target)))
}

// Close removes a file that was not committed. After Commit it does nothing.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.file.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.temp))
	}
	return f.wrong(err)
}

// Write writes a file by a function. What the function writes is buffered.
func Write(path string, write func(w io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<18)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	if err == nil {
		return f.Commit()
	}
	if f.failed == nil { // the function's own error
		err = fmt.Errorf("%s: %w", path, err)
	}
	_ = f.Close() // the first error is the one to know
	return err
}

// WriteFile writes data as a file that a person named.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// Replace writes data as a file that the program named: a cache, a state, a
// log. What is there is replaced and never opened, because a pipe would wait.
func Replace(path string, data []byte) error {
	f, err := (&File{path: path, target: path}).begin()
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Lock keeps other processes that lock path from writing it, and removes what
// killed ones left. Where another holds the lock, the error is a
// *lockfile.HeldError.
func Lock(path string) (*lockfile.Lock, error) {
	target, err := Followed(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(target)); err != nil { // the lock would make it
		return nil, Named(path, err)
	}
	l, err := lockfile.Acquire(hidden(target, ".lock"))
	if held := (*lockfile.HeldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("%s: another process writes it: %w", path, err)
	}
	if err != nil {
		return nil, Named(path, err)
	}
	if err := Sweep(target); err != nil {
		return nil, errors.Join(Named(path, err), l.Release())
	}
	return l, nil
}

// Sweep removes what killed writers of a file left. The caller has a lock that
// keeps other writers away. target is no link.
func Sweep(target string) error {
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a folder that may be written but not listed
	}
	prefix := filepath.Base(hidden(target, tempMark))
	for _, e := range entries {
		mark, ours := strings.CutPrefix(e.Name(), prefix)
		// Others may have the beginning only: the lock of a target "x.tmp-1", or a
		// file that somebody else hid.
		ours = ours && mark != "" && strings.Trim(mark, "0123456789abcdef") == ""
		if ours && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

const (
	tempMark = ".tmp-"
	maxName  = 200 // bytes of a target's name within a hidden one; systems allow 255 in all
)

// hidden is a name beside target. A long name is cut and told apart by its hash.
func hidden(target, suffix string) string {
	dir, base := filepath.Split(target)
	if len(base) > maxName {
		h := fnv.New64a()
		io.WriteString(h, base)
		base = fmt.Sprintf("%s-%x", base[:maxName], h.Sum64())
	}
	return dir + "." + base + suffix
}

// SyncDir makes the names in a folder last, on systems that can do so.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) { // it may be written but not listed
		return nil
	}
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) || os.PathSeparator == '\\' {
		err = nil
	}
	return errors.Join(err, d.Close())
}
