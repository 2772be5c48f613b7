package tokenizer

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Batch holds the ids of many texts, and the buffers that made them: who keeps one and fills it again
// allocates nothing but the goroutines. The zero value is ready.
type Batch struct {
	texts   []batchText
	workers []*batchWorker
}

// batchText says where a text's ids are.
type batchText struct {
	worker     int32
	start, end int
}

type batchWorker struct {
	scratch Scratch
	ids     []int32
}

// batchShare is how many bytes of text a worker takes at a time, and so what is not worth a goroutine.
const batchShare = 1 << 14

// EncodeBatch fills b with the ids of every text, with so many threads at most; 0 stands for all that the
// program may use. b must not be in use by others meanwhile. Where o.Done is closed under way, the ids of
// some texts are missing.
func (t *Tokenizer) EncodeBatch(b *Batch, texts []string, o Options, threads int) {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	size := 0
	for _, text := range texts {
		size += len(text) + 16
	}
	threads = max(1, min(threads, size/batchShare))
	for len(b.workers) < threads {
		b.workers = append(b.workers, new(batchWorker))
	}
	if cap(b.texts) < len(texts) {
		b.texts = make([]batchText, len(texts))
	}
	b.texts = b.texts[:len(texts)]
	for _, w := range b.workers {
		w.ids = w.ids[:0]
	}
	if threads == 1 {
		t.encodeShare(b, 0, texts, 0, len(texts), o)
		return
	}
	t.encodeShares(b, texts, o, threads)
}

// encodeShares lets workers take shares until none is left.
func (t *Tokenizer) encodeShares(b *Batch, texts []string, o Options, threads int) {
	var next atomic.Int64
	var group sync.WaitGroup
	var failed atomic.Value
	work := func(worker int) {
		for {
			from := int(next.Load())
			to, size := from, 0
			for ; to < len(texts) && size < batchShare; to++ {
				size += len(texts[to]) + 16
			}
			if from == to {
				return
			}
			if next.CompareAndSwap(int64(from), int64(to)) {
				t.encodeShare(b, worker, texts, from, to, o)
			}
		}
	}
	for worker := 1; worker < threads; worker++ {
		group.Go(func() {
			// The caller may recover from a panic of its own goroutine only.
			defer func() {
				if p := recover(); p != nil {
					failed.CompareAndSwap(nil, panicked{p})
				}
			}()
			work(worker)
		})
	}
	func() {
		defer group.Wait()
		work(0)
	}()
	if p, ok := failed.Load().(panicked); ok {
		panic(p.value)
	}
}

// panicked gives what a goroutine panicked with one type, which atomic.Value asks for.
type panicked struct{ value any }

func (t *Tokenizer) encodeShare(b *Batch, worker int, texts []string, from, to int, o Options) {
	w := b.workers[worker]
	for i := from; i < to; i++ {
		start := len(w.ids)
		if !o.ended() {
			w.ids = t.Encode(w.ids, texts[i], o, &w.scratch)
		}
		b.texts[i] = batchText{int32(worker), start, len(w.ids)}
	}
}

// Len is the number of texts.
func (b *Batch) Len() int { return len(b.texts) }

// IDs gives the ids of a text, until the batch is filled again.
func (b *Batch) IDs(i int) []int32 {
	at := b.texts[i]
	return b.workers[at.worker].ids[at.start:at.end:at.end]
}
