//go:build !linux || nogpu

package cuda

import "fmt"

func openDriver(int) (driver, error) {
	return nil, fmt.Errorf("%w: this program was built without it", ErrDevice)
}

// Cards describes the cards of the machine: none in this build.
func Cards() ([]string, error) {
	_, err := openDriver(0)
	return nil, err
}
