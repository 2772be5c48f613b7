// Package convert makes a GGUF file of a Hugging Face directory: names and
// layouts of tensors, metadata and tokenizer as llama.cpp expects them. A
// family of architectures is one row of a table; what is not in it is refused
// rather than guessed.
//
// It imports tokenizer, weights, format and quant; the command imports it.
// Errors name the file, the field or tensor and what was expected.
package convert

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/format/gguf"
	"hotpath/internal/quant"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Result is what was written.
type Result struct {
	quant.Summary
	Arch     string   `json:"architecture"`
	Warnings []string `json:"warnings,omitempty"`
}

// Directory writes the model in, a Hugging Face directory, to path with the
// encodings of a mix.
func Directory(ctx context.Context, in *weights.Store, path string, mix quant.Mix, opts quant.Options) (Result, error) {
	j, err := newJob(in)
	if err != nil {
		return Result{}, err
	}
	if err := quant.Overwrites(in, path); err != nil {
		return Result{}, err
	}
	tensors, err := j.tensors()
	if err != nil {
		return Result{}, err
	}
	if err := j.metadata(); err != nil {
		return Result{}, err
	}
	if err := j.tokenizer(); err != nil {
		return Result{}, err
	}
	facts := quant.Facts{Arch: j.arch, Layers: j.layers, Group: max(j.heads, 1) / max(j.kvHeads, 1), Experts: j.experts}
	sum, err := quant.Write(ctx, &j.w, path, facts, tensors, mix, opts)
	return Result{sum, j.arch, j.warnings}, err
}

// job is one conversion.
type job struct {
	in     *weights.Store
	hf     *weights.HFDir
	own    *tokenizer.Tokenizer
	config fields
	family *family
	kind   string // model_type
	arch   string // general.architecture
	w      gguf.Writer
	err    error // the first that setting a key gave

	layers, dim, heads, kvHeads, headDim, experts, vocab int

	saysLocal bool // the base of layers with a window is set

	warnings []string
}

func newJob(in *weights.Store) (*job, error) {
	hf := in.HF()
	if hf == nil {
		return nil, fmt.Errorf("%s: expected a Hugging Face directory (quantize makes one GGUF file of another): %w", in.Path(), weights.ErrUnsupported)
	}
	j := &job{in: in, hf: hf, config: fields{c: hf.Config, err: new(error)}}
	kind, err := hf.Config.String("model_type")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.types, kind) })
	if i < 0 {
		var known []string
		for _, f := range families {
			known = append(known, f.types...)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("%s: field model_type: %q, expected one of %s: %w", hf.Config.File(), kind, strings.Join(known, ", "), weights.ErrUnsupported)
	}
	j.kind, j.family = kind, &families[i]
	j.arch = j.family.arch
	if j.family.archOf != nil {
		j.arch = j.family.archOf(j)
	}
	c := &j.config
	j.layers = c.count("num_hidden_layers", "n_layer", "n_layers")
	j.dim = c.count("hidden_size", "n_embd", "dim")
	j.heads = c.count("num_attention_heads", "n_head", "n_heads")
	if j.kvHeads = j.heads; !j.family.ownKeys && !j.family.encoder {
		j.kvHeads = c.countOr(j.heads, "num_key_value_heads", "num_kv_heads", "n_head_kv")
	}
	j.experts = c.countOr(0, "num_local_experts", "num_experts")
	j.headDim = j.dim / max(j.heads, 1)
	if own := missing[j.kind].head; own > 0 {
		j.headDim = own
	}
	j.headDim = c.countOr(j.headDim, "head_dim")
	j.vocab = c.countOr(0, "vocab_size")
	j.activationOf()
	if *c.err == nil && j.family.check != nil {
		j.family.check(j)
	}
	for _, key := range slices.Sorted(maps.Keys(j.family.only)) {
		if want := j.family.only[key]; c.flag(want, key) != want {
			j.warn("%s is %v in this model: llama.cpp opens files of %s models only where it is %v", key, !want, j.arch, want)
		}
	}
	if *c.err != nil {
		return nil, *c.err
	}
	if err := j.openTokenizer(); err != nil {
		return nil, err
	}
	return j, j.warnOfLength()
}

// warnOfLength: GGUF files say how many positions a model has, not where the
// directory cuts texts.
func (j *job) warnOfLength() error {
	n, err := j.hf.TextLimit(j.family.encoder)
	if all := j.family.context(j); err == nil && n > 0 && n < all {
		j.warn("texts are cut after %d tokens in this model, after %d in its GGUF file: answers to longer ones differ", n, all)
	}
	return err
}

// set adds a key below the architecture's name and keeps the first error.
func (j *job) set(key string, value any) { j.setGlobal(j.arch+"."+key, value) }

func (j *job) setGlobal(key string, value any) {
	if err := j.w.Set(key, value); err != nil && j.err == nil {
		j.err = fmt.Errorf("%s: %w", j.in.Path(), err)
	}
}

// setCount adds a count where it is not 0.
func (j *job) setCount(key string, n int) {
	if n > 0 {
		j.set(key, uint32(n))
	}
}

// setFloat adds a number that config.json has under one of several names.
func (j *job) setFloat(key string, names ...string) {
	if v, ok := j.config.float(names...); ok {
		j.set(key, float32(v))
	}
}

func (j *job) warn(format string, args ...any) {
	j.warnings = append(j.warnings, fmt.Sprintf(format, args...))
}

// name is what people call the model.
func (j *job) name() string {
	abs, err := filepath.Abs(j.in.Path())
	if err != nil {
		abs = j.in.Path()
	}
	return filepath.Base(abs)
}
