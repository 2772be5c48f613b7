package train

import (
	"errors"
	"strings"
	"testing"
)

func TestMemorySource(t *testing.T) {
	ids := func(n int) Sequence { return Sequence{IDs: make([]int32, n)} }
	s, err := NewMemory(Pairs, []Example{{Seqs: []Sequence{ids(3), ids(2)}}, {Seqs: []Sequence{ids(1), ids(1), ids(9)}}})
	must(t, err)
	if got, want := s.Stats(), (Stats{2, 2, 5, 16, 11, 3}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	var e Example
	must(t, s.Example(1, &e))
	if len(e.Seqs) != 3 || s.Kind() != Pairs {
		t.Errorf("example %+v of kind %s", e, s.Kind())
	}
	for kind, bad := range map[Kind]Example{
		Text:       {},
		Pairs:      {Seqs: []Sequence{ids(2)}},
		Scored:     {Seqs: []Sequence{ids(2), ids(2), ids(2)}},
		Labelled:   {Seqs: []Sequence{ids(0)}},
		Answer:     {Seqs: []Sequence{{IDs: make([]int32, 3), Learn: make([]bool, 2)}}},
		Preference: {Seqs: []Sequence{ids(2)}},
	} {
		if _, err := NewMemory(kind, []Example{bad}); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "example 0: ") {
			t.Errorf("%s: error %v, want ErrData that names the example", kind, err)
		}
	}
	other, err := NewMemory(Pairs, []Example{{Seqs: []Sequence{ids(3), ids(3)}}})
	must(t, err)
	if s.Fingerprint() == other.Fingerprint() {
		t.Error("fingerprints do not tell sources apart")
	}
}
