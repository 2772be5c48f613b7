package export

import (
	"io"

	pprof "github.com/google/pprof/profile"

	"hotpath/profile"
)

// residentType is the sample type of resident memory, which pprof shows unless it is
// asked for another one.
const residentType = "resident_space"

// HeapWithOwners writes a heap profile of Go with one more sample type: the resident
// memory of the process, one sample per owner. Weights in mapped files, the KV cache
// and other memory outside of the Go heap are there by their names, and the sum is all
// that is resident. Without owners it writes the profile as it is.
func HeapWithOwners(w io.Writer, heap []byte, owners *profile.Residency) error {
	p, err := pprof.ParseData(heap)
	if err != nil {
		return err
	}
	if owners == nil {
		return p.Write(w)
	}
	p.SampleType = append(p.SampleType, &pprof.ValueType{Type: residentType, Unit: "bytes"})
	p.DefaultSampleType = residentType
	for _, s := range p.Sample {
		s.Value = append(s.Value, 0)
	}
	id := uint64(0) // locations and functions of Go's profile have lower ones
	for _, l := range p.Location {
		id = max(id, l.ID)
	}
	for _, f := range p.Function {
		id = max(id, f.ID)
	}
	for _, o := range owners.Owners {
		if o.Bytes == 0 {
			continue // it is allocated, and not touched
		}
		id++
		f := &pprof.Function{ID: id, Name: o.Owner, SystemName: o.Owner}
		l := &pprof.Location{ID: id, Line: []pprof.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		s := &pprof.Sample{Location: []*pprof.Location{l}, Value: make([]int64, len(p.SampleType)), Label: map[string][]string{"owner": {o.Owner}}}
		s.Value[len(s.Value)-1] = o.Bytes
		p.Sample = append(p.Sample, s)
	}
	return p.Write(w)
}
