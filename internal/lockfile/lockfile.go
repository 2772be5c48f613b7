// Package lockfile keeps two processes from writing one place. A lock is a file
// that the process holding it has locked with the system; the file's text names
// that process. The system drops the lock when the process ends, however it
// ends, so that a lock of a dead process never blocks.
//
// It imports nothing of ours; whoever writes files may import it. A lock that
// somebody else holds is a *HeldError; other errors are those of the file.
package lockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

const (
	maxText = 512 // bytes of a lock file
	mark    = "pid "
	poll    = 100 * time.Millisecond
)

// HeldError reports a lock that another process, or another part of this one,
// holds.
type HeldError struct {
	Path   string // of the lock file
	Holder string // pid, host, time and command, as far as they are known
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s: locked by %s", e.Path, e.Holder)
}

// Lock is a lock that this process holds.
type Lock struct {
	path string
	file *os.File // nil where the lock is a pid file
	pid  string   // path of the pid file

	foreign bool // the file holds something else than a holder, and stays as it is
}

// Acquire takes the lock at path for the caller alone, or returns a *HeldError
// at once. It creates the file and its folder where they are missing.
func Acquire(path string) (*Lock, error) { return acquire(path, true) }

// AcquireShared takes the lock at path beside others that share it. On systems
// without shared locks it is Acquire.
func AcquireShared(path string) (*Lock, error) { return acquire(path, false) }

// Wait calls take, which is Acquire or AcquireShared, until it gets the lock or
// ctx ends. waiting, if not nil, hears once who holds the lock.
func Wait(ctx context.Context, path string, take func(path string) (*Lock, error), waiting func(*HeldError)) (*Lock, error) {
	for {
		l, err := take(path)
		var held *HeldError
		if !errors.As(err, &held) {
			return l, err
		}
		if waiting != nil {
			waiting(held)
			waiting = nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func acquire(path string, alone bool) (*Lock, error) {
	for tries := 0; ; tries++ {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		f, err := open(path)
		if errors.Is(err, os.ErrNotExist) && tries < 10 { // the folder was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		err = lock(f, alone)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // some file systems have no locks
			return acquirePID(path, f)
		case err == errHeld:
			err = &HeldError{Path: path, Holder: holder(f)}
		case err != nil:
			err = &os.PathError{Op: "lock", Path: path, Err: err}
		case !stillAt(path, f): // its former holder removed it
			f.Close()
			continue
		}
		foreign := err == nil && !ours(f)
		if err == nil && !foreign {
			_ = sign(f) // on a full disk the lock has no name, and is still a lock
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return &Lock{path: path, file: f, foreign: foreign}, nil
	}
}

var errHeld = errors.New("held")

// open opens a lock file, which is a regular file and no link to one.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|noFollow, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: expected a regular file to lock, or none", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ours reports whether a lock file may be overwritten and removed: it is empty
// or names a holder.
func ours(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Size() == 0 || strings.HasPrefix(text(f), mark))
}

// text reads a lock file.
func text(f *os.File) string {
	buf := make([]byte, maxText)
	n, _ := io.ReadFull(io.NewSectionReader(f, 0, maxText), buf)
	line, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(line), "?"))
}

// sign writes who holds the lock. A reader sees the old text or the new one,
// because one write replaces all of it.
func sign(f *os.File) error {
	b := make([]byte, maxText)
	for i := copy(b, self()); i < len(b); i++ {
		b[i] = '\n'
	}
	_, err := f.WriteAt(b, 0)
	return err
}

// self names this process in one line that fits a lock file.
func self() string {
	command := filepath.Base(os.Args[0])
	for _, a := range os.Args[1:] {
		command += " " + a
	}
	command = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, command)
	line := fmt.Sprintf("%s%d on %s since %s: %s", mark, os.Getpid(), host(), time.Now().Format(time.RFC3339), command)
	if len(line) >= maxText {
		line = line[:maxText-1]
	}
	return line
}

func host() string {
	name, err := os.Hostname()
	if err != nil || name == "" || strings.ContainsAny(name, " \t\r\n") {
		return "?"
	}
	return name
}

// holder names the process that signed a lock file, if it still runs.
func holder(f *os.File) string {
	line := text(f)
	pid, at, ok := signed(line)
	if !ok || at == host() && !alive(pid) {
		return "another process" // other tools leave no text
	}
	return line
}

// signed reads the pid and host of a holder.
func signed(line string) (pid int, at string, ok bool) {
	n, _ := fmt.Sscanf(line, mark+"%d on %s since", &pid, &at)
	return pid, at, n == 2 && pid > 0
}

// stillAt reports whether an open file is the one that its path leads to.
func stillAt(path string, f *os.File) bool {
	now, err := os.Lstat(path)
	was, failed := f.Stat()
	return err == nil && failed == nil && os.SameFile(now, was)
}

// Release gives the lock back and removes its file, unless the file holds
// something else.
func (l *Lock) Release() error {
	if l.file == nil {
		os.Remove(l.path) // empty, and no lock where there are pid files
		return os.Remove(l.pid)
	}
	if l.foreign {
		return l.file.Close()
	}
	return removeLocked(l.path, l.file)
}

// Leave gives the lock back and leaves its file, which other programs may have
// open as a lock too.
func (l *Lock) Leave() error {
	if l.file == nil {
		return os.Remove(l.pid)
	}
	return l.file.Close()
}
