// Package cuda makes NVIDIA cards available to hotpath: import it for its effect.
//
//	import _ "hotpath/cuda"
//
// Options.Device can then be "cuda" or "cuda:1". A program that imports it is
// linked dynamically, since it loads the driver's library at run time; nothing
// but the driver need be installed, and a machine without one runs on its CPU.
package cuda

import (
	"errors"
	"fmt"
	"strconv"

	"hotpath/internal/backend/cuda"
	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

func init() {
	engine.RegisterCards("cuda", engine.Kind{
		List:      list,
		Fits:      func(bytes int64) error { return absent(cuda.Fits(bytes)) },
		Precision: "bf16",
	})
	engine.Register("cuda", func(o engine.BackendOptions) (plan.Backend, error) {
		card := 0
		if o.Device != "" {
			n, err := strconv.Atoi(o.Device)
			if err != nil {
				return nil, fmt.Errorf("%w: device cuda:%s, expected the number of a card", engine.ErrInput, o.Device)
			}
			card = n
		}
		b, err := cuda.New(cuda.Options{Card: card, F32: o.Precision == "f32"})
		if err != nil {
			return nil, err // not a nil *cuda.Backend inside the interface
		}
		return b, nil
	})
}

// list lists the machine's devices.
func list() ([]engine.Card, error) {
	found, err := cuda.Cards()
	var out []engine.Card
	for _, a := range found {
		out = append(out, engine.Card{Key: calib.NewCardKey("cuda", a.Name, a.Driver, a.Units), Words: a.Words, Tokens: a.Runs.Tokens, CPU: a.CPU, Skip: absent(a.Skip)})
	}
	return out, absent(err)
}

// absent says in the engine's words that there is no device.
func absent(err error) error {
	if errors.Is(err, cuda.ErrAbsent) {
		return engine.Absent(err)
	}
	return err
}
