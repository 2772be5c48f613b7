package lockfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func mustAcquire(t *testing.T, take func(string) (*Lock, error), path string) *Lock {
	t.Helper()
	l, err := take(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantHeld(t *testing.T, err error, parts ...string) {
	t.Helper()
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("error %v, expected a *HeldError", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q, expected it to say %q", err, p)
		}
	}
}

func TestHeldNamesHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "out.lock")
	l := mustAcquire(t, Acquire, path)
	_, err := Acquire(path)
	wantHeld(t, err, path, fmt.Sprintf("pid %d on ", os.Getpid()), " since 2", filepath.Base(os.Args[0]))
	_, err = AcquireShared(path)
	wantHeld(t, err)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Release: %v, expected the file to be gone", err)
	}
	l = mustAcquire(t, Acquire, path)
	if err := l.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("after Leave: %v", err)
	}
	if err := mustAcquire(t, Acquire, path).Release(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "use.lock")
	a := mustAcquire(t, AcquireShared, path)
	b := mustAcquire(t, AcquireShared, path)
	_, err := Acquire(path)
	wantHeld(t, err)
	if err := a.Release(); err != nil { // must not remove the file under b
		t.Fatal(err)
	}
	_, err = Acquire(path)
	wantHeld(t, err)
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	if err := mustAcquire(t, Acquire, path).Release(); err != nil {
		t.Fatal(err)
	}
}

func TestOneAtATime(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(string) (*Lock, error)
	}{{"flock", Acquire}, {"pid file", takePID}} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.lock")
			var inside, most atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 20 {
						l, err := c.take(path)
						if err != nil {
							var held *HeldError
							if !errors.As(err, &held) {
								t.Error(err)
							}
							runtime.Gosched()
							continue
						}
						if n := inside.Add(1); n > 1 {
							most.Store(n)
						}
						runtime.Gosched()
						inside.Add(-1)
						if err := l.Release(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if most.Load() > 1 {
				t.Errorf("%d held the lock at once", most.Load())
			}
		})
	}
}

func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.lock")
	l := mustAcquire(t, Acquire, path)
	ctx, cancel := context.WithCancelCause(t.Context())
	busy := errors.New("busy")
	if _, err := Wait(ctx, path, Acquire, func(*HeldError) { cancel(busy) }); err != busy {
		t.Errorf("error %v, expected the cause of the context's end", err)
	}
	heard := 0
	next, err := Wait(t.Context(), path, Acquire, func(h *HeldError) {
		heard++
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
	if err != nil || heard != 1 {
		t.Fatalf("error %v, told %d times", err, heard)
	}
	if err := next.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestHolderProcess is the process of TestDeadProcessDoesNotBlock.
func TestHolderProcess(t *testing.T) {
	path := os.Getenv("LOCKFILE_TEST_PATH")
	if path == "" {
		t.Skip("runs as another process only")
	}
	take := Acquire
	if os.Getenv("LOCKFILE_TEST_PID") != "" {
		take = takePID
	}
	mustAcquire(t, take, path)
	fmt.Println("locked")
	bufio.NewReader(os.Stdin).ReadString('\n') // until killed
}

func takePID(path string) (*Lock, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return acquirePID(path, f)
}

func TestDeadProcessDoesNotBlock(t *testing.T) {
	for _, c := range []struct {
		name, pid string
		take      func(string) (*Lock, error)
	}{{"flock", "", Acquire}, {"pid file", "1", takePID}} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.lock")
			cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$")
			cmd.Env = append(os.Environ(), "LOCKFILE_TEST_PATH="+path, "LOCKFILE_TEST_PID="+c.pid)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "locked"; {
			}
			_, err = c.take(path)
			wantHeld(t, err, fmt.Sprintf("pid %d on ", cmd.Process.Pid), "-test.run=^TestHolderProcess$")
			cmd.Process.Kill()
			cmd.Wait()
			l := mustAcquire(t, c.take, path)
			_, err = c.take(path)
			wantHeld(t, err, fmt.Sprintf("pid %d on ", os.Getpid()))
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestPIDFileOfAnotherHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.lock")
	if err := os.WriteFile(path+pidSuffix, []byte("pid 1 on elsewhere.invalid since now: hotpath\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := takePID(path)
	wantHeld(t, err, "elsewhere.invalid")
}

func TestOtherFilesStay(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	const content = "something else\n"
	if err := os.WriteFile(precious, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	l := mustAcquire(t, Acquire, precious)
	_, err := Acquire(precious)
	wantHeld(t, err, "another process")
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.lock")
	paths := []string{dir}
	if os.Symlink(precious, link) == nil {
		paths = append(paths, link)
	}
	for _, path := range paths {
		if l, err := Acquire(path); err == nil {
			t.Errorf("%s: locked, expected an error", path)
			l.Leave()
		}
	}
	if now, err := os.ReadFile(precious); err != nil || string(now) != content {
		t.Errorf("%q, %v: expected the file untouched", now, err)
	}
}
