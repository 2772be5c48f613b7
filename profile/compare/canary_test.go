package compare

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/report"
)

// planted is a canary as the recorder seals it.
type planted struct {
	Plan   string `json:"plan"`
	Sample int    `json:"sample"`
	Step   int    `json:"step"`
	Time   int64  `json:"ns"`
}

// burnInto adds canaries to the samples of a simulated recording.
func burnInto(rng *rand.Rand, p *profile.Profile) {
	var all []planted
	s := &p.Plans[0]
	for k := range s.Samples.Steps {
		for i := range s.Samples.Wall {
			if rng.IntN(40) == 0 {
				n := int64(float64(simTime(&s.Plan, k)) * 2 * (0.5 + (2-0.5)*rng.Float64()))
				s.Samples.Steps[k].Compute[i] += n
				all = append(all, planted{s.ID, i, k, n})
			}
		}
	}
	b, _ := json.Marshal(all)
	p.Canaries = &profile.Canaries{Sealed: base64.StdEncoding.EncodeToString(b)}
}

// The profiler finds nearly all canaries and sizes them within some per cent, on
// quiet machines and on shared ones, and nothing in a recording without.
func TestCanariesAreFound(t *testing.T) {
	for _, m := range []*machine{&machines[0], &machines[1], &machines[4]} {
		rng := rand.New(rand.NewPCG(47, 1))
		p := m.record(rng, 120, asIs)
		if s, err := report.ScoreCanaries(p); s != nil || err != nil {
			t.Errorf("%s: a recording without canaries has %v, %v", m.name, s, err)
		}
		burnInto(rng, p)
		s, err := report.ScoreCanaries(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", m.name, *s)
		if s.Canaries < 100 || s.Recall() < 90 || s.Bias < -10 || s.Bias > 10 || s.BiasLow > s.Bias || s.BiasHigh < s.Bias {
			t.Errorf("%s: recall %.1f %%, bias %.1f %% (%.1f to %.1f) of %d", m.name, s.Recall(), s.Bias, s.BiasLow, s.BiasHigh, s.Canaries)
		}
		var text strings.Builder
		if err := report.Text(&text, p, report.Options{}); err != nil || !strings.Contains(text.String(), "CANARIES") || !strings.Contains(text.String(), "recall") {
			t.Errorf("%v: the report does not say how well canaries are found", err)
		}
	}
}

// What the analysis says does not depend on the secret: with another one, or none,
// it suspects the same calls.
func TestCanariesAreSecret(t *testing.T) {
	rng := rand.New(rand.NewPCG(53, 1))
	p := machines[0].record(rng, 60, asIs)
	burnInto(rng, p)
	with := report.Suspicious(p)
	p.Canaries.Sealed = base64.StdEncoding.EncodeToString([]byte("[]"))
	other := report.Suspicious(p)
	p.Canaries = nil
	without := report.Suspicious(p)
	if len(with.Slow) == 0 || len(with.Slow) != len(other.Slow) || len(with.Slow) != len(without.Slow) {
		t.Errorf("%d, %d and %d calls are suspected", len(with.Slow), len(other.Slow), len(without.Slow))
	}
	for at := range with.Slow {
		if !other.Slow[at] || !without.Slow[at] {
			t.Errorf("%v is suspected with its secret only", at)
		}
	}
	p.Canaries = &profile.Canaries{Sealed: "?"}
	if _, err := report.ScoreCanaries(p); err == nil || !strings.Contains(err.Error(), "canaries.sealed") {
		t.Errorf("a broken seal: %v", err)
	}
}
