package lockfile

import (
	"errors"
	"os"
	"syscall"
)

// Where the system or the file system has no locks, a second file whose
// creation only one process can succeed in takes their place. It stays when its
// process dies, so its text says whose it is.
const pidSuffix = ".pid"

// acquirePID takes the lock at path by creating its pid file. f is the open
// lock file, which is not needed then.
func acquirePID(path string, f *os.File) (*Lock, error) {
	f.Close()
	pid := path + pidSuffix
	for {
		f, err := os.OpenFile(pid, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		if err == nil {
			err = errors.Join(sign(f), f.Close())
			if err != nil {
				os.Remove(pid)
				return nil, err
			}
			return &Lock{path: path, pid: pid}, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		line, err := readHolder(pid)
		if errors.Is(err, os.ErrNotExist) {
			continue // given back meanwhile
		}
		if err != nil {
			return nil, err
		}
		id, at, ok := signed(line)
		if !ok { // its process is about to sign it, or died before
			return nil, &HeldError{Path: pid, Holder: "another process (remove the file if none runs)"}
		}
		if at != host() || alive(id) {
			return nil, &HeldError{Path: pid, Holder: line}
		}
		if err := removeStale(pid, line); err != nil {
			return nil, err
		}
	}
}

func readHolder(pid string) (string, error) {
	f, err := os.Open(pid)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return text(f), nil
}

// removeStale removes the pid file of a dead process. It takes the file aside
// first: if another process was faster, the file is that one's and goes back.
func removeStale(pid, line string) error {
	aside := pid + ".stale"
	if err := os.Rename(pid, aside); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if now, err := readHolder(aside); err == nil && now != line {
		return os.Rename(aside, pid)
	}
	return os.Remove(aside)
}

// alive reports whether a process of this machine runs. It says yes where it
// cannot know.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
