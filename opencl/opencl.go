// Package opencl makes devices with an OpenCL runtime available to hotpath: import
// it for its effect.
//
//	import _ "hotpath/opencl"
//
// Options.Device can then be "opencl" or "opencl:1". A program that imports it is
// linked dynamically, since it loads the runtime's library at run time; a machine
// without one runs on its CPU.
package opencl

import (
	"errors"
	"fmt"
	"strconv"

	"hotpath/internal/backend/opencl"
	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

func init() {
	engine.RegisterCards("opencl", engine.Kind{
		List:      list,
		Fits:      func(bytes int64) error { return absent(opencl.Fits(bytes)) },
		Precision: "f32",
	})
	engine.Register("opencl", func(o engine.BackendOptions) (plan.Backend, error) {
		number := 0
		if o.Device != "" {
			n, err := strconv.Atoi(o.Device)
			if err != nil {
				return nil, fmt.Errorf("%w: device opencl:%s, expected the number of a device", engine.ErrInput, o.Device)
			}
			number = n
		}
		cache, err := calib.Dir()
		if err != nil {
			cache = "" // tiles are measured at each start then
		}
		b, err := opencl.New(opencl.Options{Device: number, Cache: cache, Half: o.Precision == "bf16", Untuned: o.Untuned})
		if err != nil {
			return nil, err // not a nil *opencl.Backend inside the interface
		}
		return b, nil
	})
}

// list lists the machine's devices.
func list() ([]engine.Card, error) {
	found, err := opencl.Devices()
	var out []engine.Card
	for _, a := range found {
		out = append(out, engine.Card{Key: calib.NewCardKey("opencl", a.Name, a.Driver, a.Units), Words: a.Words, Tokens: a.Runs.Tokens, CPU: a.CPU, Skip: absent(a.Skip)})
	}
	return out, absent(err)
}

// absent says in the engine's words that there is no device.
func absent(err error) error {
	if errors.Is(err, opencl.ErrAbsent) {
		return engine.Absent(err)
	}
	return err
}
