package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f without the rights of root, to whom every file is writable.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // rights on files are the thread's
		defer runtime.UnlockOSThread()
		const nobody = 65534
		if err := unix.Setfsuid(nobody); err != nil {
			t.Skip("cannot be another user here")
		}
		defer unix.Setfsuid(0)
	}
	f()
}

// A file that its owner protects is not replaced, and a folder without a right
// to write gets no file.
func TestProtectedPlaces(t *testing.T) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, shut := filepath.Join(dir, "file"), filepath.Join(dir, "shut")
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(file, []byte("old"), 0o444), os.Mkdir(shut, 0o555)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		for _, path := range []string{file, filepath.Join(shut, "x")} {
			for what, err := range map[string]error{"Check": Check(path), "WriteFile": WriteFile(path, []byte("new"))} {
				if !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(err.Error(), path+": cannot be written: ") {
					t.Errorf("%s of %s: %v, expected that it is not allowed", what, path, err)
				}
			}
		}
		if _, err := Lock(filepath.Join(shut, "x")); !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(err.Error(), filepath.Join(shut, "x")+": ") {
			t.Errorf("Lock: %v", err)
		}
	})
	holds(t, file, "old")
	only(t, dir, "file", "shut")
	only(t, shut)
}

// TestFullDisk is on a file system that is really full.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	path := filepath.Join(dir, "x")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	for what, err := range map[string]error{"WriteFile": WriteFile(path, big), "Replace": Replace(path, big)} {
		if !errors.Is(err, syscall.ENOSPC) || err.Error() != path+": cannot be written: no space left on device" {
			t.Errorf("%s: %v", what, err)
		}
		holds(t, path, "old")
		only(t, dir, "x")
	}
}
