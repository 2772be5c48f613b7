package calib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"hotpath/internal/plan"
)

// Card are the figures of a graphics card. Times are in seconds.
type Card struct {
	// Start is the time to open the card: driver, context and kernels.
	Start float64 `json:"start_s"`
	// Copy is the rate at which weights come from the file's pages to the card.
	Copy float64 `json:"copy_bytes_per_s"`
	// Run is the time of a run without work: its launch, its inputs and outputs, and
	// the wait for its end.
	Run float64 `json:"run_s"`
	// Layer is the time of a layer of few rows with small weights. Such a layer is
	// bound by the gaps between kernels.
	Layer float64 `json:"layer_s"`
	// Read is the rate at which a product of one row reads its weights.
	Read float64 `json:"read_bytes_per_s"`
	// FLOPs are the rates of products of many rows, by the precision that was asked
	// for: "f32" and "bf16".
	FLOPs map[string]float64 `json:"flops_per_s"`
	// Measured is false for built-in figures.
	Measured bool `json:"measured"`
}

// DefaultCard are the figures of a small card.
func DefaultCard() Card {
	return Card{Start: 0.5, Copy: 4e9, Run: 30e-6, Layer: 30e-6, Read: 300e9, FLOPs: map[string]float64{"f32": 8e12, "bf16": 30e12}}
}

// check reports figures that are not plausible.
func (c *Card) check() error {
	type bound struct {
		name       string
		v, min, to float64
	}
	all := []bound{{"start_s", c.Start, 0, 300}, {"copy_bytes_per_s", c.Copy, 1e6, 1e13}, {"run_s", c.Run, 0, 1}, {"layer_s", c.Layer, 0, 1}, {"read_bytes_per_s", c.Read, 1e6, 1e15}}
	for _, p := range []string{"f32", "bf16"} {
		all = append(all, bound{"flops_per_s of " + p, c.FLOPs[p], 1e6, 1e18})
	}
	for _, b := range all {
		if !(b.v >= b.min && b.v <= b.to) { // also a NaN
			return fmt.Errorf("%s is %g, expected %g to %g", b.name, b.v, b.min, b.to)
		}
	}
	if len(c.FLOPs) != 2 {
		return fmt.Errorf("flops_per_s of %v, expected bf16 and f32", slices.Sorted(maps.Keys(c.FLOPs)))
	}
	return nil
}

// cardVersion changes with what is measured of cards and how.
const cardVersion = 1

// CardKey identifies the card that figures are valid for.
type CardKey struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"` // cuda, opencl
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	Units   int    `json:"units"`
}

// NewCardKey is the key of a card.
func NewCardKey(kind, name, driver string, units int) CardKey {
	return CardKey{cardVersion, kind, name, driver, units}
}

func (k CardKey) file(dir string) string { return fileOf(dir, "card", k) }

func decodeCard(data []byte, k CardKey) (Card, error) {
	c, err := parse[CardKey, Card](data, k)
	if err != nil {
		return Card{}, err
	}
	return c, c.check()
}

// LoadCard reads the figures of a card. The error says why there are none; a missing
// file is fs.ErrNotExist.
func LoadCard(dir string, k CardKey) (Card, error) { return load(k.file(dir), k, decodeCard) }

// StoreCard writes the figures of a card.
func StoreCard(dir string, k CardKey, c Card) error {
	return store(dir, k.file(dir), entry[CardKey, Card]{k, c})
}

// FoundCard are figures of a card and their origin, as in Found.
type FoundCard struct {
	Card Card
	From string
	File string
	Note string
}

// FindCard gives the figures of a card from the cache. If there are none, or anew is
// set, it measures them on the backends that open opens and keeps them. A file that
// cannot be read is measured again; one that cannot be written is a note. Errors are
// those of the card and of the context.
func FindCard(ctx context.Context, k CardKey, anew bool, open func(precision string) (plan.Backend, error)) (f FoundCard, err error) {
	f = FoundCard{Card: DefaultCard(), From: FromDefault}
	if os.Getenv(Env) == Off {
		f.Note = Env + " is off"
		return f, nil
	}
	dir, dirErr := Dir()
	if dirErr == nil && !anew {
		c, err := LoadCard(dir, k)
		if err == nil {
			return FoundCard{Card: c, From: FromCache, File: k.file(dir)}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.Note = "measured again: " + err.Error()
		}
	}
	c, err := MeasureCard(ctx, open)
	if err != nil {
		return f, err
	}
	f.Card, f.From = c, FromMeasured
	if dirErr == nil {
		dirErr = StoreCard(dir, k, c)
	}
	if dirErr != nil {
		f.Note = "not kept: " + dirErr.Error()
		return f, nil
	}
	f.File = k.file(dir)
	return f, nil
}

// CachedCard are the measured figures of a card; false if nobody measured them.
func CachedCard(k CardKey) (Card, bool) {
	dir, err := Dir()
	if err != nil || os.Getenv(Env) == Off {
		return Card{}, false
	}
	c, err := LoadCard(dir, k)
	return c, err == nil
}
