package isa

import (
	"runtime"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	if got, err := choose(""); err != nil || got != Best() {
		t.Errorf("unset: %v, %v; want %v", got, err, Best())
	}
	for _, tier := range Available() {
		if got, err := choose(strings.ToUpper(tier.String())); err != nil || got != tier {
			t.Errorf("%v: got %v, %v", tier, got, err)
		}
	}
	got, err := choose("sse9")
	if err == nil || got != Best() || !strings.Contains(err.Error(), "sse9") || !strings.Contains(err.Error(), EnvTier) || !strings.HasSuffix(err.Error(), names(Available())) {
		t.Errorf("unknown tier: %v, %v", got, err)
	}
	old := has
	defer func() { has = old }()
	has = [numTiers]bool{Generic: true, AVX2: true}
	got, err = choose("avx512")
	if err == nil || got != AVX2 || !strings.Contains(err.Error(), "generic, avx2") {
		t.Errorf("tier the machine lacks: %v, %v", got, err)
	}
}

// TestTiersOfTheArchitecture: a machine never has another architecture's tiers.
func TestTiersOfTheArchitecture(t *testing.T) {
	first, last := AVX2, AMXFP16
	switch runtime.GOARCH {
	case "arm64":
		first, last = NEON, DotProd
		if !has[NEON] {
			t.Error("arm64 without NEON")
		}
	case "amd64":
	default:
		first, last = Generic, Generic
	}
	for _, tier := range Available() {
		if tier != Generic && (tier < first || tier > last) {
			t.Errorf("%v on %s", tier, runtime.GOARCH)
		}
	}
}

func TestUseRestores(t *testing.T) {
	before := Active()
	for _, tier := range Available() {
		restore := Use(tier)
		if Active() != tier {
			t.Errorf("Use(%v) left %v active", tier, Active())
		}
		restore()
		if Active() != before {
			t.Errorf("restore left %v active, want %v", Active(), before)
		}
	}
}

func TestVector(t *testing.T) {
	for tier, want := range map[Tier]Tier{Generic: Generic, NEON: NEON, DotProd: NEON, AVX2: AVX2, AVXVNNI: AVX2, AVX512: AVX512, VNNI: AVX512, AMX: AVX512, AMXFP16: AVX512} {
		if got := tier.Vector(); got != want {
			t.Errorf("%v runs the vector kernels of %v, want %v", tier, got, want)
		}
	}
}

func TestUseUnavailable(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Use of a tier that does not exist did not panic")
		}
	}()
	Use(numTiers)
}

func TestHost(t *testing.T) {
	m := Host()
	if m.Cores < 1 || m.Brand == "" {
		t.Errorf("%+v", m)
	}
}

// Nobody gets more threads than Go has processors, unless he says so.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if n := Threads(); n != 1 {
		t.Errorf("%d threads with GOMAXPROCS 1", n)
	}
	runtime.GOMAXPROCS(10000)
	if n := Threads(); n != min(Host().Cores, MaxThreads) {
		t.Errorf("%d threads of %d cores", n, Host().Cores)
	}
}

func TestCaches(t *testing.T) {
	dir := t.TempDir()
	for i, c := range [][3]string{{"1", "Data", "48K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "2048K"}, {"3", "Unified", "300M"}} {
		idx := "index" + string(rune('0'+i)) + "/"
		write(t, dir, idx+"level", c[0]+"\n")
		write(t, dir, idx+"type", c[1]+"\n")
		write(t, dir, idx+"size", c[2]+"\n")
	}
	if a, b, c := caches(dir); a != 48<<10 || b != 2<<20 || c != 300<<20 {
		t.Errorf("caches = %d %d %d", a, b, c)
	}
	if a, b, c := caches(t.TempDir()); a != 0 || b != 0 || c != 0 {
		t.Errorf("no files: %d %d %d", a, b, c)
	}
}
