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
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

func init() {
	engine.RegisterCards("cuda", cuda.Cards)
	engine.RegisterAuto("cuda", func(bytes int64) error {
		err := cuda.Fits(bytes)
		if errors.Is(err, cuda.ErrAbsent) {
			return fmt.Errorf("%w: %w", engine.ErrAbsent, err)
		}
		return err
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
