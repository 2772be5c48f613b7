package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"hotpath/internal/plan"
)

// BackendOptions configure a backend when it is opened.
type BackendOptions struct {
	Threads   int    // of the CPU; 0 means all
	Device    string // what follows the name: the 0 of "opencl:0"
	Precision string // f32, bf16 or auto
	InPlace   bool   // read quantized weights where the file is mapped
}

// OpenBackend makes a backend.
type OpenBackend func(o BackendOptions) (plan.Backend, error)

// Cards lists the devices of a kind, one line each for people. Its error says why
// there are none.
type Cards func() ([]string, error)

// Fits reports why a kind of device cannot take a model of some bytes. The error is
// ErrAbsent if the machine has no such device.
type Fits func(bytes int64) error

// ErrAbsent says that a machine has no device of a kind.
var ErrAbsent = errors.New("no device")

var backends struct {
	sync.Mutex
	open  map[string]OpenBackend
	cards map[string]Cards
	fits  map[string]Fits
}

// Register makes a backend available by name. It is called from init
// functions; a name that is taken panics there.
func Register(name string, open OpenBackend) {
	backends.Lock()
	defer backends.Unlock()
	if backends.open == nil {
		backends.open = map[string]OpenBackend{}
	}
	if backends.open[name] != nil {
		panic("engine: backend " + name + " is registered twice")
	}
	backends.open[name] = open
}

// RegisterCards sets the function that lists the cards of a backend.
func RegisterCards(name string, list Cards) {
	backends.Lock()
	defer backends.Unlock()
	if backends.cards == nil {
		backends.cards = map[string]Cards{}
	}
	backends.cards[name] = list
}

// RegisterAuto makes AutoDevice choose a backend where a model fits.
func RegisterAuto(name string, fits Fits) {
	backends.Lock()
	defer backends.Unlock()
	if backends.fits == nil {
		backends.fits = map[string]Fits{}
	}
	backends.fits[name] = fits
}

// leastAuto is the size of a model from which a device is worth its start: opening a
// card takes longer than a CPU needs for the texts that a smaller model is asked for.
const leastAuto = 64 << 20

// AutoDevice is the device that a model of some bytes runs on if nobody names one, or
// "" for the CPU. why says in one line why a device that is there is not taken.
func AutoDevice(bytes int64) (device string, why error) {
	if bytes < leastAuto {
		return "", nil
	}
	backends.Lock()
	all := maps.Clone(backends.fits)
	backends.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := all[name](bytes)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, ErrAbsent) && why == nil {
			why = err
		}
	}
	return "", why
}

// AllCards lists the cards of all backends that have such, "cuda:0 ...", and the
// kinds without one, with the reason.
func AllCards() (cards, none []string) {
	backends.Lock()
	lists := maps.Clone(backends.cards)
	backends.Unlock()
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		found, err := lists[name]()
		if err != nil {
			none = append(none, fmt.Sprintf("%s: %v", name, err))
		}
		for i, c := range found {
			cards = append(cards, fmt.Sprintf("%s:%d %s", name, i, c))
		}
	}
	return cards, none
}

// Backends lists the names that are registered, sorted.
func Backends() []string {
	backends.Lock()
	defer backends.Unlock()
	var names []string
	for name := range backends.open {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// NewBackend opens "name" or "name:device".
func NewBackend(spec string, o BackendOptions) (plan.Backend, error) {
	name, device, _ := strings.Cut(spec, ":")
	backends.Lock()
	open := backends.open[name]
	backends.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: device %q, expected one of %s", ErrInput, spec, strings.Join(Backends(), ", "))
	}
	o.Device = device
	return open(o)
}
