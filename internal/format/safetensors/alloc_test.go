package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// allocated is how much work allocates in all, freed or not: the least of three
// times, because goroutines of the runtime allocate meanwhile.
func allocated(work func()) int {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return int(least)
}

// Whatever a header holds or claims, reading it allocates at most its size and
// 8 KiB.
func TestParseAllocation(t *testing.T) {
	const slack = 8 << 10
	tiny := func(n int, name func(i int) string) []byte {
		var b strings.Builder
		b.WriteString(`{`)
		for i := range n {
			fmt.Fprintf(&b, `"%s":{"dtype":"","shape":[],"data_offsets":[0,0]},`, name(i))
		}
		return file(b.String()[:b.Len()-1]+"}", 0)
	}
	number := func(i int) string { return fmt.Sprint(i) }
	r := rand.New(rand.NewPCG(1, 2))
	perm := r.Perm(100_000)
	for name, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"one":        {file(one(`"F32"`, "[1]", "[0,4]"), 4), true},
		"few":        {tiny(100, number), true},
		"many":       {tiny(100_000, number), true},
		"unsorted":   {tiny(100_000, func(i int) string { return fmt.Sprint(perm[i]) }), true},
		"escaped":    {tiny(20_000, func(i int) string { return fmt.Sprintf("\\u%04x", i%0xd000+32) }), true},
		"duplicates": {tiny(100_000, func(int) string { return "" }), false},
		"too many":   {tiny(maxTensors+1, number), false},
		"long list":  {file(one(`"F32"`, "["+strings.Repeat("1,", 1<<20)+"1]", "[0,4]"), 4), false},
		"long name":  {file(`{"`+strings.Repeat("n", 1<<20)+`":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), false},
		"long type":  {file(one(`"`+strings.Repeat("F", 1<<20)+`"`, "[]", "[0,4]"), 4), false},
		"digits":     {file(one(`"F32"`, "["+strings.Repeat("1", 1<<20)+"]", "[0,4]"), 4), false},
		"metadata":   {file(`{"__metadata__":{`+strings.Repeat(`"a":"b",`, 1<<17)+`"a":"b"}}`, 0), true},
		"unknown":    {file(`{"t":{"x":[`+strings.Repeat(`{},`, 1<<19)+`{}],"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), true},
		"deep":       {file(`{"t":`+strings.Repeat("[", 1<<20), 0), false},
		"cut":        {file(`{"t":{"dtype":"`+strings.Repeat("x", 1<<20), 0), false},
		"claimed":    {binary.LittleEndian.AppendUint64(nil, maxHeader), false},
	} {
		var err error
		n := allocated(func() { _, err = Parse(name, c.data) })
		if n > len(c.data)+slack || (err == nil) != c.ok {
			t.Errorf("%s: %d bytes allocated for a file of %d (%v)", name, n, len(c.data), err)
		}
	}
}

// An index is read into a list of its files, 64 KiB at most, whatever its size.
func TestIndexAllocation(t *testing.T) {
	const slack = 64 << 10
	entries := func(n int, entry func(i int) string) []byte {
		var b strings.Builder
		b.WriteString(`{"weight_map":{`)
		for i := range n {
			b.WriteString(entry(i) + ",")
		}
		return []byte(b.String()[:b.Len()-1] + "}}")
	}
	for name, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"few":    {entries(10, func(i int) string { return fmt.Sprintf(`"%d":"%d"`, i, i) }), true},
		"many":   {entries(maxTensors, func(i int) string { return fmt.Sprintf(`"%d":"%d"`, i, i%maxShards) }), true},
		"same":   {entries(maxTensors, func(int) string { return `"":"a"` }), true},
		"files":  {entries(maxTensors, func(i int) string { return fmt.Sprintf(`"":"%d"`, i) }), false},
		"long":   {entries(1, func(int) string { return `"a":"` + strings.Repeat("x", 1<<20) + `"` }), false},
		"no map": {[]byte(`{"a":[` + strings.Repeat("0,", 1<<20) + "0]}"), false},
	} {
		var err error
		if n := allocated(func() { _, err = ParseIndex(name, c.data) }); n > slack || (err == nil) != c.ok {
			t.Errorf("%s: %d bytes allocated for an index of %d (%v)", name, n, len(c.data), err)
		}
	}
}
