package perf

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// Every event is either counted or named with a reason; none is lost.
func TestEachEventCountedOrExplained(t *testing.T) {
	c := Open()
	defer c.Close()
	touched := 0
	r, err := c.Count(func() error {
		b := make([]byte, 64<<20) // fresh pages: faults
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
			touched++
		}
		runtime.KeepAlive(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, m := range c.missing {
		if m.Why == "" {
			t.Errorf("%s is missing without a reason", m.Event)
		}
		why[m.Event] = m.Why
	}
	for _, e := range Events {
		if _, ok := r[e.Name]; ok == (why[e.Name] != "") {
			t.Errorf("%s: counted %v, missing because of %q: expected one of the two", e.Name, ok, why[e.Name])
		}
	}
	if faults, ok := r[PageFaults]; ok && faults < 16 {
		t.Errorf("%d pages were touched, %v faults counted", touched, faults)
	}
	if v, ok := r[Instructions]; ok && v < float64(touched) {
		t.Errorf("%v instructions for %d loop rounds", v, touched)
	}
	for name := range why {
		if !strings.Contains(c.Explain(), name) {
			t.Errorf("%q does not name %s", c.Explain(), name)
		}
	}
	if len(why) == 0 && c.Explain() != "" {
		t.Errorf("all is counted, yet %q", c.Explain())
	}
	t.Log(c.Explain())
	t.Log(r)
}

func TestCountPassesErrorsOn(t *testing.T) {
	c := Open()
	defer c.Close()
	want := errors.New("no")
	if _, err := c.Count(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error %v, expected %v", err, want)
	}
}

func TestRatio(t *testing.T) {
	r := Reading{Cycles: 4, Instructions: 8}
	if v, ok := r.Ratio(Instructions, Cycles); !ok || v != 2 {
		t.Errorf("%v, %v", v, ok)
	}
	if _, ok := r.Ratio(CacheMisses, Cycles); ok {
		t.Error("a ratio of an event that is missing")
	}
}
