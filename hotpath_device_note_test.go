package hotpath

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
)

// DeviceNote says why a card that is there is not taken. It says nothing if there is
// none, if it is slower, if it is taken, and if a device was named.
func TestDeviceNote(t *testing.T) {
	t.Setenv(calib.Env, "")
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	const card = "note-card"
	fast := calib.Card{Start: 1e-3, Copy: 1e12, Run: 1e-6, Layer: 1e-6, Read: 4e12, FLOPs: map[string]float64{"f32": 1e17, "bf16": 1e17}, Measured: true}
	slow := calib.Card{Start: 100, Copy: 1e6, Run: 1, Layer: 1, Read: 1e6, FLOPs: map[string]float64{"f32": 1e6, "bf16": 1e6}, Measured: true}
	var opens error
	engine.Register(card, func(o engine.BackendOptions) (plan.Backend, error) {
		if opens != nil {
			return nil, opens
		}
		return engine.NewBackend("cpu", o)
	})
	dir, err := calib.Dir()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]calib.CardKey{}
	for name, c := range map[string]calib.Card{"fast": fast, "slow": slow} {
		keys[name] = calib.NewCardKey(card, name, "1.0", 100)
		if err := calib.StoreCard(dir, keys[name], c); err != nil {
			t.Fatal(err)
		}
	}
	defer engine.RegisterCards(card, engine.Kind{List: func() ([]engine.Card, error) { return nil, engine.ErrAbsent }})
	for _, c := range []struct {
		name         string
		device       string
		cards        []engine.Card
		list         error
		fits, opens  error
		note, choice string // beginnings
	}{
		{"a list that fails", "auto", nil, errors.New("the driver is too old\nexpected 580"), nil, nil, "the driver is too old; expected 580", "the CPU: the driver is too old; expected 580"},
		{"a card that auto skips", "auto", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"], Skip: errors.New("it has no matrix units")}}, nil, nil, nil, "it has no matrix units", "the CPU: it has no matrix units"},
		{"too little memory", "auto", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"]}}, nil, errors.New("1 GiB is free, expected 2"), nil, "1 GiB is free, expected 2", "the CPU for 10000000 tokens of texts: about "},
		{"a card that cannot be opened", "auto", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"]}}, nil, nil, errors.New("another process has it"), "another process has it", "the CPU for 10000000 tokens of texts: about "},
		{"a card for others", "auto", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"], Skip: engine.ErrAbsent}}, nil, nil, nil, "", "the CPU: no card that auto takes"},
		{"no card", "auto", nil, engine.Absent(errors.New("no library")), nil, nil, "", "the CPU: no card that auto takes"},
		{"a slow card", "auto", []engine.Card{{Key: keys["slow"]}}, nil, nil, nil, "", "the CPU for 10000000 tokens of texts: about "},
		{"a fast card", "auto", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"]}}, nil, nil, nil, "", card + " for 10000000 tokens of texts: about "},
		{"a device that is named", "cpu", []engine.Card{{Tokens: 1 << 20, Key: keys["fast"], Skip: errors.New("never read")}}, nil, nil, nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			opens = c.opens
			engine.RegisterCards(card, engine.Kind{Precision: "f32", List: func() ([]engine.Card, error) { return c.cards, c.list }, Fits: func(int64) error { return c.fits }})
			m := open(t, testmodels.Dir(t, "bert"), Options{Device: c.device, Threads: 2, Expect: Workload{Texts: 100_000, Tokens: 10_000_000}})
			if got := m.DeviceNote(); got != c.note {
				t.Errorf("note %q, expected %q", got, c.note)
			}
			got := m.DeviceChoice()
			if !strings.HasPrefix(got, c.choice) || (got == "") != (c.choice == "") || strings.Contains(got, "\n") {
				t.Errorf("choice %q, expected one line that begins with %q", got, c.choice)
			}
			if c.note != "" && !strings.HasSuffix(got, c.note) {
				t.Errorf("choice %q, expected the reason %q at its end", got, c.note)
			}
		})
	}
}
