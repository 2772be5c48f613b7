package hotpath

import (
	"context"
	"strings"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/machine"
	"hotpath/internal/tensor"
)

// Devices lists the names that Options.Device can have, sorted.
func Devices() []string { return engine.Backends() }

// Cards lists the graphics cards that this build can use, "cuda:0 NVIDIA H200,
// ...", and the kinds of which it found none, with the reason.
func Cards() (cards, none []string) {
	found, none := engine.AllCards()
	for _, c := range found {
		cards = append(cards, c.Device+" "+c.Words)
	}
	return cards, none
}

// chooseDevice is the choice of Options.Device "auto".
func (m *Model) chooseDevice(ctx context.Context, o Options) engine.Choice {
	threads := o.Threads
	if threads == 0 {
		threads = machine.Threads()
	}
	return engine.AutoDevice(ctx, engine.AutoRequest{
		Bytes: m.store.Bytes(), Threads: threads, Precision: o.Precision, Generates: m.cfg.CanGenerate, BuiltIn: o.NoCalibration,
		Demand: calib.Demand{Texts: o.Expect.Texts, Tokens: o.Expect.Tokens, Decode: o.Expect.Generate},
		Model: func() (calib.Model, error) {
			g, err := m.graphOf(tensor.Bind{T: 1, S: 1, R: 1})
			if err != nil {
				return calib.Model{}, err
			}
			return engine.ModelWork(g, m.cfg), nil
		},
	})
}

// DeviceChoice says in one line which device Options.Device "auto" took, with its
// estimates for the CPU and for the card. It is empty if a device was named.
func (m *Model) DeviceChoice() string {
	if !m.auto {
		return ""
	}
	return flat(m.choice.String())
}

// DeviceNote says in one line why Options.Device "auto" took the CPU although the
// machine has a card. It is empty if the card was taken, if the CPU is faster, and if
// there is no card.
func (m *Model) DeviceNote() string {
	if m.choice.Why == nil {
		return ""
	}
	return flat(m.choice.Why.Error())
}

// flat makes one line of a text.
func flat(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
