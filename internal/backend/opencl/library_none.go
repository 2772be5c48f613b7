//go:build !linux || nogpu

package opencl

import (
	"fmt"

	"hotpath/internal/backend/device"
)

// Devices lists the devices of the machine: this build has no way to them.
func Devices() ([]device.About, error) {
	return nil, fmt.Errorf("%w: %w: this build cannot load a runtime", ErrDevice, ErrAbsent)
}

func openDriver(int) (driver, error) {
	_, err := Devices()
	return nil, err
}

// Fits reports that there is no card.
func Fits(int64) error {
	_, err := Devices()
	return err
}
