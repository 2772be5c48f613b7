package opencl

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/plan"
)

// Extensions of a device switch their part of the kernels on.
func TestOptionsOfDevices(t *testing.T) {
	for _, c := range []struct {
		about description
		want  string
	}{
		{description{Version: "OpenCL 1.2", Language: "OpenCL C 1.2"}, "-cl-std=CL1.2"},
		{description{Version: "OpenCL 3.0", Language: "OpenCL C 1.2", Extensions: []string{"cl_khr_fp64"}}, "-cl-std=CL1.2 -DDOUBLES"},
		{description{Version: "OpenCL 2.1", Language: "OpenCL C 2.0", Extensions: []string{"cl_khr_subgroups", "cl_khr_fp64"}}, "-cl-std=CL2.0 -DSUBGROUPS -DDOUBLES"},
		{description{Version: "OpenCL 3.0 NEO", Language: "OpenCL C 1.2", Extensions: []string{"cl_khr_subgroups"}}, "-cl-std=CL3.0 -DSUBGROUPS"},
		{description{Version: "OpenCL 1.2", Language: "OpenCL C 1.2", Extensions: []string{"cl_khr_subgroups"}}, "-cl-std=CL1.2"},
		{description{Version: "OpenCL 3.0 CUDA", Language: "OpenCL C 1.2", Platform: nvidia, Extensions: []string{"cl_khr_fp64"}}, "-cl-std=CL1.2 -DWARPS -DDOUBLES"},
	} {
		if got := c.about.options(); got != c.want {
			t.Errorf("%+v: options %q, expected %q", c.about, got, c.want)
		}
	}
}

// A compiler that refuses an extension gets the plain kernels; one that refuses those
// too says why.
func TestExtensionThatDoesNotCompile(t *testing.T) {
	f := newFake()
	f.about.Extensions = []string{"cl_khr_fp64"}
	f.failBuild = failure("clBuildProgram", -11)
	be, s, err := session(t, f)
	if err != nil {
		t.Fatalf("%v, expected the plain kernels", err)
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil {
		t.Fatal(err)
	}
}

// A tile whose groups need more registers than there are is replaced by a smaller one;
// another kernel like that is refused with one line.
func TestGroupsThatDoNotFit(t *testing.T) {
	f := newFake()
	f.limits = map[string]int{"k_many": 128}
	be, s, err := session(t, f)
	if err != nil {
		t.Fatalf("%v, expected smaller tiles", err)
	}
	for _, c := range tiles {
		if got, ok := be.tuner.known[Shape{16, 4, 8, 0}.String()]; ok && got == c.String() && c.items() > 128 {
			t.Errorf("tile %s has groups of %d, expected at most 128", c, c.items())
		}
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil || len(f.kernels) != 0 {
		t.Fatalf("%d kernels are left: %v", len(f.kernels), err)
	}
	be, err = newBackend(Options{Untuned: true}, f) // the usual tile, which is too large
	if err != nil {
		t.Fatal(err)
	}
	s, err = sessionWith(t, be, plan.BindOptions{})
	if err != nil {
		t.Fatalf("%v, expected a smaller tile than the usual one", err)
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil || len(f.kernels) != 0 {
		t.Fatalf("%d kernels are left: %v", len(f.kernels), err)
	}
	f = newFake()
	f.limits = map[string]int{"k_few": 16}
	be, _, err = session(t, f)
	if !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "kernel k_few on fake: groups of 16 work items, expected 32") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, expected one line", err)
	}
	if err := be.Close(); err != nil || len(f.kernels) != 0 {
		t.Errorf("%d kernels are left: %v", len(f.kernels), err)
	}
}

// Platforms that fail are one line together.
func TestPlatformsWithoutDevices(t *testing.T) {
	for _, failed := range [][]error{{nil, nil}, {nil, failure("clGetDeviceIDs", -1), failure("clGetDeviceIDs", -2)}} {
		if err := noDevice(len(failed), failed); !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), "no device") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, expected one line", err)
		}
	}
}

// A device is a line that people know from other tools.
func TestDeviceInWords(t *testing.T) {
	d := description{Name: "NVIDIA H200", Driver: "580.159.04", Platform: "NVIDIA CUDA", Units: 132, Memory: 150109880320}
	if got, want := d.String(), "NVIDIA H200, 132 units, 139 GiB, driver 580.159.04, platform NVIDIA CUDA"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// A card with memory of its own is taken for a model that fits. Others are taken only if
// they are named: CPUs, devices that share the host's memory, and the cards of CUDA.
func TestWhichDevicesAreTaken(t *testing.T) {
	card := description{Name: "card", Platform: "AMD", Memory: 16 << 30, Local: 32 << 10, Items: 256}
	for name, c := range map[string]struct {
		change func(*description)
		bytes  int64
		absent bool
		want   string // "": taken
	}{
		"a card":           {func(*description) {}, 1 << 30, false, ""},
		"a large model":    {func(*description) {}, 12 << 30, false, "a model of 12288 MiB wants about 19456 MiB, card has 16384 MiB"},
		"little local":     {func(d *description) { d.Local = 4096 }, 1 << 30, false, "4096 bytes of local memory"},
		"a CPU":            {func(d *description) { d.CPU = true }, 1 << 30, true, "no memory of its own"},
		"integrated":       {func(d *description) { d.Unified = true }, 1 << 30, true, "no memory of its own"},
		"a card of CUDA's": {func(d *description) { d.Platform = nvidia }, 1 << 30, true, "CUDA's"},
	} {
		d := card
		c.change(&d)
		err := d.fits(c.bytes)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrDevice) || errors.Is(err, ErrAbsent) != c.absent || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected one line with %q", name, err, c.want)
		}
	}
	if err := failure("clGetPlatformIDs", noPlatform); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v, expected ErrAbsent", err)
	}
}

// Cards get large runs. Other devices get the engine's own: they are no faster than the
// host.
func TestRunsOfCards(t *testing.T) {
	f := newFake()
	f.about.Memory = 80 << 30
	for _, unified := range []bool{false, true} {
		f.about.Unified = unified
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		if got := be.Caps().Runs.Tokens; got != map[bool]int{false: 32768, true: 0}[unified] {
			t.Errorf("unified memory %v: runs of %d tokens", unified, got)
		}
	}
}

// A library that is missing is no device; one that is broken, or that misses another
// library, is told.
func TestLibrariesThatAreNotLoaded(t *testing.T) {
	const name = "libOpenCL.so.1"
	for said, want := range map[string]string{
		"libOpenCL.so.1: cannot open shared object file: No such file or directory":     "no OpenCL runtime (libOpenCL.so.1)",
		"Error loading shared library libOpenCL.so.1: No such file or directory":        "no OpenCL runtime (libOpenCL.so.1)",
		"libOpenCL.so.1: invalid ELF header":                                            "the runtime libOpenCL.so.1 cannot be loaded: invalid ELF header",
		"libnvidia-ptx.so.1: cannot open shared object file: No such file or directory": "cannot be loaded: libnvidia-ptx.so.1: cannot open",
		"libOpenCL.so.1: cannot open shared object file: Permission denied":             "cannot be loaded: cannot open shared object file: Permission denied",
	} {
		err := notLoaded(name, said)
		if !errors.Is(err, ErrDevice) || errors.Is(err, ErrAbsent) != strings.HasPrefix(want, "no OpenCL") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", said, err, want)
		}
	}
}
