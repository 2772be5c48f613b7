package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

// deviceInfo is what info says about a card.
type deviceInfo struct {
	Device  string      `json:"device"` // cuda:0
	Words   string      `json:"description"`
	Figures *calib.Card `json:"figures,omitempty"`
	From    string      `json:"from,omitempty"` // the origin of the figures
	Note    string      `json:"note,omitempty"`
	Memory  *memoryInfo `json:"memory,omitempty"`
}

// memoryInfo is what the pool of a device has taken from its driver.
type memoryInfo struct {
	Allocations int              `json:"driver_allocations"`
	After       int              `json:"driver_allocations_after_warmup"`
	Runs        int              `json:"runs_after_warmup"`
	Held        int64            `json:"held_bytes"`
	Used        int64            `json:"used_bytes"`
	ByClass     map[string]int64 `json:"used_by_class"`
}

// describeDevices finds the figures of cards; anew measures them again. A device that
// computes on the processor is measured only if it is named: that takes long.
func describeDevices(ctx context.Context, cards []engine.Card, anew, named bool) (out []deviceInfo, err error) {
	for _, c := range cards {
		d := deviceInfo{Device: c.Device, Words: c.Words}
		measure := !c.CPU || named
		if card, ok := calib.CachedCard(c.Key); ok && !(anew && measure) {
			d.Figures, d.From = &card, calib.FromCache
		} else if measure {
			found, err := c.Figures(ctx, anew)
			switch {
			case ctx.Err() != nil:
				return out, context.Cause(ctx)
			case err != nil:
				d.Note = "not measured: " + oneLine(err.Error())
			default:
				d.Figures, d.From, d.Note = &found.Card, found.From, found.Note
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// describeDevice is all about one device, which is opened. The CPU is no such device.
func describeDevice(ctx context.Context, device string, anew bool) (d deviceInfo, err error) {
	cards, none := engine.AllCards()
	want := device
	if !strings.Contains(want, ":") {
		want += ":0"
	}
	i := slices.IndexFunc(cards, func(c engine.Card) bool { return c.Device == want })
	if i < 0 {
		for _, reason := range none {
			if strings.HasPrefix(reason, deviceName(device)+": ") {
				return d, errors.New(reason)
			}
		}
		return d, fmt.Errorf("no device %s, see hotpath info for those of this machine", device)
	}
	be, err := engine.NewBackend(want, engine.BackendOptions{Untuned: true})
	if err != nil {
		return d, err
	}
	use, err := calib.MeasurePool(ctx, be)
	if err = errors.Join(err, be.Close()); err != nil {
		return d, err
	}
	all, err := describeDevices(ctx, cards[i:i+1], anew, true)
	if err != nil {
		return d, err
	}
	d = all[0]
	d.Memory = newMemoryInfo(use.Warm, use.End, use.Runs)
	return d, nil
}

func newMemoryInfo(warm, end plan.MemoryCounts, runs int) *memoryInfo {
	return &memoryInfo{end.Allocations, end.Allocations - warm.Allocations, runs, end.Held, end.Used, end.ByClass}
}

// rows are the lines of a device; the first has its name.
func (d deviceInfo) rows(name string) [][2]string {
	rows := [][2]string{{name, d.Device + " " + d.Words}}
	if f := d.Figures; f != nil {
		rows = append(rows,
			[2]string{"  rates", fmt.Sprintf("%s read, products %s in f32, %s in bf16 (%s)", rate(f.Read, "B/s"), rate(f.FLOPs["f32"], "FLOP/s"), rate(f.FLOPs["bf16"], "FLOP/s"), d.From)},
			[2]string{"  times", fmt.Sprintf("%s to open, weights at %s; a run %s, a layer of few rows %s", short(f.Start), rate(f.Copy, "B/s"), short(f.Run), short(f.Layer))})
	}
	if d.Note != "" {
		rows = append(rows, [2]string{"  note", d.Note})
	}
	if m := d.Memory; m != nil {
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(m.ByClass)) {
			classes = append(classes, class+" "+size(m.ByClass[class]))
		}
		rows = append(rows,
			[2]string{"  memory", fmt.Sprintf("%d driver allocations, %d of them in %d runs after the first of each size", m.Allocations, m.After, m.Runs)},
			[2]string{"  pool", fmt.Sprintf("%s held, %s in use: %s", size(m.Held), size(m.Used), strings.Join(classes, ", "))})
	}
	return rows
}

// rate is a number per second with a prefix.
func rate(v float64, unit string) string {
	for _, p := range []struct {
		least  float64
		prefix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if v >= p.least {
			return fmt.Sprintf("%.1f %s%s", v/p.least, p.prefix, unit)
		}
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// short is a time in seconds for people.
func short(s float64) string {
	for _, u := range []struct {
		least float64
		name  string
	}{{1, "s"}, {1e-3, "ms"}} {
		if s >= u.least {
			return fmt.Sprintf("%.3g %s", s/u.least, u.name)
		}
	}
	return fmt.Sprintf("%.3g us", s*1e6)
}

// cardNames are the values of --device of info.
func cardNames() string {
	kinds := engine.CardKinds()
	if len(kinds) == 0 {
		return "none: this build knows no cards"
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind, kind+":N")
	}
	return "a card: " + strings.Join(names, ", ")
}

// infoOfDevice prints all about one device.
func infoOfDevice(ctx context.Context, std streams, device string, anew bool, format string) error {
	if !slices.Contains(engine.CardKinds(), deviceName(device)) {
		return usagef("--device %q, expected %s", device, cardNames())
	}
	if err := checkDevice(device); err != nil {
		return err
	}
	d, err := describeDevice(ctx, device, anew)
	if err != nil {
		return err
	}
	if format == "json" {
		return document(std.out, d)
	}
	return table(std.out, d.rows("gpu"))
}
