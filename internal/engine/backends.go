package engine

import (
	"fmt"
	"slices"
	"strconv"
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
	Untuned   bool   // choose kernels without measuring them: for measurements of the device
}

// OpenBackend makes a backend.
type OpenBackend func(o BackendOptions) (plan.Backend, error)

var backends struct {
	sync.Mutex
	open  map[string]OpenBackend
	kinds map[string]Kind // of cards
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

// ExpectedDevice is what was expected in place of "name" or "name:number", "" if
// nothing is wrong with it. Whether the machine has the device is not looked at.
func ExpectedDevice(spec string) string {
	name, number, numbered := strings.Cut(spec, ":")
	known := Backends()
	if !slices.Contains(known, name) {
		return "one of " + strings.Join(known, ", ")
	}
	if !numbered {
		return ""
	}
	if _, err := strconv.ParseUint(number, 10, 31); err != nil {
		return fmt.Sprintf("%s or %[1]s:N with the number of a device from 0", name)
	}
	return ""
}

// NewBackend opens "name" or "name:device".
func NewBackend(spec string, o BackendOptions) (plan.Backend, error) {
	if want := ExpectedDevice(spec); want != "" {
		return nil, fmt.Errorf("%w: device %q, expected %s", ErrInput, spec, want)
	}
	name, device, _ := strings.Cut(spec, ":")
	backends.Lock()
	open := backends.open[name]
	backends.Unlock()
	o.Device = device
	return open(o)
}
