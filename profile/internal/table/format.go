package table

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Join leaves out what is empty.
func Join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

func Count(n int, what string) string {
	if n == 0 {
		return ""
	}
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func Mib(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/(1<<20)) }

func PercentCell(v float64) string { return fmt.Sprintf("%.2f", v) }

func Ms(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1e6) }

func Us(ns int64) string { return fmt.Sprintf("%.1f", float64(ns)/1e3) }

func Integer(n int64) string { return strconv.FormatInt(n, 10) }

func Number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Decimal writes a number without an exponent, unless it would be long.
func Decimal(v float64) string {
	if a := math.Abs(v); v != 0 && (a < 1e-6 || a >= 1e15) {
		return Number(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func Rate(perNs float64) string { return fmt.Sprintf("%.1f", perNs) }

// Si writes a number with three digits and its decimal prefix, ready for a
// unit.
func Si(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for ; v >= 1000 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " " + prefixes[i]
}

func Percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func PercentOf(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

func Fms(ns float64) string { return fmt.Sprintf("%.3f", ns/1e6) }

func Signed(ns float64) string {
	if math.Abs(ns) < 500 {
		return "0"
	}
	return fmt.Sprintf("%+.3f", ns/1e6)
}

// Human is a duration in the unit that suits it.
func Human(ns int64) string {
	v := float64(ns)
	for _, u := range []struct {
		unit string
		size float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if v >= u.size || v <= -u.size {
			return fmt.Sprintf("%.3g %s", v/u.size, u.unit)
		}
	}
	return fmt.Sprintf("%d ns", ns)
}

func PerTime(n, d int64) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / float64(d)
}

func Sum(v []int64) int64 {
	var t int64
	for _, x := range v {
		t += x
	}
	return t
}
