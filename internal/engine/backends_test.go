package engine

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/plan"
)

func TestExpectedDevice(t *testing.T) {
	const plain, card = "plain-kind", "card-kind"
	opened := ""
	for _, name := range []string{plain, card} {
		Register(name, func(o BackendOptions) (plan.Backend, error) {
			opened = name + ":" + o.Device
			return nil, errors.New("opened")
		})
	}
	RegisterCards(card, Kind{List: func() ([]Card, error) { return nil, ErrAbsent }})
	t.Cleanup(func() {
		backends.Lock()
		defer backends.Unlock()
		delete(backends.open, plain)
		delete(backends.open, card)
		delete(backends.kinds, card)
	})
	for spec, want := range map[string]string{
		plain: "", card: "", card + ":0": "", card + ":12": "",
		"abacus": "one of ", "abacus:0": "one of ", "": "one of ", ":0": "one of ",
		plain + ":0": "", plain + ":": "plain-kind:N", plain + ":x": "plain-kind:N", card + ":01": "",
		card + ":": "card-kind or card-kind:N with the number of a device from 0", card + ":-1": "card-kind:N", card + ":first": "card-kind:N",
		card + ":+1": "card-kind:N", card + ":1:2": "card-kind:N", card + ":4294967296": "card-kind:N",
	} {
		opened = ""
		got := ExpectedDevice(spec)
		_, err := NewBackend(spec, BackendOptions{})
		if want == "" {
			if got != "" || errors.Is(err, ErrInput) || !strings.HasPrefix(opened, strings.TrimSuffix(spec, ":0")) {
				t.Errorf("%q: expected %q, %v, opened %q", spec, got, err, opened)
			}
			continue
		}
		if !strings.Contains(got, want) || !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) || opened != "" {
			t.Errorf("%q: %q, %v, expected %q", spec, got, err, want)
		}
	}
}
