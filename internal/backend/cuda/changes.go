package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// changes is the memory of an input's last transfer: what the card has. Block tables
// and sampling parameters seldom change from one decode step to the next, so only the
// words that did travel, each with its index.
type changes struct {
	sent  []byte // what the card has of the input
	known int    // leading bytes of sent that it has
	list  []byte // host memory that the card reads: a count, then an index and a value per word
}

// leastRow is the number of bytes per row from which an input's changes are looked
// for: ids and positions change with every step.
const leastRow = 8

// prepare decides what of an input with these bytes travels, and returns how many
// bytes that is.
func (c *changes) prepare(now []byte, row int) int64 {
	count, most := 0, c.room()
	for at := 0; at < len(now) && count >= 0; at += row {
		end := min(at+row, len(now))
		if end <= c.known && bytes.Equal(now[at:end], c.sent[at:end]) {
			continue
		}
		for i := at; i < end; i += 4 {
			if i+4 <= c.known && bytes.Equal(now[i:i+4], c.sent[i:i+4]) {
				continue
			}
			if count == most || 8*(count+1) >= len(now) {
				count = -1 // all of it is less
				break
			}
			binary.LittleEndian.PutUint32(c.list[4+8*count:], uint32(i/4))
			copy(c.list[8+8*count:], now[i:i+4])
			count++
		}
	}
	binary.LittleEndian.PutUint32(c.list, uint32(int32(count)))
	copy(c.sent, now)
	c.known = max(c.known, len(now))
	if count < 0 {
		return 4 + int64(len(now))
	}
	return 4 + 8*int64(count)
}

// changesOf makes the memory of an input of some bytes at an offset, once for all
// plans of a slot.
func (a *ioArena) changesOf(drv driver, offset, bytes int64) (*changes, error) {
	if c := a.changes[offset]; c != nil {
		return c, nil
	}
	list, err := drv.hostAlloc(4 + max(bytes, 8))
	if err != nil {
		return nil, err
	}
	c := &changes{sent: make([]byte, bytes), list: list}
	a.changes[offset] = c
	return c, nil
}

// room is the number of changes that the list holds.
func (c *changes) room() int { return (len(c.list) - 4) / 8 }

// freeLists frees the host memory of all changes.
func (a *ioArena) freeLists(drv driver) error {
	var errs []error
	for _, c := range a.changes {
		errs = append(errs, drv.hostFree(c.list))
	}
	a.changes = nil
	return errors.Join(errs...)
}

// forget makes the next run carry all inputs: one before it failed, and nobody knows
// what the card has.
func (a *ioArena) forget() {
	for _, c := range a.changes {
		c.known = 0
	}
}
