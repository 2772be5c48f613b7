package train

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// demand is the bytes that a run takes, by owner: the classes of arenas of the
// training program, and what is beside it.
type demand map[string]int64

func (d demand) total() (sum int64) {
	for _, n := range d {
		sum += n
	}
	return sum
}

// owners are the classes of arenas, then the others by name.
func (d demand) owners() []string {
	var classes []string
	for c := plan.Weights; c < plan.NumClasses; c++ {
		classes = append(classes, c.String())
	}
	others := slices.Sorted(maps.Keys(d))
	return append(classes, slices.DeleteFunc(others, func(name string) bool { return slices.Contains(classes, name) })...)
}

// demand is what the run takes at its peak. Samples and evaluations of vectors take
// turns, so that the larger of the two counts.
func (t *Trainer) demand(c *compiled) (demand, error) {
	d := demand{"data": t.tokens}
	for class, n := range c.prog.MemoryBytes() {
		d[plan.Class(class).String()] = n
	}
	if c.bytes > 0 {
		d[c.beside] = c.bytes
	}
	samples, err := t.sampleBytes(c)
	if err != nil {
		return nil, err
	}
	vectors, err := t.vectorBytes(c)
	if err != nil {
		return nil, err
	}
	if samples > vectors {
		d["samples"] = samples
	} else if vectors > 0 {
		d["evaluation"] = vectors
	}
	return d, nil
}

func (t *Trainer) sampleBytes(c *compiled) (int64, error) {
	if t.cfg.Sample.Every == 0 {
		return 0, nil
	}
	prompt, err := t.prompt(c.model)
	if err != nil {
		return 0, err
	}
	return t.engineBytes(c, t.sampling(c.model, prompt), (*engine.Engine).GenerateBytes)
}

func (t *Trainer) vectorBytes(c *compiled) (int64, error) {
	if t.vectors == nil {
		return 0, nil
	}
	bytes, err := t.engineBytes(c, t.embedding(), func(e *engine.Engine) (int64, error) { return e.EmbedBytes(unitVectors(c.model)) })
	return bytes + 4*int64(len(t.vectors.texts)*c.model.Config().EmbedDim), err
}

// engineBytes is the memory of an engine that runs the weights as they are in
// training: of its program, and of the copies from which weights are packed.
func (t *Trainer) engineBytes(c *compiled, o engine.Options, program func(e *engine.Engine) (int64, error)) (sum int64, err error) {
	live := map[string]func() ([]float32, error){}
	add := func(key string, values int) {
		live[key] = func() ([]float32, error) { return nil, errors.New("no weight is read") }
		sum += 4 * int64(values)
	}
	for _, p := range c.parts.Params {
		add(p.Key, p.Value.Shape.Len(tensor.Bind{}))
	}
	for _, a := range c.parts.Adapters {
		w, err := c.model.Weight(a.Key)
		if err != nil {
			return 0, err
		}
		add(a.Key, w.Len())
	}
	e, err := engine.Open(c.model.With(live), t.opts.Backend, o)
	if err != nil {
		return 0, err
	}
	bytes, err := program(e)
	return sum + bytes, errors.Join(err, e.Close())
}

// programBytes is the bytes that a program takes.
func programBytes(p *plan.Program) (sum int64) {
	for _, n := range p.MemoryBytes() {
		sum += n
	}
	return sum
}

// fits refuses a run that wants more memory than it may take.
func (o *Options) fits(need int64) error {
	if o.Memory > 0 && need > o.Memory {
		return fmt.Errorf("%s: expected a smaller model or fewer tokens per run (field micro_tokens): %w", tooMuch(need, o.Memory), ErrConfig)
	}
	return nil
}

func tooMuch(need, free int64) string {
	return fmt.Sprintf("the run wants %.1f GiB, and %.1f GiB are free", float64(need)/(1<<30), float64(free)/(1<<30))
}
