package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/calib"
	"hotpath/internal/plan"
	"hotpath/profile"
)

// Card is a device that a kind lists.
type Card struct {
	Device string        // "cuda:0"
	Key    calib.CardKey // of its figures
	Words  string        // name, memory, driver, for people
	Tokens int           // of one run
	CPU    bool          // it computes on the processor
	Skip   error         // why AutoDevice does not take it: ErrAbsent where it is meant for others
}

// Kind is a kind of devices.
type Kind struct {
	// List lists the devices without opening them. Its error says why there are none:
	// ErrAbsent if the machine has none.
	List func() ([]Card, error)
	// Fits reports why the first device cannot take a model of some bytes.
	Fits func(bytes int64) error
	// Precision is the one that the kind computes in if nobody asks for another: f32 or
	// bf16.
	Precision string
}

// ErrAbsent says that a machine has no device of a kind.
var ErrAbsent = errors.New("no device")

// Absent makes an error an ErrAbsent, with the same text.
func Absent(err error) error { return absentError{err} }

type absentError struct{ error }

func (e absentError) Unwrap() error      { return e.error }
func (absentError) Is(target error) bool { return target == ErrAbsent }

// RegisterCards makes the devices of a backend known to AutoDevice and AllCards.
func RegisterCards(name string, k Kind) {
	backends.Lock()
	defer backends.Unlock()
	if backends.kinds == nil {
		backends.kinds = map[string]Kind{}
	}
	backends.kinds[name] = k
}

// kinds are the kinds of cards, sorted by name.
func kinds() (names []string, all map[string]Kind) {
	backends.Lock()
	defer backends.Unlock()
	all = maps.Clone(backends.kinds)
	return slices.Sorted(maps.Keys(all)), all
}

// CardKinds are the names of the kinds of cards that this build knows, sorted.
func CardKinds() []string {
	names, _ := kinds()
	return names
}

// AllCards lists the cards of all kinds, and the kinds without one, with the reason.
func AllCards() (cards []Card, none []string) {
	names, all := kinds()
	for _, name := range names {
		found, err := all[name].List()
		if err != nil {
			none = append(none, fmt.Sprintf("%s: %v", name, err))
		}
		for i, c := range found {
			c.Device = fmt.Sprintf("%s:%d", name, i)
			cards = append(cards, c)
		}
	}
	return cards, none
}

// Figures are the measured figures of a card, see calib.FindCard.
func (c *Card) Figures(ctx context.Context, anew bool) (calib.FoundCard, error) {
	return calib.FindCard(ctx, c.Key, anew, func(precision string) (plan.Backend, error) {
		return NewBackend(c.Device, BackendOptions{Precision: precision, Untuned: true})
	})
}

// CardCeilings are the ceilings of a card that was measured before; false if nobody did,
// or the device is no card.
func CardCeilings(device string) (profile.Ceilings, bool) {
	name, _, numbered := strings.Cut(device, ":")
	if !numbered {
		device += ":0"
	}
	if _, all := kinds(); all[name].List == nil {
		return profile.Ceilings{}, false
	}
	cards, _ := AllCards()
	for _, c := range cards {
		f, ok := calib.CachedCard(c.Key)
		if c.Device == device && ok {
			return profile.Ceilings{FLOPs: f.FLOPs["f32"], Bytes: f.Read, Class: map[string]float64{"bf16": f.FLOPs["bf16"]}, Source: "measured before on the card"}, true
		}
	}
	return profile.Ceilings{}, false
}
