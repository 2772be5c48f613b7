package train

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// What objectives ask of data. Readers of files implement Source; objectives
// see examples only.

// Sequence is one text as token ids, special tokens included.
type Sequence struct {
	IDs      []int32 // [n]
	Segments []int32 // [n] text of a pair that a token belongs to, 0 or 1; nil: all 0
	Learn    []bool  // [n] whether the token is a target of the loss; nil: all are
}

// Example is the smallest unit of data: a batch holds whole examples. Kind
// says what its sequences are and which other fields count.
type Example struct {
	Seqs  []Sequence
	Label int32   // class of a labelled text, from 0
	Score float32 // of a scored text or pair
	Text  int     // Text: number of the document in the data
	Part  bool    // Text: the document goes on in other examples
}

// Kind is what an example consists of.
type Kind uint8

const (
	// Text is one sequence of a document. Every token but the first is a target.
	Text Kind = iota
	// Answer is one sequence of a prompt or chat; Learn marks the tokens of the
	// answers.
	Answer
	// Pairs is an anchor, its positive, and any number of hard negatives.
	Pairs
	// Scored is one sequence, or two texts to compare, with Score.
	Scored
	// Labelled is one sequence, which may be a pair of texts (Segments), with
	// Label.
	Labelled
	// Preference is the chosen and the rejected conversation; Learn marks the
	// tokens of the answers, which come after the same prompt.
	Preference
)

var kindNames = [...]string{"text", "answer", "pairs", "scored", "labelled", "preference"}

func (k Kind) String() string { return kindNames[k] }

// check reports an example that is not of the kind.
func (k Kind) check(e *Example) error {
	least, most := 1, 1
	switch k {
	case Pairs:
		least, most = 2, maxSeqs
	case Scored:
		most = 2
	case Preference:
		least, most = 2, 2
	}
	if n := len(e.Seqs); n < least || n > most {
		return fmt.Errorf("%d sequences, expected %d to %d for kind %s: %w", n, least, most, k, ErrData)
	}
	for i, s := range e.Seqs {
		if len(s.IDs) == 0 || s.Segments != nil && len(s.Segments) != len(s.IDs) || s.Learn != nil && len(s.Learn) != len(s.IDs) {
			return fmt.Errorf("sequence %d has %d ids, %d segments and %d marks of targets, expected at least one id and the same number of each: %w",
				i, len(s.IDs), len(s.Segments), len(s.Learn), ErrData)
		}
	}
	return nil
}

// maxSeqs bounds the sequences of an example: an anchor, a positive and the
// hard negatives.
const maxSeqs = 64

// Source is data of one kind that can be read in any order. Position and seed
// decide the order; the source knows neither.
type Source interface {
	Kind() Kind
	Stats() Stats
	// Example fills e with example i of Stats().Examples. What e holds may lie in
	// the source's memory; it is valid until the next call with the same e, and
	// is not written to. Calls with different e may run at the same time.
	Example(i int, e *Example) error
	// Fingerprint tells the data from any other, for resuming.
	Fingerprint() string
}

// Stats are the sizes of a source.
type Stats struct {
	Documents int // as the files have them
	Examples  int // that they were cut into
	Sequences int // of all examples
	Tokens    int64
	Longest   int // tokens of all sequences of the longest example
	Most      int // sequences of the example that has most
}

// with are the sizes of two sources together.
func (s Stats) with(o Stats) Stats {
	return Stats{
		Documents: s.Documents + o.Documents, Examples: s.Examples + o.Examples, Sequences: s.Sequences + o.Sequences,
		Tokens: s.Tokens + o.Tokens, Longest: max(s.Longest, o.Longest), Most: max(s.Most, o.Most),
	}
}

// memory is a source of examples that are in memory.
type memory struct {
	kind     Kind
	examples []Example
}

// NewMemory is a source of the given examples.
func NewMemory(k Kind, examples []Example) (Source, error) {
	for i := range examples {
		if err := k.check(&examples[i]); err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
	}
	return &memory{k, examples}, nil
}

func (m *memory) Kind() Kind { return m.kind }

func (m *memory) Example(i int, e *Example) error {
	*e = m.examples[i]
	return nil
}

func (m *memory) Stats() Stats {
	s := Stats{Documents: len(m.examples), Examples: len(m.examples)}
	for i := range m.examples {
		s.addExample(&m.examples[i])
	}
	return s
}

// addExample counts the sequences of one example.
func (s *Stats) addExample(e *Example) {
	n := 0
	for _, q := range e.Seqs {
		n += len(q.IDs)
	}
	s.Sequences += len(e.Seqs)
	s.Tokens += int64(n)
	s.Longest, s.Most = max(s.Longest, n), max(s.Most, len(e.Seqs))
}

func (m *memory) Fingerprint() string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(m.examples) // numbers always have an encoding
	return hex.EncodeToString(h.Sum(nil))
}
