package sample

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// penalized computes from the definition: all of the window is counted anew.
func penalized(logits []float32, text []int32, p Penalties) []float32 {
	out := slices.Clone(logits)
	text = text[len(text)-min(len(text), p.window()):]
	for id := range out {
		n := 0
		for _, t := range text {
			if int(t) == id {
				n++
			}
		}
		if n == 0 {
			continue
		}
		if p.Repeat != 0 && out[id] > 0 {
			out[id] /= p.Repeat
		} else if p.Repeat != 0 {
			out[id] *= p.Repeat
		}
		out[id] = out[id] - float32(n)*p.Frequency - p.Presence
	}
	return out
}

// Counting a text that grows gives what counting it anew gives.
func TestPenaltiesOfAGrowingText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range []Penalties{
		{Repeat: 1.3, LastN: 5}, {Presence: 0.5, LastN: 1}, {Frequency: 0.25}, {Repeat: 1.1, Presence: -1, Frequency: 2, LastN: -1}, {Repeat: 0.5, LastN: 1000},
	} {
		s := newSampler(t, Params{Penalties: p})
		text := make([]int32, 0, 400)
		for range 90 { // a prompt, longer than some windows
			text = append(text, rng.Int32N(30))
		}
		for len(text) < cap(text) {
			logits := make([]float32, 25) // some tokens have none
			for i := range logits {
				logits[i] = float32(rng.NormFloat64())
			}
			want := penalized(logits, text, p)
			s.Penalize(logits, text)
			if !slices.Equal(logits, want) {
				t.Fatalf("%+v after %d tokens: %v, expected %v", p, len(text), logits, want)
			}
			for range 1 + rng.IntN(2) {
				if len(text) < cap(text) {
					text = append(text, rng.Int32N(30))
				}
			}
		}
	}
}

// llama.cpp's penalties change the same logits to the same values.
func TestPenaltiesAsLlamaCpp(t *testing.T) {
	data, err := os.ReadFile("testdata/penalties.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Repeat, Presence, Frequency float32
		LastN                       int `json:"last_n"`
		Text                        []int32
		Logits, Want                []float32
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for i, c := range cases {
		s := newSampler(t, Params{Penalties: Penalties{c.Repeat, c.Presence, c.Frequency, c.LastN}})
		s.Penalize(c.Logits, c.Text)
		for id, v := range c.Logits {
			if d := v - c.Want[id]; d > 1e-5 || d < -1e-5 {
				t.Errorf("case %d: token %d has %v, expected %v", i, id, v, c.Want[id])
			}
		}
	}
}

func TestPenaltiesAllocateOnce(t *testing.T) {
	s := newSampler(t, Params{Penalties: Penalties{Repeat: 1.1, LastN: -1}})
	text, logits := make([]int32, 10, 2000), make([]float32, 3000)
	s.Penalize(logits, text)
	if n := testing.AllocsPerRun(1000, func() {
		text = append(text, int32(len(text)))
		s.Penalize(logits, text)
	}); n != 0 {
		t.Errorf("%v allocations per token", n)
	}
}

func TestPenaltiesThatMakeNoSense(t *testing.T) {
	nan := float32(math.NaN())
	for _, p := range []Penalties{{Repeat: -1}, {Repeat: nan}, {Repeat: 1e-40}, {Repeat: 0.0099}, {Repeat: 100.1}, {Presence: 101}, {Presence: nan}, {Frequency: -101}, {LastN: -2}} {
		if err := new(Sampler).Reset(Params{Penalties: p}); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}

// The largest penalties that are taken leave logits finite.
func TestLargestPenaltiesGiveFiniteLogits(t *testing.T) {
	for _, p := range []Penalties{{Repeat: 0.01, Presence: -100, Frequency: -100, LastN: -1}, {Repeat: 100, Presence: 100, Frequency: 100, LastN: -1}} {
		s := newSampler(t, Params{Penalties: p})
		logits, text := []float32{1e30, -1e30, 0, 50}, make([]int32, 1<<16)
		for i := range text {
			text[i] = int32(i % 4)
		}
		s.Penalize(logits, text)
		for id, v := range logits {
			if math.IsInf(float64(v), 0) || v != v {
				t.Errorf("%+v: token %d has %v", p, id, v)
			}
		}
	}
}
