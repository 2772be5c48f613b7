package train

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"

	"hotpath/internal/dataset"
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
)

// ErrData reports training data that cannot be read.
var ErrData = dataset.ErrData

// sourceSpec says how data become examples.
type sourceSpec struct {
	paths    []string
	tok      *tokenizer.Tokenizer
	tokPrint func() (string, error) // tells the tokenizer from others, for the cache
	vocab    int
	seqLen   int
	next     bool // the last token of a sequence is a target only
	plain    bool // texts are documents, whatever stands beside them
	truncate bool // cut long examples, which are errors otherwise
	labels   int  // classes that labels may name; 0: any
	pairs    func() (*model.Pairs, error)
	workers  int
	cache    string                  // folder of token shards; "": none
	memory   int64                   // bytes of files up to which the tokens stay in memory
	shard    int                     // bytes of a shard: about shardBytes unless it says otherwise
	progress func(done, total int64) // bytes; may be nil

	kind    Kind
	speaker *speaker // nil: the model has no chat template
}

// most is how many tokens a sequence may have.
func (s *sourceSpec) most() int {
	if s.next {
		return s.seqLen + 1
	}
	return s.seqLen
}

// openSource reads the data, or finds them in the cache. close frees what the
// source lies in.
func openSource(ctx context.Context, spec sourceSpec) (_ Source, closeAll func() error, err error) {
	files, err := dataset.Files(ctx, spec.paths)
	if err != nil {
		return nil, nil, err
	}
	if spec.speaker, err = newSpeaker(spec.tok); err != nil {
		return nil, nil, err
	}
	if spec.workers <= 0 {
		spec.workers = runtime.GOMAXPROCS(0)
	}
	spec.pairs = sync.OnceValues(spec.pairs)
	form, err := firstForm(ctx, files, spec.plain)
	if err != nil {
		return nil, nil, err
	}
	spec.kind = form.kind
	var src *fileSource
	if spec.cache == "" || totalSize(files) <= spec.memory {
		b := newBuilder(&spec)
		if err = b.build(ctx, files, form); err == nil {
			src = newFileSource(&spec, []*shard{&b.shard}, b.fingerprint())
			src.close = func() error { return nil }
		}
	} else {
		src, err = cachedSource(ctx, &spec, files, form)
	}
	if err != nil {
		return nil, nil, err
	}
	if spec.kind == Text {
		return newTexts(src, spec.seqLen, spec.next), src.close, nil
	}
	return src, src.close, nil
}

func totalSize(files []dataset.File) (n int64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}

// firstForm is the form of the first object, or that of text files.
func firstForm(ctx context.Context, files []dataset.File, plain bool) (form *recordForm, err error) {
	found := errors.New("found")
	form = recordForms[len(recordForms)-1] // of texts
	for i := range files {
		if !files[i].Lines {
			return form, nil
		}
		err = dataset.Each(ctx, files[i:i+1], 1, dataset.CutLines, func(_ int, b *dataset.Block) (int, error) {
			return 0, b.Objects(func(l dataset.Line) error {
				first, err := formOf(&l, plain)
				if err == nil {
					form, err = first, found
				}
				return err
			})
		}, func(*dataset.Block, int) error { return nil })
		if errors.Is(err, found) {
			return form, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return form, nil
}

// fileSource is data from files.
type fileSource struct {
	kind   Kind
	vocab  int
	shards []*shard
	first  []int // [shards+1] examples before each
	stats  Stats
	print  string
	mapped bool // reading it may wait for the disk
	close  func() error
}

func newFileSource(spec *sourceSpec, shards []*shard, fingerprint string) *fileSource {
	f := &fileSource{kind: spec.kind, vocab: spec.vocab, shards: shards, first: []int{0}, print: fingerprint}
	for _, s := range shards {
		f.first = append(f.first, f.first[len(f.first)-1]+len(s.examples))
		f.stats.Sequences += len(s.seqs)
		f.stats.Tokens += int64(len(s.ids))
		seq, id := int64(0), int64(0)
		for _, end := range s.examples {
			f.stats.Most = max(f.stats.Most, int(end-seq))
			if end > seq {
				f.stats.Longest = max(f.stats.Longest, int(s.seqs[end-1]-id))
				id = s.seqs[end-1]
			}
			seq = end
		}
	}
	f.stats.Examples = f.first[len(shards)]
	f.stats.Documents = f.stats.Examples
	return f
}

// waits reports whether reading an example may wait for the disk.
func (f *fileSource) waits() bool { return f.mapped }

// bytes is the size of the tokens in memory.
func (f *fileSource) bytes() (sum int64) {
	if f.mapped {
		return 0
	}
	for _, s := range f.shards {
		sum += 4*int64(len(s.ids)) + int64(len(s.flags)) + 8*int64(len(s.seqs)+len(s.examples)) + 4*int64(len(s.values))
	}
	return sum
}

func (f *fileSource) Kind() Kind          { return f.kind }
func (f *fileSource) Stats() Stats        { return f.stats }
func (f *fileSource) Fingerprint() string { return f.print }

// locate finds the shard of example i, and its number there.
func (f *fileSource) locate(i int) (*shard, int) {
	n := sort.SearchInts(f.first, i+1) - 1
	return f.shards[n], i - f.first[n]
}

func (f *fileSource) Example(i int, e *Example) error {
	s, n := f.locate(i)
	from, to := int64(0), s.examples[n]
	if n > 0 {
		from = s.examples[n-1]
	}
	for len(e.Seqs) < int(to-from) {
		e.Seqs = append(e.Seqs, Sequence{})
	}
	e.Seqs = e.Seqs[:to-from]
	for k := range e.Seqs {
		if err := f.sequence(s, from+int64(k), &e.Seqs[k]); err != nil {
			return err
		}
	}
	e.Label, e.Score = 0, 0
	switch f.kind {
	case Labelled:
		e.Label = int32(s.values[n])
	case Scored:
		e.Score = s.values[n]
	}
	return f.kind.check(e)
}

// sequence reads sequence i of a shard. Only flags are copied.
func (f *fileSource) sequence(s *shard, i int64, q *Sequence) error {
	from, to := s.span(i)
	q.IDs = s.ids[from:to:to]
	if err := checkIDs(q.IDs, f.vocab); err != nil {
		return err
	}
	if !f.kind.flagged() {
		q.Learn, q.Segments = nil, nil
		return nil
	}
	flags := s.flags[from:to]
	if f.kind == Labelled {
		q.Learn = nil
		q.Segments = q.Segments[:0]
		for _, flag := range flags {
			q.Segments = append(q.Segments, int32(flag&flagSecond/flagSecond))
		}
		return nil
	}
	q.Segments = nil
	q.Learn = q.Learn[:0]
	for _, flag := range flags {
		q.Learn = append(q.Learn, flag&flagLearn != 0)
	}
	return nil
}

// checkIDs keeps a file of the cache that is damaged from kernels.
func checkIDs(ids []int32, vocab int) error {
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("token %d has the id %d, expected one below %d, the model's vocabulary: %w", i, id, vocab, ErrData)
		}
	}
	return nil
}
