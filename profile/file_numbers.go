package profile

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Bounds of the numbers in a file. Eight numbers up to most can be added in 64 bits.
const (
	most      = 1 << 60 // 36 years in nanoseconds, or an exabyte
	mostFloat = 1e30    // rates, FLOPs and bytes in floating point
	mostRuns  = 1 << 53 // runs and tokens: those of a thousand files can be added
	mostCount = 1 << 20 // cores, threads, lanes, layers
)

type intRange struct{ low, high int64 }

type floatRange struct{ low, high float64 }

// intRanges are the ranges of whole numbers by type and field, where they differ from
// 0 to most. A new field has a range without a row here.
var intRanges = map[string]intRange{
	"Facts.cores":       {0, mostCount},
	"Facts.threads":     {0, mostCount},
	"Ceilings.lanes":    {0, mostCount},
	"Ledger.runs":       {0, mostRuns},
	"PlanStats.tokens":  {0, mostRuns},
	"Step.layer":        {-1, mostCount}, // -1: outside of any
	"Buffer.layer":      {-1, mostCount},
	"Buffer.last":       {-1, most}, // -1: it is never in use
	"ScopeStats.parent": {-1, most}, // -1: none

	// Sums of a long recording on a fast device.
	"StepStats.flops": {0, math.MaxInt64},
	"StepStats.bytes": {0, math.MaxInt64},
	"ScopePart.flops": {0, math.MaxInt64},
	"ScopePart.bytes": {0, math.MaxInt64},

	// Stamps of lanes may lie a little outside of their run.
	"Ledger.dispatch_ns": {-most, most},
	"Ledger.idle_ns":     {-most, most},
	"Ledger.residual_ns": {-most, most},

	// A step may be faster than the roofline allows.
	"StepStats.lost_ns":      {-most, most},
	"StepStats.lost_low_ns":  {-most, most},
	"StepStats.lost_high_ns": {-most, most},
	"RoofSplit.cache_ns":     {-most, most},
	"RoofSplit.neighbour_ns": {-most, most},
	"RoofSplit.kernel_ns":    {-most, most},
}

// floatRanges are the ranges of other numbers, where they differ from 0 to mostFloat.
var floatRanges = map[string]floatRange{
	"CounterStats.last":           {-most, most},
	"CounterStats.peak":           {-most, most},
	"Sample.value":                {-most, most},
	"RequestPart.flops":           {0, math.MaxInt64},
	"RequestPart.bytes":           {0, math.MaxInt64},
	"RequestPart.time_ns":         {0, most},
	"Overhead.median_percent":     {-100, 1e6},
	"Overhead.interval95_percent": {-100, 1e6},
}

// anyNumber are the fields that name something, by a number of 64 bits.
var anyNumber = map[string]bool{"ScopeEvent.frame": true, "ScopeEvent.under": true}

// checkNumbers finds a number out of its range in a decoded profile. It walks all
// fields, so that none is forgotten.
func (p *Profile) checkNumbers() error { return checkNumbers(p) }

// checkNumbers is that of a part of a profile.
func checkNumbers[T any](part *T) error {
	w := numberWalk{}
	if at, err := w.check(reflect.ValueOf(part).Elem(), nil); err != nil {
		return fmt.Errorf("%s %w", strings.TrimPrefix(at, "."), err)
	}
	return nil
}

// numberWalk has the fields of each type that it has met.
type numberWalk map[reflect.Type][]numberField

type numberField struct {
	index  int
	path   string // ".wall_ns"; "" for an embedded struct
	ints   intRange
	floats floatRange
	free   bool // any number will do
}

func (w numberWalk) fields(t reflect.Type) []numberField {
	if known, ok := w[t]; ok {
		return known
	}
	out := []numberField{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		field := numberField{index: i, ints: intRange{0, most}, floats: floatRange{0, mostFloat}}
		if name != "" {
			field.path = "." + name
		}
		if r, ok := intRanges[t.Name()+field.path]; ok {
			field.ints = r
		}
		if r, ok := floatRanges[t.Name()+field.path]; ok {
			field.floats = r
		}
		field.free = anyNumber[t.Name()+field.path]
		out = append(out, field)
	}
	w[t] = out
	return out
}

// check returns where below v a number is out of the range of f, and how.
func (w numberWalk) check(v reflect.Value, f *numberField) (at string, err error) {
	switch kind := v.Kind(); kind {
	case reflect.Int, reflect.Int64:
		return "", f.checkInt(v.Int())
	case reflect.Float64:
		if x, r := v.Float(), f.floats; !(x >= r.low && x <= r.high) {
			return "", fmt.Errorf("is %g, expected %g to %g", x, r.low, r.high)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return w.check(v.Elem(), f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at, err := w.check(v.Index(i), f); err != nil {
				return "[" + strconv.Itoa(i) + "]" + at, err
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if at, err := w.check(each.Value(), f); err != nil {
				return fmt.Sprintf("[%q]%s", each.Key().String(), at), err
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return "", nil
		}
		fields := w.fields(v.Type())
		for i := range fields {
			if at, err := w.check(v.Field(fields[i].index), &fields[i]); err != nil {
				return fields[i].path + at, err
			}
		}
	case reflect.String, reflect.Bool:
	default:
		if kind == reflect.Uint64 && f.free {
			break
		}
		panic("profile: a file has a " + v.Type().String() + ", for which there are no ranges")
	}
	return "", nil
}

func (f *numberField) checkInt(n int64) error {
	switch {
	case n < f.ints.low:
		return fmt.Errorf("is %d, expected %d or more", n, f.ints.low)
	case n > f.ints.high:
		return fmt.Errorf("is %d, expected at most %d", n, f.ints.high)
	}
	return nil
}
