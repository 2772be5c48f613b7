//go:build !linux || nogpu

package cuda

import (
	"fmt"

	"hotpath/internal/backend/device"
)

func openDriver(int) (driver, error) {
	return nil, fmt.Errorf("%w: %w: this program was built without CUDA", ErrDevice, ErrAbsent)
}

// Cards lists the cards of the machine: none in this build.
func Cards() ([]device.About, error) {
	_, err := openDriver(0)
	return nil, err
}

// Fits reports that there is no card.
func Fits(int64) error {
	_, err := openDriver(0)
	return err
}
