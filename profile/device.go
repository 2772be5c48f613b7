package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// TransferOp is the op of the steps of a device's plan that are no part of the model:
// inputs and outputs on the device, launch and sync on the host. Ceilings do not apply
// to them.
const TransferOp = "transfer"

// DeviceMemory is what the pool of a device's memory has taken from its driver.
type DeviceMemory struct {
	Device      string `json:"device"`
	Allocations int64  `json:"driver_allocations"` // calls of the driver, those before the recording included
	Runs        int64  `json:"runs"`               // that were recorded on the device
	Since       int64  `json:"runs_since"`         // runs that ended after the last allocation
	// Held is what the driver gave, Used what of it is in use, by class too, when the
	// last allocation was seen.
	Held    int64            `json:"held_bytes"`
	Used    int64            `json:"used_bytes"`
	ByClass map[string]int64 `json:"used_by_class,omitempty"`
}

func (d *DeviceMemory) check() error {
	if d.Since > d.Runs {
		return fmt.Errorf("runs_since is %d, expected at most %d, the runs", d.Since, d.Runs)
	}
	if d.Used > d.Held {
		return fmt.Errorf("used_bytes is %d, expected at most %d, the held_bytes", d.Used, d.Held)
	}
	left := d.Used
	for class, n := range d.ByClass {
		if left -= n; left < 0 {
			return fmt.Errorf("used_by_class[%q] is %d, expected a sum of %d, the used_bytes", class, n, d.Used)
		}
	}
	if left > 0 && len(d.ByClass) > 0 {
		return fmt.Errorf("used_by_class has %d bytes, expected %d, the used_bytes", d.Used-left, d.Used)
	}
	return nil
}

// CountMemory records when a run was started how often the driver of its device was asked for memory
// so far. look is called if that has changed.
func (r *Recorder) CountMemory(device string, allocations int, look func() DeviceMemory) {
	if r.none() {
		return
	}
	r.mu.Lock()
	d := r.devices[device]
	known := d != nil && d.Allocations == int64(allocations)
	if known {
		d.Runs++
		d.Since++
	}
	r.mu.Unlock()
	if known {
		return
	}
	seen := look() // takes locks of the device
	seen.Device, seen.Allocations = device, int64(allocations)
	seen.Held = max(seen.Held, seen.Used) // it is read first, and others may take memory in between
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.devices[device]; d != nil {
		seen.Runs = d.Runs
	}
	seen.Runs, seen.Since = seen.Runs+1, 0
	r.devices[device] = &seen
}

// deviceMemory copies the counts, sorted by device. r.mu is held.
func (r *Recorder) deviceMemory() (out []DeviceMemory) {
	for _, d := range r.devices {
		c := *d
		c.ByClass = maps.Clone(d.ByClass)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b DeviceMemory) int { return cmp.Compare(a.Device, b.Device) })
	return out
}
