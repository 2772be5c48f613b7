//go:build linux && !nogpu

package opencl

import (
	"errors"
	"fmt"
	"os"
	exec_ "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// completed reports whether the command of an event has ended.
func completed(t *testing.T, e event) bool {
	t.Helper()
	name := "libOpenCL.so.1"
	if other := os.Getenv("HOTPATH_OPENCL"); other != "" {
		name = other
	}
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	at, err := purego.Dlsym(lib, "clGetEventInfo")
	if err != nil {
		t.Fatal(err)
	}
	const executionStatus = 0x11D3
	status := new(int32)
	if code, _, _ := purego.SyscallN(at, uintptr(e), executionStatus, 4, uintptr(unsafe.Pointer(status)), 0); code != 0 {
		t.Fatalf("clGetEventInfo: %d", int32(code))
	}
	return *status <= 0
}

// Copies behind a long kernel return before the kernel has ended, in both directions.
// Those that block never do; others may now and then, on a busy machine.
func TestCopiesDoNotBlock(t *testing.T) {
	b := machine(t)
	const rounds, tries = 5000, 5
	many := 64 * b.about.Units
	y := put(t, b, make([]float32, itemsOf*many))
	k := newBinder(b, b.newExec(), 1)
	k.launchOf(rateCode, "k_fma", [2]extent{groups(many), groups(1)}, itemsOf, y, rounds)
	if k.Failed != nil {
		t.Fatal(k.Failed)
	}
	l := k.exec.launches[0]
	defer b.drv.drop(l.kernel)
	buf, offset := b.slabs.at(put(t, b, make([]float32, 1024)))
	host := make([]byte, 4096)
	for name, copies := range map[string]func(o order) (event, error){
		"to the device": func(o order) (event, error) { o.on = toDevice; return b.drv.write(buf, offset, host, o) },
		"from it":       func(o order) (event, error) { o.on = fromDevice; return b.drv.read(host, buf, offset, o) },
	} {
		before := false
		for try := 0; try < tries && !before; try++ {
			kernel, err := b.drv.launch(l.kernel, [2]int{many * itemsOf, 1}, [2]int{itemsOf, 1}, order{notice: ended})
			if err != nil {
				t.Fatal(err)
			}
			e, err := copies(order{after: kernel, notice: ended})
			if err != nil {
				t.Fatal(err)
			}
			before = !completed(t, kernel)
			if err := errors.Join(b.drv.flush(), b.drv.wait(e), b.drv.forget(e), b.drv.forget(kernel)); err != nil {
				t.Fatal(err)
			}
		}
		if !before {
			t.Errorf("a copy %s returned after the kernel before it had ended, %d times of %d", name, tries, tries)
		}
	}
}

// A runtime that is missing, is no library or has no OpenCL is one clear line.
func TestBrokenRuntimes(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libOpenCL.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/nowhere/libOpenCL.so.1": "no OpenCL runtime (/nowhere/libOpenCL.so.1) on this machine",
		text:                      "the runtime " + text + " cannot be loaded: ",
		"libc.so.6":               "libc.so.6 has no clGetPlatformIDs, expected OpenCL 1.2",
	} {
		t.Setenv("HOTPATH_OPENCL", name)
		_, listed := Devices()
		_, opened := New(Options{})
		for _, err := range []error{listed, opened} {
			if !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, expected one line with %q", name, err, want)
			}
			if missing := strings.HasPrefix(name, "/nowhere"); errors.Is(err, ErrAbsent) != missing {
				t.Errorf("%s: %v, expected only a file that is missing to be absent", name, err)
			}
		}
	}
}

// A device that is not there is one line; so is a loader without a runtime behind it,
// which is asked by another process: a loader looks for runtimes once.
func TestNoPlatform(t *testing.T) {
	const list = "HOTPATH_TEST_LIST"
	if os.Getenv(list) != "" {
		_, err := Devices()
		fmt.Printf("listed: %v\n", err)
		return
	}
	if _, err := New(Options{Device: 99}); !errors.Is(err, ErrDevice) || strings.Contains(err.Error(), "\n") {
		t.Errorf("device 99: %v", err)
	}
	cmd := exec_.Command(os.Args[0], "-test.run=TestNoPlatform")
	cmd.Env = append(os.Environ(), list+"=1", "OCL_ICD_VENDORS="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if said, ok := strings.CutPrefix(line, "listed: "); ok {
			if !strings.HasPrefix(said, "OpenCL: ") || strings.Contains(said, "no OpenCL runtime") {
				t.Skipf("no loader on this machine: %s", said)
			}
			if !strings.Contains(said, "no platform: no device's runtime is installed") {
				t.Errorf("%s, expected that there is no platform", said)
			}
			return
		}
	}
	t.Errorf("the other process said nothing: %s", out)
}

// A kernel that does not compile is told by the compiler's first error, with its file
// and line.
func TestFirstErrorOfACompiler(t *testing.T) {
	b := machine(t)
	_, err := b.drv.build("#line 7 \"rows.cl\"\n__kernel void k(__global float *x) { x[0] = missing; }\n", b.about.options())
	if !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "missing") || !strings.Contains(err.Error(), "rows.cl") || !strings.Contains(err.Error(), "7") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, expected one line with rows.cl, line 7", err)
	}
}

// A launch allocates nothing: a step of a decoder makes hundreds of them.
func TestLaunchesAllocateNothing(t *testing.T) {
	b := machine(t)
	y := put(t, b, make([]float32, itemsOf))
	k := newBinder(b, b.newExec(), 1)
	k.launchOf(rateCode, "k_fma", [2]extent{groups(1), groups(1)}, itemsOf, y, 1)
	if k.Failed != nil {
		t.Fatal(k.Failed)
	}
	l := k.exec.launches[0]
	defer b.drv.drop(l.kernel)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := b.drv.launch(l.kernel, [2]int{itemsOf, 1}, [2]int{itemsOf, 1}, order{}); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations per launch, expected none", n)
	}
	if err := b.drv.finish(); err != nil {
		t.Fatal(err)
	}
}
