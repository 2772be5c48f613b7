//go:build !linux || nogpu

package opencl

import "fmt"

// Devices describes the devices of the machine: this build has no way to them.
func Devices() ([]string, error) {
	return nil, fmt.Errorf("%w: this build cannot load a runtime", ErrDevice)
}

func openDriver(int) (driver, error) {
	_, err := Devices()
	return nil, err
}
