package profile

import (
	"fmt"
	"sync"
)

// Request is one served request, with readings of [Now].
type Request struct {
	ID           string `json:"id"`
	Name         string `json:"name,omitempty"` // chat, embeddings
	Start        int64  `json:"start_ns"`
	FirstToken   int64  `json:"first_token_ns,omitempty"`
	End          int64  `json:"end_ns"`
	PromptTokens int    `json:"prompt_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	// Of the time to the first token: making tokens of the prompt, compiling the
	// program, waiting for a turn, and, once the token is there, for its reader.
	Tokenize int64 `json:"tokenize_ns,omitempty"`
	Compile  int64 `json:"compile_ns,omitempty"`
	Queue    int64 `json:"queue_ns,omitempty"`
	Hand     int64 `json:"hand_over_ns,omitempty"`
}

func (q *Request) check() error {
	if q.Start <= 0 || q.End < q.Start {
		return fmt.Errorf("%w %q: from %d to %d, expected both stamped and in order", errRequest, q.ID, q.Start, q.End)
	}
	if q.FirstToken != 0 && (q.FirstToken < q.Start || q.FirstToken > q.End) {
		return fmt.Errorf("%w %q: first token at %d, expected within %d to %d", errRequest, q.ID, q.FirstToken, q.Start, q.End)
	}
	all := q.End - q.Start
	if min(q.Tokenize, q.Compile, q.Queue, q.Hand) < 0 || max(q.Tokenize, q.Compile, q.Queue, q.Hand) > all || q.Tokenize+q.Compile+q.Queue+q.Hand > all {
		return fmt.Errorf("%w %q: tokenize %d, compile %d, queue %d, hand over %d ns, expected 0 or more each and at most %d in all", errRequest, q.ID, q.Tokenize, q.Compile, q.Queue, q.Hand, all)
	}
	if q.PromptTokens < 0 || q.OutputTokens < 0 {
		return fmt.Errorf("%w %q: %d prompt and %d output tokens, expected 0 or more", errRequest, q.ID, q.PromptTokens, q.OutputTokens)
	}
	return nil
}

type requestFold struct {
	duration, firstToken, perToken          histogram
	tokenize, compile, queue, prefill, hand histogram // of firstToken
	prompt, output                          int64
	kept                                    *keeper[Request]
	parts                                   partFold
}

func (f *requestFold) addRequest(q Request) {
	f.duration.addValue(q.End - q.Start)
	f.prompt += int64(q.PromptTokens)
	f.output += int64(q.OutputTokens)
	if q.FirstToken != 0 {
		f.firstToken.addValue(q.FirstToken - q.Start)
		f.tokenize.addValue(q.Tokenize)
		f.compile.addValue(q.Compile)
		f.queue.addValue(q.Queue)
		f.hand.addValue(q.Hand)
		f.prefill.addValue(max(0, q.FirstToken-q.Start-q.Tokenize-q.Compile-q.Queue-q.Hand))
		if q.OutputTokens > 1 {
			f.perToken.addValue((q.End - q.FirstToken) / int64(q.OutputTokens-1))
		}
	}
	f.kept.keep(q)
}

// Counter is a number that changes over time, such as the blocks of the KV
// cache in use. Its last samples are drawn under the trace. A nil counter
// records nothing.
type Counter struct {
	name, unit string

	mu             sync.Mutex
	value, peak    float64
	samples        int64
	kept           *keeper[Sample]
	everSet        bool
	droppedInvalid int64
}

// Sample is the value of a counter from one moment on.
type Sample struct {
	At    int64   `json:"at_ns"`
	Value float64 `json:"value"`
}

// Counter returns the counter of that name, and creates it on first use. It is nil if
// there are Options.Counters counters already.
func (r *Recorder) Counter(name, unit string) *Counter {
	if r.none() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.counters {
		if c.name == name {
			return c
		}
	}
	if len(r.counters) >= r.opts.Counters {
		r.refused++
		return nil
	}
	c := &Counter{name: name, unit: unit, kept: newKeeper[Sample](r.opts.Samples)}
	r.counters = append(r.counters, c)
	return c
}

// Set gives the counter a value from now on.
func (c *Counter) Set(v float64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.set(v)
	c.mu.Unlock()
}

// Add changes the counter's value by d from now on.
func (c *Counter) Add(d float64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.set(c.value + d)
	c.mu.Unlock()
}

// everHad reports whether it ever had a value.
func (c *Counter) everHad() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.samples > 0
}

func (c *Counter) set(v float64) {
	if !(v >= -most && v <= most) { // a file has no such number; the count of them is reported
		c.droppedInvalid++
		return
	}
	c.value = v
	if !c.everSet || v > c.peak {
		c.peak, c.everSet = v, true
	}
	c.samples++
	c.kept.keep(Sample{Now(), v})
}
