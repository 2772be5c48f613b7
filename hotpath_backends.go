package hotpath

import "hotpath/internal/engine"

// Devices lists the names that Options.Device can have, sorted.
func Devices() []string { return engine.Backends() }

// Cards lists the graphics cards that this build can use, "cuda:0 NVIDIA H200,
// ...", and the kinds of which it found none, with the reason.
func Cards() (cards, none []string) { return engine.AllCards() }
