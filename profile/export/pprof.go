package export

import (
	"io"

	pprof "github.com/google/pprof/profile"

	"hotpath/profile"
)

// writePprof writes the format of go tool pprof: one sample per stack of
// eachStack, so that the total is the ledger's lane time. pprof accepts negative
// values and shows a negative residual as such.
func writePprof(w io.Writer, p *profile.Profile) error {
	b := newPprofBuilder(p)
	profile.EachStack(p, b.sample)
	return b.out.Write(w)
}

type pprofBuilder struct {
	out       *pprof.Profile
	locations map[string]*pprof.Location
}

func newPprofBuilder(p *profile.Profile) *pprofBuilder {
	nanos := &pprof.ValueType{Type: "time", Unit: "nanoseconds"}
	model := p.Facts.Model
	if model == "" {
		model = "hotpath"
	}
	// A mapping that says it has its symbols keeps pprof from looking for a
	// binary.
	mapping := &pprof.Mapping{ID: 1, Start: 1, Limit: 1 << 32, File: model,
		HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
	return &pprofBuilder{locations: map[string]*pprof.Location{}, out: &pprof.Profile{
		SampleType: []*pprof.ValueType{
			{Type: "samples", Unit: "count"}, nanos, {Type: "bytes", Unit: "bytes"}, {Type: "flops", Unit: "count"},
		},
		DefaultSampleType: "time", PeriodType: nanos, Period: 1,
		TimeNanos: p.Created.UnixNano(), DurationNanos: p.End - p.Start,
		Mapping: []*pprof.Mapping{mapping},
	}}
}

// labels are the labels by which a sample can be selected. The layer is a numeric
// label instead, because pprof's -tagfocus=layer=3 matches only those.
func labels(s *profile.StackSample) map[string][]string {
	l := map[string][]string{}
	set := func(key, value string) {
		if value != "" {
			l[key] = []string{value}
		}
	}
	set("phase", s.Phase)
	set("device", s.Device)
	set("op", s.Op)
	set("request", s.Request)
	return l
}

func (b *pprofBuilder) sample(at *profile.StackSample) {
	locations := make([]*pprof.Location, len(at.Frames)) // leaf first
	for i, f := range at.Frames {
		locations[len(at.Frames)-1-i] = b.location(f)
	}
	s := &pprof.Sample{Location: locations, Label: labels(at), Value: []int64{at.Calls, at.Time, at.Bytes, at.Flops}}
	if at.Layer >= 0 {
		// Without a unit, layer 0 would be an empty field and vanish.
		s.NumLabel = map[string][]int64{"layer": {int64(at.Layer)}}
		s.NumUnit = map[string][]string{"layer": {"count"}}
	}
	b.out.Sample = append(b.out.Sample, s)
}

func (b *pprofBuilder) location(name string) *pprof.Location {
	if l := b.locations[name]; l != nil {
		return l
	}
	id := uint64(len(b.out.Location) + 1)
	f := &pprof.Function{ID: id, Name: name, SystemName: name}
	l := &pprof.Location{ID: id, Mapping: b.out.Mapping[0], Address: id, Line: []pprof.Line{{Function: f}}}
	b.locations[name] = l
	b.out.Function = append(b.out.Function, f)
	b.out.Location = append(b.out.Location, l)
	return l
}
