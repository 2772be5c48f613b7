package ceiling

import (
	"sync"
	"time"

	"hotpath/internal/kernel/isa"
)

// Bursts measures ceilings in bursts of some tens of microseconds, for who samples
// them between runs: a compute class from registers, or reads from a working set.
// Each burst has two halves, and the better one counts: an interruption that no
// clock shows must not pass for a slow machine. All lanes read the same memory,
// because filling it takes longer than all bursts of a short recording.
type Bursts struct {
	kinds  []Kind
	rounds []int // [kind] of compute
	once   sync.Once
	near   []byte
	mid    []byte
	free   func()
	at     []int // [lane], where the next read of mid begins
}

// Kind is what one burst measures.
type Kind struct {
	// Class is a compute class; "" for reads.
	Class string
	// Level names the memory that reads come from, and UpTo is the working set of
	// one lane, in bytes, that lies there; 0: any.
	Level string
	UpTo  int64
}

const (
	burstTime  = 20 * time.Microsecond // of compute, both halves at least
	nearBytes  = 256 << 10             // in every L2
	midBytes   = 4<<20 - nearBytes     // beyond L2
	farBytes   = 256 << 10             // both reads of the caller's memory
	midReads   = 256 << 10             // the same of mid
	farLeast   = 16 << 20              // working sets from here on are read from the caller's memory
	smallestL2 = 256 << 10
)

// NewBursts is for so many lanes. It takes no memory before the first burst.
func NewBursts(lanes int) *Bursts {
	b := &Bursts{at: make([]int, lanes)}
	for lane := range b.at {
		b.at[lane] = lane * midBytes / lanes / midReads * midReads
	}
	classes := []string{"f32"}
	switch t := isa.Active(); {
	case t >= isa.AMX:
		classes = append(classes, "bf16")
	case t >= isa.AVX2:
		classes = append(classes, "i16g32")
	}
	for _, c := range classes {
		b.kinds = append(b.kinds, Kind{Class: c})
	}
	b.kinds = append(b.kinds, Kind{Level: "L2", UpTo: int64(max(isa.Host().L2, smallestL2))}, Kind{Level: "L3", UpTo: farLeast}, Kind{Level: "memory"})
	return b
}

// Kinds lists what can be measured.
func (b *Bursts) Kinds() []Kind { return b.kinds }

// Bytes is the memory that bursts hold.
func (b *Bursts) Bytes() int64 { return nearBytes + midBytes }

// Prepare finds how long compute bursts are and touches the memory, once. One goroutine
// calls it before the bursts of a sample.
func (b *Bursts) Prepare() {
	b.once.Do(func() {
		for _, k := range b.kinds {
			n := 256
			for k.Class != "" && n < 1<<30 {
				start := time.Now()
				compute(k.Class, n)
				if time.Since(start) >= burstTime/4 {
					break
				}
				n *= 2
			}
			b.rounds = append(b.rounds, n)
		}
		buf, free := mapped(nearBytes + midBytes)
		for i := 0; i < len(buf); i += 4096 {
			buf[i] = 1
		}
		b.near, b.mid, b.free = buf[:nearBytes], buf[nearBytes:], free
	})
}

// Free gives the memory back. No burst may follow.
func (b *Bursts) Free() {
	if b.free != nil {
		b.free()
		b.free = nil
	}
}

// Rate makes one burst of a kind and returns FLOP/s or bytes/s of this lane. far is
// memory that the program reads itself and that lies wherever it lies; without
// enough of it, the kind of the last level gives 0.
func (b *Bursts) Rate(kind, lane int, far []byte) float64 {
	t := isa.Active()
	switch k := b.kinds[kind]; {
	case k.Class != "":
		return max(computeRate(k.Class, b.rounds[kind]), computeRate(k.Class, b.rounds[kind]))
	case k.Level == "L2":
		read(t, b.near) // which brings it there
		return max(readRate(read, t, b.near), readRate(read, t, b.near))
	case k.Level == "L3":
		at := b.at[lane]
		b.at[lane] = (at + midReads) % midBytes
		return halves(t, b.mid[at:at+midReads])
	}
	if len(far) < farBytes {
		return 0
	}
	return halves(t, far[:farBytes])
}

// halves is the better rate of reading memory that is read once: the first half in eight
// streams, which are mostly faster on one core alone, and the second in four.
func halves(t isa.Tier, buf []byte) float64 {
	return max(readRate(wide, t, buf[:len(buf)/2]), readRate(stream, t, buf[len(buf)/2:]))
}

func computeRate(class string, rounds int) float64 {
	start := time.Now()
	ops := compute(class, rounds)
	return ops / time.Since(start).Seconds()
}

// FarBytes is how much memory a read of the last level takes.
const FarBytes = farBytes

func readRate(read func(isa.Tier, []byte), t isa.Tier, buf []byte) float64 {
	start := time.Now()
	read(t, buf)
	return float64(len(buf)) / time.Since(start).Seconds()
}

// compute makes n rounds of a class's products from registers.
func compute(class string, n int) (ops float64) {
	t := isa.Active()
	switch {
	case class == "bf16" && t >= isa.AMX:
		return tiles("bf16", n)
	case class == "i16g32":
		return pairs(t, n)
	}
	return fma(t, n)
}
