package cuda

import (
	"slices"
	"sync"
)

// Every card of a test loads its image, and unpacking takes longer than most tests do.
func init() {
	var kept sync.Map // by name
	unpack = func(name string) ([]byte, error) {
		if data, ok := kept.Load(name); ok {
			return data.([]byte), nil
		}
		data, err := unpackImage(name)
		if err != nil {
			return nil, err
		}
		data = slices.Clip(data) // what is appended goes elsewhere
		kept.Store(name, data)
		return data, nil
	}
}
