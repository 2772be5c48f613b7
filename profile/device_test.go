package profile

import (
	"bytes"
	"strings"
	"testing"
)

// Counts of a device tell how many runs went by since its driver was asked for memory.
func TestDeviceMemory(t *testing.T) {
	rec := NewRecorder(Options{})
	looks := 0
	count := func(allocations int) {
		rec.CountMemory("card", allocations, func() DeviceMemory {
			looks++
			return DeviceMemory{Held: int64(100 * allocations), Used: 50, ByClass: map[string]int64{"weights": 50}}
		})
	}
	for _, n := range []int{2, 2, 3, 3, 3, 3} {
		count(n)
	}
	p := rec.Snapshot()
	if len(p.Devices) != 1 || looks != 2 {
		t.Fatalf("%+v after %d looks, expected one device and two looks", p.Devices, looks)
	}
	if d := p.Devices[0]; d.Device != "card" || d.Allocations != 3 || d.Runs != 6 || d.Since != 3 || d.Held != 300 || d.Used != 50 || d.ByClass["weights"] != 50 {
		t.Errorf("%+v, expected 3 allocations, 3 of 6 runs since the last", d)
	}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	back, err := Read("a", []byte(text))
	if err != nil || len(back.Devices) != 1 || back.Devices[0].Since != 3 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, wrong := range []string{`"runs_since":7`, `"runs_since":-1`} {
		damaged := strings.Replace(strings.ReplaceAll(text, `"runs_since": 3`, `"runs_since":3`), `"runs_since":3`, wrong, 1)
		if !strings.Contains(damaged, wrong) {
			t.Fatalf("no field runs_since in %s", text)
		}
		if _, err := Read("a", []byte(damaged)); err == nil || !strings.Contains(err.Error(), "devices[0]") {
			t.Errorf("%s: %v, expected an error of devices[0]", wrong, err)
		}
	}
}
