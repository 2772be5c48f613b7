package calib

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/plan"
)

func cardKey() CardKey { return NewCardKey("cuda", "a card", "580.1", 132) }

// onCPU opens the CPU in the place of a card.
func onCPU(precision string) (plan.Backend, error) {
	return cpu.New(cpu.Options{Workers: 1, Precision: cpu.Precision(precision)})
}

// Figures of a card are measured once, kept, and refused if they are damaged.
func TestFindCard(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(Env, "")
	k := cardKey()
	if _, ok := CachedCard(k); ok {
		t.Error("figures are kept before anything was measured")
	}
	opened := 0
	open := func(precision string) (plan.Backend, error) {
		opened++
		return onCPU(precision)
	}
	first, err := FindCard(t.Context(), k, false, open)
	if err != nil || first.From != FromMeasured || !first.Card.Measured || first.Card.check() != nil {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := FindCard(t.Context(), k, false, open)
	if err != nil || again.From != FromCache || !reflect.DeepEqual(again.Card, first.Card) || opened != 2 {
		t.Errorf("%+v, %v after opening %d times, expected the same figures from the cache", again, err, opened)
	}
	if c, ok := CachedCard(k); !ok || c.Read != first.Card.Read {
		t.Errorf("%+v, %t", c, ok)
	}
	other := k
	other.Driver = "590.1"
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCard(dir, other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another driver: %v", err)
	}
	good, err := os.ReadFile(again.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"half":         string(good[:len(good)/2]),
		"negative":     strings.Replace(string(good), `"run_s": `, `"run_s": -`, 1),
		"no rate":      strings.Replace(string(good), `"bf16"`, `"b16"`, 1),
		"another card": strings.Replace(string(good), "a card", "b card", 1),
	} {
		if data == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if err := os.WriteFile(again.File, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, ok := CachedCard(k); ok {
			t.Errorf("%s: read as %+v", name, c)
		}
	}
	lost := plan.DeviceError("lost")
	if _, err := FindCard(t.Context(), k, true, func(string) (plan.Backend, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("%v, expected that the card is lost", err)
	}
	t.Setenv(Env, Off)
	if f, err := FindCard(t.Context(), k, false, open); err != nil || f.From != FromDefault || opened != 2 {
		t.Errorf("switched off: %+v, %v", f, err)
	}
}

// A folder that cannot be written is a note.
func TestFindCardKeepsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOTPATH_CACHE", filepath.Join(file, "below"))
	t.Setenv(Env, "")
	f, err := FindCard(t.Context(), cardKey(), false, onCPU)
	if err != nil || f.From != FromMeasured || !strings.HasPrefix(f.Note, "not kept: ") || f.File != "" {
		t.Errorf("%+v, %v", f, err)
	}
}

// The card wins where its work outweighs its start and the gaps between kernels.
func TestChooseDevice(t *testing.T) {
	c := Default(8, 8)
	card := Card{Start: 0.4, Copy: 10e9, Run: 15e-6, Layer: 15e-6, Read: 4e12, FLOPs: map[string]float64{"f32": 40e12, "bf16": 600e12}}
	small := Model{Work: minilm, Layers: 6, Bytes: 21e6, Total: 45e6}
	large := Model{Work: Work{FLOPs: 2.5e9, Packed: 1.24e9, Barriers: 128}, Layers: 16, Bytes: 2.5e9, Total: 2.5e9, Most: 2048}
	tiny := Model{Work: Work{FLOPs: 1e5, Packed: 5e4, Barriers: 16}, Layers: 2, Bytes: 2e5, Total: 2e5}
	for _, x := range []struct {
		name string
		m    Model
		d    Demand
		once bool
		wins bool
	}{
		{"one short text, once", small, Demand{Texts: 1, Tokens: 16}, true, false},
		{"one short text of many", small, Demand{Texts: 1, Tokens: 16}, false, true},
		{"a tiny model", tiny, Demand{Texts: 1, Tokens: 16}, false, false},
		{"a million tokens, once", small, Demand{Texts: 1 << 14, Tokens: 1 << 20}, true, true},
		{"decoding", large, Demand{Decode: 1}, false, true},
		{"one token, once", large, Demand{Decode: 1}, true, false},
		{"a long text, once", large, Demand{Texts: 1, Tokens: 100, Decode: 500}, true, true},
	} {
		e := Choose(&c, &card, x.m, x.d, x.once, "bf16")
		if e.Wins() != x.wins || !(e.CPU > 0) || !(e.Card > e.Start) || (e.Start > 0) != x.once {
			t.Errorf("%s: %+v, expected that the card wins: %t", x.name, e, x.wins)
		}
	}
	if slow, fast := Choose(&c, &card, large, Demand{Texts: 1, Tokens: 4096}, false, "f32"), Choose(&c, &card, large, Demand{Texts: 1, Tokens: 4096}, false, "bf16"); !(slow.Card > 5*fast.Card) {
		t.Errorf("%g s in f32 and %g s in bf16, expected the ratio of their rates", slow.Card, fast.Card)
	}
}

func FuzzDecodeCard(f *testing.F) {
	k := CardKey{Version: cardVersion, Kind: "cuda"}
	f.Add(fmt.Appendf(nil, `{"key":{"version":%d,"kind":"cuda","name":"","driver":"","units":0},"costs":{"start_s":1,"copy_bytes_per_s":1e9,"run_s":1e-5,"layer_s":1e-5,"read_bytes_per_s":1e12,"flops_per_s":{"f32":1e12,"bf16":1e13},"measured":true}}`, cardVersion))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fuzzLoad(t, data, k, decodeCard)
		if err != nil {
			return
		}
		if err := c.check(); err != nil {
			t.Errorf("accepted: %v", err)
		}
	})
}
