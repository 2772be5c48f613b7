package model

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// How a model makes embeddings, as its files say.

// ggufPooling are the values of pooling_type; 0 says that the model has none
// of its own, and 4 that it scores pairs.
var ggufPooling = map[int]graph.PoolKind{1: graph.PoolMean, 2: graph.PoolCLS, 3: graph.PoolLast}

const ggufRank = 4

// hfPooling are the values of a pooling stage's pooling_mode.
var hfPooling = map[string]graph.PoolKind{
	"mean": graph.PoolMean, "cls": graph.PoolCLS, "lasttoken": graph.PoolLast, "max": graph.PoolMax,
	"mean_sqrt_len_tokens": graph.PoolMeanSqrt, "weightedmean": graph.PoolWeighted,
}

// oldPooling are the flags that older files have in place of pooling_mode;
// several side by side lie in this order.
var oldPooling = []struct{ flag, mode string }{
	{"pooling_mode_cls_token", "cls"},
	{"pooling_mode_max_tokens", "max"},
	{"pooling_mode_mean_tokens", "mean"},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
	{"pooling_mode_weightedmean_tokens", "weightedmean"},
	{"pooling_mode_lasttoken", "lasttoken"},
}

// defaultPooling is what a model without a pooling of its own gets: the last
// token is the only one of a causal model that has seen the whole text.
func defaultPooling(causal bool) graph.PoolKind {
	if causal {
		return graph.PoolLast
	}
	return graph.PoolMean
}

// sentenceGGUF reads how a GGUF model makes embeddings.
func sentenceGGUF(r *fields, c *Config) {
	c.CanEmbed, c.Normalize, c.Pooling = true, true, defaultPooling(c.Causal)
	if r.has("pooling_type") {
		kind, err := r.gguf.IDOr(r.prefix+"pooling_type", 0)
		r.keep(err)
		pool, ok := ggufPooling[kind]
		switch {
		case ok:
			c.Pooling = pool
		case kind == ggufRank && !r.hasTensor("cls.weight") && !r.hasTensor("cls.output.weight"):
			r.unsupported("pooling_type", "%d (rank), expected the weights of a classifier with it", kind)
		case kind != 0 && kind != ggufRank:
			r.unsupported("pooling_type", "%d, expected 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)", kind)
		}
	}
	c.stages = stagesGGUF(r)
}

// readSentence reads how a Hugging Face model makes embeddings: the stages of
// sentence-transformers where modules.json lists them.
func readSentence(d description, h *weights.HFDir) error {
	c := d.config()
	c.CanEmbed, c.Pooling = true, defaultPooling(c.Causal)
	pooled := false
	if _, ok := d.(pooler); ok {
		c.Pooling, pooled = graph.PoolMean, true
	}
	for i, m := range h.Modules {
		kind := m.Kind()
		switch {
		case kind == "Transformer" && i == 0 || kind == "StaticEmbedding" && i == 0 || kind == "Dropout":
		case kind == "LogitScore": // yesno.go reads it
			c.CanEmbed = false
		case kind == "Pooling" && !pooled:
			if m.Config == nil {
				return fmt.Errorf("%s: expected the description of the pooling: %w", filepath.Join(h.Dir, m.Path, "config.json"), weights.ErrInvalid)
			}
			if err := readPooling(c, m.Config); err != nil {
				return err
			}
			pooled = true
		default:
			s, err := readStage(h, i)
			if err == nil && !pooled {
				err = fmt.Errorf("%s: module %s before the pooling, expected it behind: %w", filepath.Join(h.Dir, "modules.json"), m.Type, weights.ErrUnsupported)
			}
			if err != nil {
				return err
			}
			c.stages = append(c.stages, s)
		}
	}
	// Unit length at the end can be had or not, so it is no stage.
	if n := len(c.stages); n > 0 && c.stages[n-1].kind == unitStage {
		c.stages, c.Normalize = c.stages[:n-1], true
	}
	if err := readPrompts(c, h); err != nil {
		return err
	}
	return readMaxSeq(c, h)
}

func readPooling(c *Config, p *weights.Config) error {
	r := hfFields(p)
	if !r.flag("include_prompt", true) {
		r.unsupported("include_prompt", "false, expected true")
	}
	key, modes := "pooling_mode", []string(nil)
	if raw, ok := p.Raw(key); ok {
		var one string
		if json.Unmarshal(raw, &one) == nil {
			modes = []string{one}
		} else {
			var err error
			modes, err = p.Strings(key)
			r.keep(err)
		}
	} else {
		for _, o := range oldPooling {
			if r.flag(o.flag, false) {
				modes, key = append(modes, o.mode), o.flag
			}
		}
		if modes == nil {
			modes = []string{"mean"}
		}
	}
	var kinds []graph.PoolKind
	for _, mode := range modes {
		kind, ok := hfPooling[mode]
		if !ok {
			r.unsupported(key, "pooling %q, expected cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken", mode)
		}
		kinds = append(kinds, kind)
	}
	if r.failed() == nil {
		kind, err := graph.PoolOf(kinds...)
		if err != nil {
			r.unsupported(key, "%v", err)
		}
		c.Pooling = kind
	}
	return r.failed()
}

// readPrompts reads what the model wants before texts.
func readPrompts(c *Config, h *weights.HFDir) error {
	if h.Config != nil {
		r := hfFields(h.Config)
		for _, key := range []string{"matryoshka_dimensions", "matryoshka_dims"} {
			dims, err := h.Config.IDs(key)
			r.keep(err)
			if len(dims) > 0 {
				c.MatryoshkaDims = dims
			}
		}
		if err := r.failed(); err != nil {
			return err
		}
	}
	if h.Sentence == nil {
		return nil
	}
	o, err := h.Sentence.Object("prompts")
	if err != nil {
		return err
	}
	if o != nil {
		for _, name := range o.Keys() {
			prompt, err := o.StringOr(name, "")
			if err != nil {
				return err
			}
			if c.Prompts == nil {
				c.Prompts = map[string]string{}
			}
			c.Prompts[name] = prompt
		}
	}
	if c.DefaultPrompt, err = h.Sentence.StringOr("default_prompt_name", ""); err != nil {
		return err
	}
	if c.TruncateDim, err = h.Sentence.IntOr("truncate_dim", 0); err != nil {
		return err
	}
	if _, ok := c.Prompts[c.DefaultPrompt]; !ok && c.DefaultPrompt != "" {
		return fmt.Errorf("%s: field default_prompt_name: %q, expected the name of one of the prompts: %w", h.Sentence.File(), c.DefaultPrompt, weights.ErrInvalid)
	}
	return nil
}

// readMaxSeq lowers MaxSeq to where texts are cut.
func readMaxSeq(c *Config, h *weights.HFDir) error {
	n, err := h.TextLimit(!c.Causal)
	if n > 0 {
		c.MaxSeq = min(c.MaxSeq, n)
	}
	return err
}
