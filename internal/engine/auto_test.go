package engine

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/plan"
)

// onlyKinds makes these the kinds of cards for as long as a test runs.
func onlyKinds(t *testing.T, kinds map[string]Kind) {
	t.Helper()
	backends.Lock()
	kept := backends.kinds
	backends.kinds = kinds
	backends.Unlock()
	t.Cleanup(func() {
		backends.Lock()
		backends.kinds = kept
		backends.Unlock()
	})
}

// kept are figures of a card in a cache of the test's own: nothing is measured.
func kept(t *testing.T, key calib.CardKey, c calib.Card) {
	t.Helper()
	t.Setenv(calib.Env, "")
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	dir, err := calib.Dir()
	if err == nil {
		err = calib.StoreCard(dir, key, c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var (
	testCard  = calib.NewCardKey("card", "a card", "1.0", 100)
	fastCard  = calib.Card{Start: 0.4, Copy: 10e9, Run: 15e-6, Layer: 15e-6, Read: 4e12, FLOPs: map[string]float64{"f32": 40e12, "bf16": 600e12}, Measured: true}
	slowCard  = calib.Card{Start: 2, Copy: 1e9, Run: 5e-3, Layer: 5e-3, Read: 4e9, FLOPs: map[string]float64{"f32": 4e9, "bf16": 4e9}, Measured: true}
	llamaWork = calib.Model{Work: calib.Work{FLOPs: 2.5e9, Packed: 1.24e9, Barriers: 128}, Layers: 16, Bytes: 2.5e9}
	encoder   = calib.Model{Work: calib.Work{FLOPs: 21e6, Packed: 10.6e6, Barriers: 48}, Layers: 6, Bytes: 42e6}
)

// TestAutoDevice: a card is taken if it can be used and the figures say that it is
// faster. Otherwise the CPU is, and the reason is told, unless there is no such card.
func TestAutoDevice(t *testing.T) {
	full, busy := plan.DeviceError("the card is full"), plan.DeviceError("the card is busy")
	card := func(skip error, fits error) Kind {
		return Kind{Precision: "bf16", Fits: func(int64) error { return fits },
			List: func() ([]Card, error) { return []Card{{Key: testCard, Words: "a card", Tokens: 2048, Skip: skip}}, nil }}
	}
	none := func(err error) Kind { return Kind{List: func() ([]Card, error) { return nil, err }} }
	absent := Absent(errors.New("no driver"))
	few := calib.Demand{Texts: 2, Tokens: 20}
	for _, c := range []struct {
		name    string
		kinds   map[string]Kind
		figures calib.Card
		model   calib.Model
		demand  calib.Demand
		device  string
		why     error
		says    string
	}{
		{"a card", map[string]Kind{"card": card(nil, nil)}, fastCard, llamaWork, calib.Demand{}, "card", nil, "a token of one sequence"},
		{"a small encoder", map[string]Kind{"card": card(nil, nil)}, fastCard, encoder, calib.Demand{}, "card", nil, "on card"},
		{"two short texts, once", map[string]Kind{"card": card(nil, nil)}, fastCard, encoder, few, "", nil, "less than any card"},
		{"a large model, once", map[string]Kind{"card": card(nil, nil)}, fastCard, llamaWork, calib.Demand{Texts: 1, Tokens: 1}, "", nil, "to open it"},
		{"many texts, once", map[string]Kind{"card": card(nil, nil)}, fastCard, encoder, calib.Demand{Texts: 1e5, Tokens: 1e7}, "card", nil, "10000000 tokens"},
		{"a slow card", map[string]Kind{"card": card(nil, nil)}, slowCard, llamaWork, calib.Demand{}, "", nil, "on card"},
		{"none", map[string]Kind{"card": none(absent)}, fastCard, llamaWork, calib.Demand{}, "", nil, "no card"},
		{"one that is CUDA's", map[string]Kind{"card": card(absent, nil)}, fastCard, llamaWork, calib.Demand{}, "", nil, "no card"},
		{"an old driver", map[string]Kind{"card": none(busy)}, fastCard, llamaWork, calib.Demand{}, "", busy, "busy"},
		{"an old card", map[string]Kind{"card": card(busy, nil)}, fastCard, llamaWork, calib.Demand{}, "", busy, "busy"},
		{"a full one", map[string]Kind{"card": card(nil, full)}, fastCard, llamaWork, calib.Demand{}, "", full, "full"},
		{"a full one and another", map[string]Kind{"a": card(nil, full), "b": card(nil, nil)}, fastCard, llamaWork, calib.Demand{}, "b", nil, "on b"},
		{"none and a full one", map[string]Kind{"a": none(absent), "b": card(nil, full)}, fastCard, llamaWork, calib.Demand{}, "", full, "full"},
		{"a build without cards", nil, fastCard, llamaWork, calib.Demand{}, "", nil, "no card"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onlyKinds(t, c.kinds)
			kept(t, testCard, c.figures)
			got := AutoDevice(t.Context(), AutoRequest{Bytes: c.model.Bytes, Threads: 4, Demand: c.demand, Generates: c.model.Layers == llamaWork.Layers,
				Model: func() (calib.Model, error) { return c.model, nil }})
			if got.Device != c.device || !errors.Is(got.Why, c.why) || (got.Why == nil) != (c.why == nil) {
				t.Errorf("%q, %v, expected %q, %v", got.Device, got.Why, c.device, c.why)
			}
			if s := got.String(); !strings.Contains(s, c.says) || strings.Contains(s, "\n") {
				t.Errorf("%q, expected one line with %q", s, c.says)
			}
		})
	}
}

// A card that has no figures is measured; one that cannot be opened for it is not
// taken, and the reason is told.
func TestAutoDeviceMeasures(t *testing.T) {
	t.Setenv(calib.Env, "")
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	lost := plan.DeviceError("the card is lost")
	const name = "auto-test"
	Register(name, func(BackendOptions) (plan.Backend, error) { return nil, lost })
	onlyKinds(t, map[string]Kind{name: {Precision: "f32", Fits: func(int64) error { return nil },
		List: func() ([]Card, error) { return []Card{{Key: testCard}}, nil }}})
	r := AutoRequest{Bytes: 1, Threads: 2, Generates: true, Model: func() (calib.Model, error) { return llamaWork, nil }}
	if c := AutoDevice(t.Context(), r); c.Device != "" || !errors.Is(c.Why, lost) || !errors.Is(c.Why, plan.ErrDevice) {
		t.Errorf("%+v, expected the CPU because %v", c, lost)
	}
	r.BuiltIn = true
	if c := AutoDevice(t.Context(), r); c.Device != name || c.From != calib.FromDefault {
		t.Errorf("%+v, expected the card by built-in figures, unopened", c)
	}
}

// Steps of a profile are held against a card's figures once somebody measured them.
func TestCardCeilings(t *testing.T) {
	kept(t, testCard, fastCard)
	other := testCard
	other.Name = "another card"
	onlyKinds(t, map[string]Kind{"card": {List: func() ([]Card, error) { return []Card{{Key: testCard}, {Key: other}}, nil }}})
	for device, want := range map[string]bool{"card": true, "card:0": true, "card:1": false, "card:2": false, "cpu": false} {
		c, ok := CardCeilings(device)
		if ok != want || ok && (c.Bytes != fastCard.Read || c.FLOPs != fastCard.FLOPs["f32"] || c.Class["bf16"] != fastCard.FLOPs["bf16"]) {
			t.Errorf("%s: %+v, %t, expected %t", device, c, ok, want)
		}
	}
}
