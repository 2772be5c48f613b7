// Package learn makes tokenizers from texts: BPE, byte-level or of characters,
// and WordPiece, with the merges that Hugging Face's trainers find, and
// tokenizers with one token per character, as a tokenizer.json that their library
// and ours read.
//
// Texts are cut by the tokenizer that will read them later (tokenizer.Cutter),
// counted by workers in parallel, and merged with a queue of pairs whose counts
// are kept up to date. The result depends on neither the number of workers nor
// the order of the texts.
//
// It imports dataset, tokenizer and atomicfile; commands import it, and nothing
// that runs a model does. Errors are those of package dataset for data, and wrap
// ErrOptions for options that make no tokenizer; each names the file or the
// option and what was expected.
package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"hotpath/internal/dataset"
	"hotpath/internal/tokenizer"
)

// ErrOptions reports options that make no tokenizer.
var ErrOptions = errors.New("invalid options of a tokenizer")

// Options say what to make. Zero values mean the defaults of the kind.
type Options struct {
	Kind          string   // bpe (default), wordpiece, char
	PreTokenizer  string   // one that the kind goes with
	VocabSize     int      // tokens, special ones included: 32000
	MinFrequency  int      // least count of a pair that becomes a token: 2
	LimitAlphabet int      // most frequent characters that are kept: 1000 for wordpiece, -1: all, 0: the usual one; of bytes all are
	Special       []string // tokens with the first ids
	Cased         bool     // wordpiece: keep case and accents
	Threads       int      // 0: all processors
	// Progress hears how far a stage has come.
	Progress func(s Stage, done, total int64)
}

// Stage is a part of the work.
type Stage string

// Stages, in their order: units are bytes of text, and tokens.
const (
	Counting Stage = "counting words"
	Merging  Stage = "merging"
)

// Result is a tokenizer.
type Result struct {
	Tokens []string   // by id
	Merges [][2]int32 // ids, in the order of their merges; none for WordPiece
	Bytes  int64      // of the files
	Words  int        // different ones

	options Options
	bytes   bool // tokens spell bytes
}

const (
	maxVocab = 1 << 21 // what package tokenizer reads
	maxWords = 1 << 29
)

func tooMany(b *dataset.Block) error {
	return fmt.Errorf("%s: more than %d different words, expected fewer: choose a pre-tokenizer that cuts texts into words: %w", b.Where(), maxWords, ErrOptions)
}

// fill puts in defaults, and says what is wrong with the first option that is.
func (o *Options) fill() error {
	if o.Kind == "" {
		o.Kind = "bpe"
	}
	r, ok := recipes[o.Kind]
	if !ok {
		return fmt.Errorf("type %q, expected one of %s: %w", o.Kind, strings.Join(KindNames(), ", "), ErrOptions)
	}
	if o.PreTokenizer == "" {
		o.PreTokenizer = r.cuts[0]
	}
	if !slices.Contains(r.cuts, o.PreTokenizer) {
		return fmt.Errorf("pre-tokenizer %q, expected one of %s for type %s: %w", o.PreTokenizer, strings.Join(r.cuts, ", "), o.Kind, ErrOptions)
	}
	if o.VocabSize == 0 {
		o.VocabSize = 32000
	}
	if o.MinFrequency == 0 {
		o.MinFrequency = 2
	}
	if o.LimitAlphabet < -1 {
		return fmt.Errorf("alphabet limit %d, expected 1 or more, 0 for the usual one, or -1 for all: %w", o.LimitAlphabet, ErrOptions)
	}
	if o.LimitAlphabet == 0 {
		o.LimitAlphabet = r.limit
	}
	if o.LimitAlphabet <= 0 {
		o.LimitAlphabet = math.MaxInt
	}
	if o.Special == nil {
		o.Special = r.special
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.VocabSize < 0 || o.VocabSize > maxVocab {
		return fmt.Errorf("vocab size %d, expected 1 to %d: %w", o.VocabSize, maxVocab, ErrOptions)
	}
	if o.MinFrequency < 0 {
		return fmt.Errorf("min frequency %d, expected 1 or more: %w", o.MinFrequency, ErrOptions)
	}
	for i, s := range o.Special {
		if s == "" || !utf8.ValidString(s) || slices.Contains(o.Special[:i], s) {
			return fmt.Errorf("special token %q, expected distinct texts in UTF-8: %w", s, ErrOptions)
		}
	}
	if r.model == "WordPiece" && o.unknown() == "" {
		return fmt.Errorf("special tokens %q, expected [UNK] among them: a word that no tokens cover becomes it: %w", o.Special, ErrOptions)
	}
	return nil
}

// Train makes a tokenizer from text files (each line by itself), .jsonl files
// (the field "text" of each object, or the strings of an object that has several others), and
// directories of both.
func Train(ctx context.Context, paths []string, o Options) (*Result, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	cut, err := tokenizer.CutterFromJSON("tokenizer", fmt.Appendf(nil, `{"normalizer":%s,"pre_tokenizer":%s}`, o.normalizer(), cuts[o.PreTokenizer].preTokenizer))
	if err != nil {
		return nil, err
	}
	files, err := dataset.Files(ctx, paths)
	if err != nil {
		return nil, err
	}
	res := &Result{options: o, bytes: cut.Bytes}
	for _, f := range files {
		res.Bytes += f.Size
	}
	words, err := countWords(ctx, files, cut, o.Threads, o.stage(Counting, res.Bytes))
	if err != nil {
		return nil, err
	}
	if res.Words = len(words.count); res.Words == 0 {
		return nil, fmt.Errorf("%s: no words, expected some text: %w", strings.Join(paths, ", "), dataset.ErrData)
	}
	m, err := newMerger(words, o, cut.Bytes)
	if err != nil {
		return nil, err
	}
	if recipes[o.Kind].chars {
		m.characters(words, o.LimitAlphabet, o.VocabSize)
	} else {
		progress := o.stage(Merging, int64(o.VocabSize))
		err = m.mergeAll(ctx, o.VocabSize, func(n int) {
			if progress != nil {
				progress(int64(n))
			}
		})
	}
	res.Tokens, res.Merges = m.tokens, m.merges
	if recipes[o.Kind].model == "WordPiece" {
		res.Merges = nil
	}
	return res, err
}

// stage is the progress of one stage, nil where nobody listens.
func (o *Options) stage(s Stage, total int64) func(int64) {
	if o.Progress == nil {
		return nil
	}
	return func(done int64) { o.Progress(s, done, total) }
}
