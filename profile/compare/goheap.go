package compare

import (
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// What a program allocates on the Go heap is counted exactly, for the whole process during
// the recording, opening the model included. It says what no time of a step names: that the
// host makes a copy for each token, for instance.

// Verdicts about the Go heap.
const (
	MoreAllocated Verdict = "more allocated"
	LessAllocated Verdict = "less allocated"
)

// The kinds of Comparison.GoHeap.
const (
	heapBytes   = "bytes"
	heapObjects = "objects"
)

const (
	// fewBytes and fewObjects in a recording say nothing: a few more may be of a new
	// goroutine, or of one more collection.
	fewBytes, fewObjects = 1 << 20, 1000
	// heapFloor is the smallest change that is reported.
	heapFloor = 0.01
)

// compareGoHeap compares allocations if all recordings count them.
func (c *Comparison) compareGoHeap(a, b []*profile.Profile) {
	c.GoHeap = []CountDiff{}
	if slices.ContainsFunc(slices.Concat(a, b), func(p *profile.Profile) bool { return p.Go == nil }) {
		return
	}
	e, a, b := wholeRecordings(a, b)
	sides := [2][]*profile.Profile{a, b}
	for _, k := range []struct {
		kind string
		few  float64
		of   func(*profile.Profile) int64
	}{
		{heapBytes, fewBytes, func(p *profile.Profile) int64 { return p.Go.Bytes }},
		{heapObjects, fewObjects, func(p *profile.Profile) int64 { return p.Go.Objects }},
	} {
		d := newCountDiff(k.kind, sides, k.of)
		if countable(&e, sides, heapFloor/2) && max(d.Before, d.After) >= k.few {
			d.measure(&e, sides, k.of, k.few, heapFloor)
		}
		if d.Before+d.After > 0 {
			c.GoHeap = append(c.GoHeap, d)
		}
	}
	c.heapTokens = meanTokens(b)
}

// heapSays is the change in a sentence.
func (c *Comparison) heapSays(d *CountDiff) string {
	size, low, high, more := d.Change.spoken()
	if d.Kind == heapObjects {
		return fmt.Sprintf("%.0f objects allocated on the Go heap became %.0f: %.1f %% %s (%.1f to %.1f).", d.Before, d.After, size, more, low, high)
	}
	text := fmt.Sprintf("%.1f MB allocated on the Go heap became %.1f: %.1f %% %s (%.1f to %.1f)", d.Before/1e6, d.After/1e6, size, more, low, high)
	if c.heapTokens > 0 {
		text += fmt.Sprintf(", %+.1f kB per token", (d.After-d.Before)/c.heapTokens/1e3)
	}
	return text + "."
}

func (c *Comparison) goHeapTable() table.Table {
	return countsTable("go heap", "what the process allocated during a recording, opening the model included, the mean of recordings; change: in per cent of A's; untested: little; not several recordings per side, made in turn; sides with other tokens",
		"allocated", c.GoHeap, func(d *CountDiff, n float64) string {
			if d.Kind == heapBytes {
				return fmt.Sprintf("%.1f MB", n/1e6)
			}
			return fmt.Sprintf("%.0f", n)
		})
}
