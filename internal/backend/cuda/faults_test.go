package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// oneLine checks an error that a user sees.
func oneLine(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrDevice) {
		t.Errorf("%s: %v, expected an error of the device", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q, expected it to say %q", what, err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %q, expected one line", what, err)
	}
}

// What goes wrong with a card is one line that says what helps, also if the card then
// cannot be closed either.
func TestFaultsAreOneLine(t *testing.T) {
	for code, words := range map[uintptr]string{209: "no kernel image", 200: "kernel image", 222: "550", 218: "550", 46: "busy", 214: "ECC", 803: "restart", 12345: "strange"} {
		f := newFake()
		f.failLoad, f.failEnd = failure("cuModuleLoadData", code, "strange"), failure("cuStreamDestroy_v2", code, "")
		_, err := newBackend(Options{}, f)
		oneLine(t, "loading", err, words)
		if !f.closed {
			t.Errorf("code %d: the card is still open", code)
		}
	}
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	for code, words := range map[uintptr]string{214: "ECC", 700: "opened again", 719: "opened again"} {
		f.failSync = failure("cuStreamSynchronize", code, "")
		oneLine(t, "a run", s.Run(context.Background(), tensor.Bind{T: 3, S: 1, R: 1}), words)
	}
	if err := failure("cuInit", 100, ""); !errors.Is(err, ErrAbsent) || errors.Is(failure("cuInit", 2, ""), ErrAbsent) {
		t.Errorf("%v: expected that this, and nothing else, says that there is no card", err)
	}
}

// A model fits with its buffers, or one line says how much is missing.
func TestFits(t *testing.T) {
	const g = 1 << 30
	if err := fits(10*g, 17*g, 24*g); err != nil {
		t.Errorf("10 of 17 GiB: %v", err)
	}
	oneLine(t, "12 of 17 GiB", fits(12*g, 17*g, 24*g), "12288 MiB", "17408 of 24576 MiB")
	if err := Fits(1); err != nil && !errors.Is(err, ErrDevice) {
		t.Errorf("this machine: %v", err)
	}
}

// Large cards run more tokens at once than small ones, and all more than a CPU.
func TestRunsByMemory(t *testing.T) {
	last := 512
	for _, memory := range []int64{8 << 30, 16 << 30 * 96 / 100, 141e9} {
		r := device.RunsFor(memory)
		if r.Tokens <= last || r.Texts < 64 {
			t.Errorf("%d bytes: %+v, expected more than %d tokens", memory, r, last)
		}
		last = r.Tokens
	}
}
