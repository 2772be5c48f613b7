package model

import (
	"fmt"
	"path/filepath"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// ggufPooling are the values of pooling_type; 0 says that the model has none
// of its own.
var ggufPooling = map[int]graph.PoolKind{1: graph.PoolMean, 2: graph.PoolCLS, 3: graph.PoolLast}

// hfPooling are the values of a pooling stage's pooling_mode.
var hfPooling = map[string]graph.PoolKind{"mean": graph.PoolMean, "cls": graph.PoolCLS, "lasttoken": graph.PoolLast}

// oldPooling are the flags that older files have in place of pooling_mode.
var oldPooling = []struct{ flag, mode string }{
	{"pooling_mode_cls_token", "cls"},
	{"pooling_mode_mean_tokens", "mean"},
	{"pooling_mode_lasttoken", "lasttoken"},
	{"pooling_mode_max_tokens", "max"},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
	{"pooling_mode_weightedmean_tokens", "weightedmean"},
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
		case kind != 0:
			r.unsupported("pooling_type", "%d, expected 0 (none), 1 (mean), 2 (cls) or 3 (last)", kind)
		}
	}
	for _, name := range []string{"dense_2.weight", "dense_3.weight", "cls.weight"} {
		if _, ok := r.gguf.Tensor(name); ok {
			r.keep(fmt.Errorf("%s: tensor %q: expected a model without layers after the pooling: %w", r.file, name, weights.ErrUnsupported))
		}
	}
}

// readSentence reads how a Hugging Face model makes embeddings: the stages of
// sentence-transformers where modules.json lists them.
func readSentence(c *Config, h *weights.HFDir) error {
	c.CanEmbed, c.Pooling = true, defaultPooling(c.Causal)
	for _, m := range h.Modules {
		switch m.Kind() {
		case "Transformer":
		case "Normalize":
			c.Normalize = true
		case "Pooling":
			if m.Config == nil {
				return fmt.Errorf("%s: expected the description of the pooling: %w", filepath.Join(h.Dir, m.Path, "config.json"), weights.ErrInvalid)
			}
			if err := readPooling(c, m.Config); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: module %s, expected Transformer, Pooling or Normalize: %w",
				filepath.Join(h.Dir, "modules.json"), m.Type, weights.ErrUnsupported)
		}
	}
	return readMaxSeq(c, h)
}

func readPooling(c *Config, p *weights.Config) error {
	r := hfFields(p)
	if !r.flag("include_prompt", true) {
		r.unsupported("include_prompt", "false, expected true")
	}
	key, mode := "pooling_mode", ""
	if r.has(key) {
		mode = r.text(key, "")
	} else {
		var on []string
		for _, o := range oldPooling {
			if r.flag(o.flag, false) {
				on, key = append(on, o.mode), o.flag
			}
		}
		mode = strings.Join(on, "+")
		if mode == "" {
			mode = "mean"
		}
	}
	kind, ok := hfPooling[mode]
	if !ok {
		r.unsupported(key, "pooling %q, expected mean, cls or lasttoken", mode)
	}
	c.Pooling = kind
	return r.failed()
}

// readMaxSeq lowers MaxSeq to where texts are cut. The tokenizer's own limit
// concerns encoders only: generators are often saved with one of some batch.
func readMaxSeq(c *Config, h *weights.HFDir) error {
	if h.SentenceBert != nil && h.SentenceBert.Has("max_seq_length") {
		n, err := h.SentenceBert.Int("max_seq_length")
		if err != nil {
			return err
		}
		c.MaxSeq = min(c.MaxSeq, n)
	}
	if h.TokenizerConfig != nil && !c.Causal {
		// A float, because "no limit" is written as 10^30.
		n, err := h.TokenizerConfig.FloatOr("model_max_length", 0)
		if err != nil {
			return err
		}
		if n >= 1 && n < float64(c.MaxSeq) {
			c.MaxSeq = int(n)
		}
	}
	return nil
}
