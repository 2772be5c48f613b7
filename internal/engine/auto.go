package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hotpath/internal/calib"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// AutoRequest is what AutoDevice decides by.
type AutoRequest struct {
	Bytes     int64                       // of the model's weights
	Model     func() (calib.Model, error) // called if there is a card
	Demand    calib.Demand                // zero: unknown, and the model is opened for many calls
	Threads   int                         // of the CPU
	Precision string                      // f32, bf16, or "" for that of the device
	Generates bool
	BuiltIn   bool // decide by built-in figures, and measure nothing
}

// Choice is how AutoDevice decided.
type Choice struct {
	Device string // that was taken; "": the CPU
	Quick  bool   // the CPU needs less time than any card needs to begin
	Card   string // that was compared with the CPU; "": none
	calib.Estimate
	Work string // that was estimated
	From string // the origin of the card's figures
	Why  error  // in one line why a card that is there cannot be used
}

// String is one line: the device, both estimates, and what they are of.
func (c Choice) String() string {
	took := func(s float64) string {
		d := time.Duration(s * float64(time.Second))
		switch {
		case d >= time.Second:
			return d.Round(10 * time.Millisecond).String()
		case d >= time.Millisecond:
			return d.Round(10 * time.Microsecond).String()
		}
		return d.Round(time.Microsecond).String()
	}
	device := c.Device
	if device == "" {
		device = "the CPU"
	}
	switch {
	case c.Quick:
		return fmt.Sprintf("%s for %s: about %s, less than any card needs to begin", device, c.Work, took(c.CPU))
	case c.Card == "" && c.Why == nil:
		return device + ": no card that auto takes"
	case c.Card == "":
		return fmt.Sprintf("%s: %v", device, c.Why)
	}
	start := ""
	if c.Start > 0 {
		start = fmt.Sprintf(", of which %s to open it and to copy the weights", took(c.Start))
	}
	s := fmt.Sprintf("%s for %s: about %s on the CPU, %s on %s%s (figures of the card: %s)", device, c.Work, took(c.CPU), took(c.Estimate.Card), c.Card, start, c.From)
	if c.Why != nil {
		s += fmt.Sprintf("; %v", c.Why)
	}
	return s
}

// usual is the demand of a model that is opened for many calls, and its name.
func usual(generates bool) (calib.Demand, string) {
	if generates {
		return calib.Demand{Decode: 1}, "a token of one sequence"
	}
	return calib.Demand{Texts: 1, Tokens: 16}, "a text of 16 tokens"
}

// Times that no card goes below, in seconds: to open it, and to launch a run and wait
// for its end.
const (
	leastStart = 50e-3
	leastRun   = 20e-6
)

// AutoDevice chooses the device of a model if nobody names one: the first card that can
// be used, if measured figures say that it is faster than the CPU. The first time that a
// machine's card is asked for, card and CPU are measured, which takes about a second.
// Choice.Why says in one line why a card that is there cannot be used; that the machine
// has none is no reason to say anything.
func AutoDevice(ctx context.Context, r AutoRequest) (c Choice) {
	names, all := kinds()
	if len(names) == 0 {
		return c
	}
	m, err := r.Model()
	if err != nil {
		return c // opening the model tells
	}
	m.Total = r.Bytes
	demand, once, least := r.Demand, r.Demand != calib.Demand{}, leastStart
	if c.Work = describe(demand); !once {
		demand, c.Work = usual(r.Generates)
		least = leastRun
	}
	costs := calib.Cached(r.Threads)
	if r.BuiltIn {
		costs = calib.Default(r.Threads, calib.KeyOf(r.Threads).Parallel())
	}
	estimate := func(card calib.Card, precision string) calib.Estimate {
		return calib.Choose(&costs, &card, m, demand, once, precision)
	}
	if e := estimate(calib.DefaultCard(), "f32"); e.CPU < least {
		c.Quick, c.CPU = true, e.CPU
		return c
	}
	for _, name := range names {
		kind := all[name]
		cards, err := kind.List()
		if err == nil && len(cards) > 0 {
			err = cards[0].Skip
		}
		if errors.Is(err, ErrAbsent) || err == nil && len(cards) == 0 {
			continue
		}
		found := calib.FoundCard{Card: calib.DefaultCard(), From: calib.FromDefault}
		if err == nil && !r.BuiltIn {
			cards[0].Device = name
			found, err = cards[0].Figures(ctx, false)
		}
		if err == nil && found.From == calib.FromMeasured { // the CPU too then
			costs, err = cpuCosts(ctx, r.Threads)
		}
		if err == nil {
			precision := kind.Precision
			if r.Precision == "f32" || r.Precision == "bf16" {
				precision = r.Precision
			}
			m.Most = cards[0].Tokens
			c.Card, c.From, c.Estimate = name, found.From, estimate(found.Card, precision)
			if !c.Wins() {
				return c
			}
			err = kind.Fits(r.Bytes)
		}
		if err == nil {
			c.Device, c.Why = name, nil
			return c
		}
		if c.Why == nil && !errors.Is(err, ErrAbsent) {
			c.Why = err
		}
	}
	return c
}

// cpuCosts are the measured figures of the CPU.
func cpuCosts(ctx context.Context, threads int) (calib.Costs, error) {
	f, err := calib.Find(ctx, threads, false, func() (plan.Backend, error) {
		return NewBackend("cpu", BackendOptions{Threads: threads})
	})
	return f.Costs, err
}

// describe is a demand in words.
func describe(d calib.Demand) string {
	s := ""
	if d.Texts > 0 {
		s = fmt.Sprintf("%d tokens of texts", d.Tokens)
	}
	if d.Decode > 0 {
		if s != "" {
			s += " and "
		}
		s += fmt.Sprintf("%d tokens one after another", d.Decode)
	}
	return s
}

// barriersPerLayer is about what plans of the CPU have: a choice compiles none.
const barriersPerLayer = 8

// ModelWork sums up the work of a model's graph for the choice of a device. Of experts
// a token uses a few.
func ModelWork(g *graph.Graph, c *model.Config) calib.Model {
	m := calib.Model{Layers: c.Layers, Work: calib.Work{Barriers: barriersPerLayer * c.Layers}}
	used := 1.0 // part of the experts
	for _, n := range g.Nodes {
		if a, ok := n.Attr.(graph.RouteAttr); ok && c.Experts > 0 {
			used = float64(a.Used) / float64(c.Experts)
		}
		if n.Op != graph.OpLinear && n.Op != graph.OpGroupedLinear || n.In[1].Node.Leaf == nil {
			continue
		}
		w, part := n.In[1], 1.0
		if n.Op == graph.OpGroupedLinear {
			part = used
		}
		elements := part * float64(w.Shape.Len(tensor.Bind{}))
		if n.In[0].Shape.Outer.Sym == tensor.T {
			m.FLOPs += 2 * elements
		}
		m.Bytes += int64(part * float64(w.Shape.NumRows(tensor.Bind{})) * float64(w.DType.RowBytes(w.Shape.RowLen())))
		switch w.DType {
		case tensor.F32, tensor.F16, tensor.BF16:
			m.Packed += elements
		default:
			m.Stored += elements
		}
	}
	return m
}
