// Package isa says what this processor can do: the instruction tiers that it
// has, the one in use, its name, its caches and how many cores this process
// may use.
//
// Every kernel package asks Active at each call, so one binary holds every
// tier and a test can walk them all (Available, Use). The environment
// variable HOTPATH_CPU forces a tier; a value that cannot be honoured leaves
// the best tier in use and an error in Err, which commands print and refuse
// to go on with. It imports nothing of ours.
package isa

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// EnvTier is the environment variable that forces a tier.
const EnvTier = "HOTPATH_CPU"

// Tier is a set of instructions that kernels are written for. A greater tier
// of the same architecture is faster; it includes the lesser ones, save that
// AVX512 and above do not promise AVXVNNI. The tiers of arm64 stand before
// those of amd64, so that "at least AVX2" is never true there.
type Tier uint8

const (
	// Generic is plain Go, on every machine.
	Generic Tier = iota
	// NEON is the vectors that every arm64 processor has. No arm64 machine was
	// at hand: it is tested under emulation, and its speed is not known.
	NEON
	// DotProd is the int8 dot products of ARMv8.2 on top of NEON.
	DotProd
	// AVX2 is AVX2 with FMA and F16C.
	AVX2
	// AVXVNNI is the int8 dot products of client processors on top of AVX2.
	AVXVNNI
	// AVX512 is AVX-512 F, BW, DQ and VL on top of AVX2.
	AVX512
	// VNNI is the int8 dot products on top of AVX512.
	VNNI
	// AMX is the tile matrix units for bf16 and int8 on top of VNNI, with
	// the system's permission to use them, and AVX-512 FP16 and VBMI2, which
	// every processor with tiles has.
	AMX
	// AMXFP16 is the tile matrix units for f16 on top of AMX.
	AMXFP16
	numTiers
)

var tierNames = [numTiers]string{
	Generic: "generic",
	NEON:    "neon",
	DotProd: "dotprod",
	AVX2:    "avx2",
	AVXVNNI: "avxvnni",
	AVX512:  "avx512",
	VNNI:    "vnni",
	AMX:     "amx",
	AMXFP16: "amx-fp16",
}

func (t Tier) String() string {
	if t < numTiers {
		return tierNames[t]
	}
	return fmt.Sprintf("Tier(%d)", uint8(t))
}

// ParseTier is the inverse of String.
func ParseTier(s string) (Tier, error) {
	for t, name := range tierNames {
		if strings.EqualFold(s, name) {
			return Tier(t), nil
		}
	}
	return Generic, fmt.Errorf("cpu: unknown tier %q, this machine has %s", s, names(Available()))
}

var (
	active atomic.Uint32
	errEnv error
	has    = detect() // has[t]: this machine runs tier t
)

func init() {
	t, err := choose(os.Getenv(EnvTier))
	active.Store(uint32(t))
	errEnv = err
}

// choose maps the value of EnvTier to the tier to use.
func choose(forced string) (Tier, error) {
	if forced == "" {
		return Best(), nil
	}
	t, err := ParseTier(forced)
	if err != nil {
		return Best(), fmt.Errorf("%s: %w", EnvTier, err)
	}
	if !has[t] {
		return Best(), fmt.Errorf("%s=%s: this machine lacks it, it has %s", EnvTier, forced, names(Available()))
	}
	return t, nil
}

func names(ts []Tier) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = t.String()
	}
	return strings.Join(s, ", ")
}

// Best is the greatest tier that this machine has.
func Best() Tier {
	for t := numTiers - 1; t > Generic; t-- {
		if has[t] {
			return t
		}
	}
	return Generic
}

// Available lists the tiers that this machine has, the least first.
func Available() []Tier {
	var ts []Tier
	for t := Generic; t < numTiers; t++ {
		if has[t] {
			ts = append(ts, t)
		}
	}
	return ts
}

// Active is the tier that kernels use now.
func Active() Tier { return Tier(active.Load()) }

// Vector is the tier whose f32 vector kernels t runs: t itself or the one it
// builds on.
func (t Tier) Vector() Tier {
	switch {
	case t >= AVX512:
		return AVX512
	case t >= AVX2:
		return AVX2
	case t >= NEON:
		return NEON
	}
	return Generic
}

// Vector is the tier of the f32 vector kernels in use now.
func Vector() Tier { return Active().Vector() }

// Err says why EnvTier could not be honoured; nil where it was, or is unset.
func Err() error { return errEnv }

// Use makes t the active tier until restore is called. It is for tests and
// measurements: nothing packed for one tier may be used under another. It
// panics where the machine lacks t.
func Use(t Tier) (restore func()) {
	if t >= numTiers || !has[t] {
		panic(fmt.Sprintf("cpu: tier %v is not available on this machine (%s)", t, names(Available())))
	}
	old := active.Swap(uint32(t))
	return func() { active.Store(old) }
}
