package main

import (
	"fmt"
	"io"
	"strings"

	"hotpath/internal/term"
)

// table prints rows of a name and what is known about it, without the empty
// ones. Both may come from a file.
func table(w io.Writer, rows [][2]string) error {
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-14s %s\n", term.Printable(r[0]), term.Printable(r[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// size is a number of bytes for people.
func size(n int64) string {
	const k = 1 << 10
	switch {
	case n < 10*k:
		return fmt.Sprintf("%d B", n)
	case n < 10*k*k:
		return fmt.Sprintf("%d KiB", n/k)
	case n < 10*k*k*k:
		return fmt.Sprintf("%d MiB", n/k/k)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/k/k/k)
}

// amount is a count for people: 134.5 M.
func amount(n int64) string {
	f := float64(n)
	switch {
	case n < 1e4:
		return fmt.Sprint(n)
	case n < 1e6:
		return fmt.Sprintf("%.1f k", f/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f M", f/1e6)
	}
	return fmt.Sprintf("%.2f G", f/1e9)
}
