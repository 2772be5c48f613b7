package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// inputs says where a group's token ids come from: sentences through the
// model's tokenizer, or Random ids where the vocabulary means nothing. Without a
// model the group's works do not read them.
type inputs struct {
	Model  string
	Random bool
}

// sentences are put together in random order: text like people's, so that the
// answers' errors are like those people get.
var sentences = []string{
	"A man is playing a guitar on the corner of the market square.",
	"The stock market fell sharply on Monday after the bank raised its rates.",
	"Water boils at a lower temperature in the mountains than at the sea.",
	"She opened the letter, read it twice, and put it back without a word.",
	"To reset your password, follow the link that we have sent to your address.",
	"The committee met on the first Tuesday of the month to discuss the budget.",
	"Rivers carry the mountains to the sea, one grain of sand at a time.",
	"Bake the bread for forty minutes and let it cool before you cut it.",
	"The telescope saw a galaxy whose light had travelled for ten billion years.",
	"Our train was two hours late because of snow on the line near the border.",
	"A function that calls itself must have a case in which it does not.",
	"The patient was given antibiotics and sent home the following morning.",
	"Children learn a second language faster when they need it for their games.",
	"The museum keeps the oldest known map of the coast in a dark, dry room.",
	"Three ships left the harbour at dawn, and only one of them came back.",
	"If the engine overheats, switch it off and check the level of the oil.",
	"He has supported the same football club since his grandfather took him there.",
	"The new law obliges companies to say where the parts of a product come from.",
	"Bees tell each other by a dance how far away the flowers are.",
	"The recipe needs two eggs, a cup of flour, some butter and a little patience.",
	"Nobody had expected that the old bridge would outlast the new one.",
	"Measure twice, cut once, and keep the piece that is left over.",
	"The concert was cancelled, but the orchestra played in the park instead.",
	"Solar panels on the roof supply most of the electricity that the school uses.",
}

// source makes texts of wanted lengths in token ids.
type source struct {
	rng           *rand.Rand
	before, after []int32 // special tokens around a text
	parts         [][]int32
	vocab         int // of random ids, 0 for sentences
}

// firstWord is beyond the special and byte tokens of the vocabularies with
// random ids.
const firstWord = 300

func (in inputs) open() (s *source, err error) {
	if in.Model == "" {
		return &source{rng: rand.New(rand.NewPCG(1, 2)), vocab: firstWord + 1}, nil
	}
	st, err := weights.Open(in.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	m, err := model.Open(st)
	if err != nil {
		return nil, err
	}
	s = &source{rng: rand.New(rand.NewPCG(1, 2))}
	if in.Random {
		if s.vocab = m.Config().Vocab; s.vocab <= firstWord {
			return nil, fmt.Errorf("%s: a vocabulary of %d, expected more than %d", in.Model, s.vocab, firstWord)
		}
		return s, nil
	}
	tok, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	around := tok.Encode(nil, "", tokenizer.Options{Special: true}, nil)
	s.before, s.after = around[:(len(around)+1)/2], around[(len(around)+1)/2:]
	for _, text := range sentences {
		s.parts = append(s.parts, tok.Encode(nil, text+" ", tokenizer.Options{}, nil))
	}
	return s, nil
}

// text has n tokens, special ones included where they fit.
func (s *source) text(n int) []int32 {
	ids := make([]int32, 0, n)
	if s.vocab > 0 {
		for len(ids) < n {
			ids = append(ids, int32(firstWord+s.rng.IntN(s.vocab-firstWord)))
		}
		return ids
	}
	room := n - len(s.after)
	ids = append(ids, s.before...)
	for len(ids) < room {
		ids = append(ids, s.parts[s.rng.IntN(len(s.parts))]...)
	}
	return append(ids[:room], s.after...)
}

func (s *source) batch(w Work) [][]int32 {
	out := make([][]int32, w.Texts)
	for i := range out {
		out[i] = s.text(w.Lengths[i%len(w.Lengths)])
	}
	return out
}
