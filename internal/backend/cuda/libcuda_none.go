//go:build !linux || nogpu

package cuda

import "fmt"

func openDriver(int) (driver, error) {
	return nil, fmt.Errorf("%w: this program was built without it", ErrDevice)
}
