//go:build linux && !nogpu

package cuda

import (
	"errors"
	"os"
	"runtime"
	"strings"

	"hotpath/internal/backend/device"
)

// Cards lists the cards of the machine without opening them.
func Cards() ([]device.About, error) {
	d, err := loadDriver()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count, err := d.count()
	var out []device.About
	for i := range count {
		if err = d.find(i); err != nil {
			break
		}
		out = append(out, d.about.about())
	}
	return out, err
}

// Fits reports why the first card cannot take a model of some bytes: ErrAbsent if
// there is none.
func Fits(bytes int64) (err error) {
	drv, err := openDriver(0)
	if err != nil {
		return err
	}
	if err := drv.enter(); err != nil {
		return errors.Join(err, drv.close())
	}
	defer drv.leave()
	defer func() {
		if closed := drv.close(); err == nil {
			err = closed
		}
	}()
	if c := drv.describe().Capability; c[0] < leastCapability {
		return tooOld(drv.describe())
	}
	free, total, err := drv.memory()
	if err != nil {
		return err
	}
	return fits(bytes, free, total)
}

// release is the version of the driver's kernel module; "" if the system does not tell.
func release() string {
	text, err := os.ReadFile("/sys/module/nvidia/version")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
