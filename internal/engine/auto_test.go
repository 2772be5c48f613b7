package engine

import (
	"errors"
	"fmt"
	"testing"
)

// TestAutoDevice: a device that is there is taken if the model fits. Otherwise the CPU
// is, and the reason is told, unless there is no such device or the model is small.
func TestAutoDevice(t *testing.T) {
	full := errors.New("the card is full")
	for _, c := range []struct {
		name   string
		fits   map[string]error
		bytes  int64
		device string
		why    error
	}{
		{"a card", map[string]error{"card": nil}, 1 << 30, "card", nil},
		{"none", map[string]error{"card": fmt.Errorf("%w: no driver", ErrAbsent)}, 1 << 30, "", nil},
		{"a full one", map[string]error{"card": full}, 1 << 30, "", full},
		{"a full one and another", map[string]error{"a": full, "b": nil}, 1 << 30, "b", nil},
		{"a full one and none", map[string]error{"a": fmt.Errorf("%w: no driver", ErrAbsent), "b": full}, 1 << 30, "", full},
		{"a small model", map[string]error{"card": nil}, 1 << 20, "", nil},
		{"a build without devices", nil, 1 << 30, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			backends.Lock()
			kept := backends.fits
			backends.fits = nil
			backends.Unlock()
			defer func() {
				backends.Lock()
				backends.fits = kept
				backends.Unlock()
			}()
			for name, err := range c.fits {
				RegisterAuto(name, func(bytes int64) error {
					if bytes != c.bytes {
						t.Errorf("asked for %d bytes, expected %d", bytes, c.bytes)
					}
					return err
				})
			}
			device, why := AutoDevice(c.bytes)
			if device != c.device || !errors.Is(why, c.why) || (why == nil) != (c.why == nil) {
				t.Errorf("%q, %v, expected %q, %v", device, why, c.device, c.why)
			}
		})
	}
}
