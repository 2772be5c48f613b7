package cuda

import (
	"errors"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

// A device that is named and cannot be used is an error that callers can tell from
// others, in one line; with auto it is none.
func TestErrorsAreTyped(t *testing.T) {
	path := testmodels.Dir(t, "bert")
	_, err := hotpath.Open(path, hotpath.Options{Device: "cuda:99"})
	if !errors.Is(err, hotpath.ErrDevice) || errors.Is(err, hotpath.ErrInput) || strings.Contains(err.Error(), "\n") {
		t.Errorf("cuda:99: %v, expected an ErrDevice of one line", err)
	}
	if _, err := hotpath.Open(path, hotpath.Options{Device: "cuda:first"}); !errors.Is(err, hotpath.ErrInput) || errors.Is(err, hotpath.ErrDevice) {
		t.Errorf("cuda:first: %v, expected an ErrInput", err)
	}
	m, err := hotpath.Open(path, hotpath.Options{Device: "auto", Expect: hotpath.Workload{Texts: 1, Tokens: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.DeviceChoice() == "" || m.DeviceNote() != "" {
		t.Errorf("%q, %q, expected a choice and no note", m.DeviceChoice(), m.DeviceNote())
	}
}
