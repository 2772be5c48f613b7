package device

import "sync"

// Clock knows how far the device's clock is behind the host's. The host sees an end
// after it came, so the least distance of some runs is the best.
type Clock struct {
	mu    sync.Mutex
	shift int64
	at    int64 // host time of the latest run; 0: none
}

// drift is how many nanoseconds a clock may lose against the other per nanosecond:
// so much the distance may grow.
const drift = 1e-4

// Align gives the distance after an end by the device's clock that the host saw.
func (c *Clock) Align(device, host int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	shift := host - device
	if c.at != 0 {
		shift = min(shift, c.shift+int64(drift*float64(max(host-c.at, 0))))
	}
	c.shift, c.at = shift, max(c.at, host) // runs of two recorders may come in any order
	return shift
}
