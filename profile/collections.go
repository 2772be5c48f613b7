package profile

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// collections knows the latest pauses of the garbage collector. Reading them
// costs a microsecond or two and is done only when the count of cycles, which
// is cheap to read, has changed.
type collections struct {
	mu     sync.Mutex
	cycles []metrics.Sample // one: the count of completed cycles
	read   uint64           // that count when stats was read
	stats  debug.GCStats    // newest first; the runtime keeps 256 of them
	now    int64            // two clocks at one moment, when stats was read:
	wall   time.Time        // the runtime keeps calendar times
	last   int64            // when the latest pause ended; 0: there was none
	began  goBaseline       // when the recorder was made
}

func (c *collections) init() {
	c.cycles = []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(c.cycles)
	c.began, _, _ = readGo()
	c.refresh() // sizes the slices, so that later reads allocate nothing
}

// since is what happened after the recorder was made.
func (c *collections) since() *GoStats {
	c.mu.Lock()
	began := c.began
	c.mu.Unlock()
	return began.since()
}

// forget leaves collections since a baseline out of the books.
func (c *collections) forget(since goBaseline) {
	now, _, _ := readGo()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began.cycles += now.cycles - since.cycles
	c.began.pause += now.pause - since.pause
	c.began.gcTime += now.gcTime - since.gcTime
}

func (c *collections) refresh() {
	c.read = c.cycles[0].Value.Uint64()
	debug.ReadGCStats(&c.stats)
	c.now, c.wall, c.last = Now(), time.Now(), 0
	if len(c.stats.PauseEnd) > 0 {
		c.last = c.now - int64(c.wall.Sub(c.stats.PauseEnd[0]))
	}
}

// update looks for new GC cycles; pause reports the state of the last update.
func (c *collections) update() {
	c.mu.Lock()
	defer c.mu.Unlock()
	metrics.Read(c.cycles)
	if c.cycles[0].Value.Uint64() != c.read {
		c.refresh()
	}
}

// pauses sets the pauses of cycles that ended within each of some runs.
func (c *collections) pauses(runs []*Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range runs {
		r.gc = c.pause(r.Start, r.End)
	}
}

// pause sums the pauses of cycles that ended between two readings of [Now]. The caller
// holds c.mu.
func (c *collections) pause(from, to int64) int64 {
	if c.last < from {
		return 0
	}
	var sum time.Duration
	for i, end := range c.stats.PauseEnd {
		t := c.now - int64(c.wall.Sub(end))
		if t < from {
			break
		}
		if t <= to {
			sum += c.stats.Pause[i]
		}
	}
	return int64(sum)
}
