//go:build linux && !nogpu

package opencl

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"hotpath"
	"hotpath/internal/testmodels"
)

// Codes of OpenCL.
const (
	outOfMemory    = -4
	outOfResources = -5
)

// always is more often than a test calls a function.
const always = 1 << 30

// faulty loads a runtime whose functions fail when they are told to: some calls of one
// function, after others that work.
func faulty(t *testing.T) (fail func(function string, after, times, code int32)) {
	t.Helper()
	onDevice(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	lib := filepath.Join(t.TempDir(), "libfaulty.so")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, "testdata/faulty.c", "-Wl,--no-as-needed", "-l:libOpenCL.so.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	loaded, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(&fail, loaded, "fault")
	t.Setenv("HOTPATH_OPENCL", lib)
	return fail
}

// typed checks an error that a caller gets from a device that failed.
func typed(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, hotpath.ErrDevice) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, expected an ErrDevice of one line", what, err)
	}
}

// A device that fails while it embeds gives a typed error, and the next call gives the
// vectors that it gave before. A run asks for no memory.
func TestOpenCLFailsWhileItEmbeds(t *testing.T) {
	fail := faulty(t)
	m, err := hotpath.Open(testmodels.Dir(t, "bert"), hotpath.Options{Device: "opencl", Precision: "f32", NoCalibration: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	embed := func() ([][]float32, error) {
		return m.Embed(context.Background(), []string{"the quick brown fox", "a dog"}, hotpath.EmbedOptions{})
	}
	want, err := embed()
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string) {
		t.Helper()
		got, err := embed()
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: other vectors: %v", what, err)
		}
	}
	for _, c := range []struct {
		function     string
		after, times int32
	}{
		{"clEnqueueWriteBuffer", 0, 1}, {"clEnqueueNDRangeKernel", 0, 1}, {"clEnqueueNDRangeKernel", 7, 1}, {"clEnqueueReadBuffer", 0, 1}, {"clFlush", 0, 1}, {"clFlush", 1, 1}, {"clWaitForEvents", 0, 1},
		{"clEnqueueNDRangeKernel", 7, always}, {"clWaitForEvents", 0, always},
	} {
		fail(c.function, c.after, c.times, outOfResources)
		_, err := embed()
		typed(t, c.function, err)
		fail("", 0, 0, 0)
		same("after " + c.function)
	}
	fail("clCreateBuffer", 0, always, outOfMemory)
	same("without memory")
}

// A device that fails in the middle of a text, or whose caller cancels there, gives the
// same text at the next call.
func TestOpenCLFailsWhileItGenerates(t *testing.T) {
	fail := faulty(t)
	m := open(t, testmodels.Dir(t, "llama"), "opencl")
	o := hotpath.GenerateOptions{MaxTokens: 24, IgnoreEOS: true}
	want := ids(t, m, "the quick brown", o)
	for name, begin := range map[string]func(cancel func()){
		"a kernel":   func(func()) { fail("clEnqueueNDRangeKernel", 3, always, outOfResources) },
		"a wait":     func(func()) { fail("clWaitForEvents", 3, always, outOfResources) },
		"the caller": func(cancel func()) { cancel() },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		var got []int32
		var failed error
		for tok, err := range m.Generate(ctx, "the quick brown", o) {
			if failed = err; err != nil {
				break
			}
			if got = append(got, tok.ID); len(got) == 3 {
				begin(cancel)
			}
		}
		fail("", 0, 0, 0)
		cancel()
		if name == "the caller" {
			if !errors.Is(failed, context.Canceled) {
				t.Errorf("%s: %v, expected that it is cancelled", name, failed)
			}
		} else {
			typed(t, name, failed)
		}
		if len(got) < 3 || len(got) >= len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%s: %v before it failed, expected the beginning of %v", name, got, want)
		}
		if got := ids(t, m, "the quick brown", o); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, expected %v", name, got, want)
		}
	}
}

// What fails while a model is opened, or at its first call, is a typed error, and the
// next attempt works.
func TestOpenCLFailsAtTheBeginning(t *testing.T) {
	fail := faulty(t)
	path := testmodels.Dir(t, "bert")
	embed := func() error {
		m, err := hotpath.Open(path, hotpath.Options{Device: "opencl", Precision: "f32", NoCalibration: true})
		if err != nil {
			return err
		}
		defer m.Close() // a device that failed fails here too
		_, err = m.Embed(context.Background(), []string{"the quick brown fox"}, hotpath.EmbedOptions{})
		return err
	}
	for function, code := range map[string]int32{
		"clGetPlatformIDs": -6, "clGetDeviceIDs": -2, "clGetDeviceInfo": -33, "clCreateContext": -2, "clCreateCommandQueue": -5, "clBuildProgram": -11, "clCreateBuffer": outOfMemory, "clFinish": outOfResources,
	} {
		fail(function, 0, always, code)
		typed(t, function, embed())
		fail("", 0, 0, 0)
		if err := embed(); err != nil {
			t.Errorf("after %s: %v", function, err)
		}
	}
}
