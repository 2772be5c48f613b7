package main

import (
	"encoding/json"
	"strings"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
)

// What info says about a card: its line, rates, times, and what its driver was asked for.
func TestInfoOfACard(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	key := calib.NewCardKey("cuda", "NVIDIA H200", "580.1", 132)
	dir, err := calib.Dir()
	if err == nil {
		err = calib.StoreCard(dir, key, calib.Card{Start: 0.41, Copy: 8.1e9, Run: 12e-6, Layer: 9.25e-6, Read: 4.21e12, FLOPs: map[string]float64{"f32": 44e12, "bf16": 690e12}, Measured: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := describeDevices(t.Context(), []engine.Card{{Device: "cuda:0", Key: key, Words: "NVIDIA H200, 132 units"}, {Device: "opencl:0", Words: "a processor", CPU: true}}, false, false)
	if err != nil || len(found) != 2 || found[1].Figures != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	found[0].Memory = &memoryInfo{Allocations: 14, Runs: 128, Held: 3 << 20, Used: 2 << 20, ByClass: map[string]int64{"weights": 1 << 20, "io": 1 << 20}}
	var lines []string
	for _, row := range found[0].rows("gpus") {
		lines = append(lines, row[0]+" "+row[1])
	}
	for i, want := range []string{
		"gpus cuda:0 NVIDIA H200, 132 units",
		"  rates 4.2 TB/s read, products 44.0 TFLOP/s in f32, 690.0 TFLOP/s in bf16 (measured before)",
		"  times 410 ms to open, weights at 8.1 GB/s; a run 12 us, a layer of few rows 9.25 us",
		"  memory 14 driver allocations, 0 of them in 128 runs after the first of each size",
		"  pool 3072 KiB held, 2048 KiB in use: io 1024 KiB, weights 1024 KiB",
	} {
		if i >= len(lines) || lines[i] != want {
			t.Errorf("line %d of %q, expected %q", i, lines, want)
		}
	}
}

// On a machine with a device, info --device opens it; after the first runs its driver is
// not asked for memory.
func TestInfoOfADevice(t *testing.T) {
	cards, _ := engine.AllCards()
	if len(cards) == 0 {
		t.Skip("no card and no OpenCL runtime")
	}
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	for _, c := range cards {
		var d deviceInfo
		if err := json.Unmarshal([]byte(ok(t, "info", "--device", c.Device, "--format", "json")), &d); err != nil {
			t.Fatal(err)
		}
		m := d.Memory
		if d.Device != c.Device || d.Figures == nil || m == nil {
			t.Fatalf("%+v", d)
		}
		if m.Allocations < 1 || m.After != 0 || m.Runs < 8 || m.Used <= 0 || m.Held < m.Used || m.ByClass["weights"] <= 0 {
			t.Errorf("%s: %+v", c.Device, *m)
		}
	}
}

// With -v one line says which device auto takes and why; without it there is none on a
// machine without a card.
func TestAutoSaysWhy(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"embed", "a text", "--format", "csv", "-v"}, "hotpath: --device auto takes "},
		{[]string{"embed", "a text", "--format", "csv", "-v", "--device", "cpu"}, ""},
		{[]string{"run", "-p", "a text", "-n", "2", "-v"}, "hotpath: --device auto takes "},
	} {
		got := run(t, c.args...)
		if got.status != exitDone || strings.Contains(got.err, "--device auto takes") != (c.says != "") || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: status %d, %q, expected %q", c.args, got.status, got.err, c.says)
		}
	}
}
