package isa

import (
	"strings"

	"golang.org/x/sys/cpu"
)

// cpuid runs the instruction; see cpuid_amd64.s.
//
//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// detect relies on x/sys/cpu, which also asks the operating system whether it
// saves the wide registers. It reads F16C, AVX512-FP16 and AMX-FP16 itself, because
// x/sys/cpu lacks them.
func detect() (h [numTiers]bool) {
	_, _, c, _ := cpuid(1, 0)
	f16c := c&(1<<29) != 0
	x := &cpu.X86
	h[Generic] = true
	h[AVX2] = x.HasAVX2 && x.HasFMA && x.HasBMI2 && f16c
	h[AVX512] = h[AVX2] && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	h[AVXVNNI] = h[AVX2] && x.HasAVXVNNI
	h[VNNI] = h[AVX512] && x.HasAVX512VNNI
	leaves, _, _, d := cpuid(7, 0)
	fp16 := d&(1<<23) != 0
	h[AMX] = h[VNNI] && x.HasAVX512VBMI2 && fp16 && x.HasAMXTile && x.HasAMXBF16 && x.HasAMXInt8 && permitAMX()
	if h[AMX] && leaves >= 1 {
		a, _, _, _ := cpuid(7, 1)
		h[AMXFP16] = a&(1<<21) != 0
	}
	return h
}

// brand reads the processor's own name, 48 bytes in three leaves.
func brand() string {
	if highest, _, _, _ := cpuid(0x80000000, 0); highest < 0x80000004 {
		return ""
	}
	var b []byte
	for leaf := uint32(0x80000002); leaf <= 0x80000004; leaf++ {
		r0, r1, r2, r3 := cpuid(leaf, 0)
		for _, r := range [...]uint32{r0, r1, r2, r3} {
			b = append(b, byte(r), byte(r>>8), byte(r>>16), byte(r>>24))
		}
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.Join(strings.Fields(s), " ")
}

// features names what later tiers build on, for people to read.
func features() []string {
	x := &cpu.X86
	var fs []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", x.HasAVX2}, {"fma", x.HasFMA}, {"avx512", has[AVX512]},
		{"avxvnni", x.HasAVXVNNI}, {"avx512vnni", x.HasAVX512VNNI}, {"avx512bf16", x.HasAVX512BF16},
		{"amx-int8", x.HasAMXInt8}, {"amx-bf16", x.HasAMXBF16}, {"amx-fp16", has[AMXFP16]},
	} {
		if f.has {
			fs = append(fs, f.name)
		}
	}
	return fs
}
