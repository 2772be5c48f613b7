//go:build !amd64 && !arm64

package isa

// detect knows no assembly tier on this architecture.
func detect() (h [numTiers]bool) {
	h[Generic] = true
	return h
}

func brand() string { return "" }

func features() []string { return nil }
