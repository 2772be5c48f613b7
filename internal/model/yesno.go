package model

import (
	"fmt"
	"path/filepath"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Decoders that judge a pair by answering yes or no, Qwen3-Reranker above all:
// the score is how much likelier yes is than no as the next token.

// yesNo is the canonical key of the row of the head for yes less that for no.
const yesNo = "yes_no"

// The words around a pair that Qwen3-Reranker was trained with.
const (
	askBefore = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
	askPair  = "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: %s\n<Document>: %s"
	askAfter = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)

// askMost is where the model's card cuts a pair with its words.
const askMost = 8192

// asksHF: sentence-transformers' files name the two tokens; the original ones
// say nothing, but the model is called a reranker.
func (m *Model) asksHF(h *weights.HFDir) error {
	yes, no := -1, -1
	for _, module := range h.Modules {
		if module.Kind() != "LogitScore" {
			continue
		}
		if module.Config == nil {
			return fmt.Errorf("%s: expected the description of the scores: %w", filepath.Join(h.Dir, module.Path, "config.json"), weights.ErrInvalid)
		}
		var err error
		if yes, err = module.Config.ID("true_token_id"); err != nil {
			return err
		}
		if module.Config.Has("false_token_id") {
			if no, err = module.Config.ID("false_token_id"); err != nil {
				return err
			}
		}
	}
	if yes < 0 {
		if !m.cfg.CanGenerate || m.cfg.Arch != "qwen3" || !strings.Contains(strings.ToLower(m.cfg.Name), "rerank") {
			return nil
		}
		tok, err := m.Tokenizer()
		if err != nil {
			return err
		}
		a, ok := tok.ID("yes")
		b, also := tok.ID("no")
		if !ok || !also {
			return nil // it is no reranker of this kind, whatever its name
		}
		yes, no = int(a), int(b)
	}
	if !m.cfg.CanGenerate {
		return fmt.Errorf("%s: module LogitScore: expected a model that generates: %w", filepath.Join(h.Dir, "modules.json"), weights.ErrUnsupported)
	}
	tied, err := h.Config.BoolOr("tie_word_embeddings", false)
	if err != nil {
		return err
	}
	head := m.place("output.weight")
	if tied || !m.store.Has(head.name) {
		head = m.place("token_embd.weight")
	}
	m.answers(head.name, yes, no)
	return nil
}

// asksGGUF: the file has the head's rows for yes and no.
func (m *Model) asksGGUF() error {
	f := m.store.GGUF()
	arch, _ := f.String("general.architecture")
	labels, ok := f.Strings(arch + ".classifier.output_labels")
	if !ok || len(labels) != 2 || labels[0] != "yes" || labels[1] != "no" {
		return nil // an ordinary classifier
	}
	m.answers(answersTensor, 0, 1)
	return nil
}

// answersTensor has a copy of the head's rows for yes and no in GGUF files.
const answersTensor = "cls.output.weight"

func (m *Model) storesAnswers(name string) bool {
	return m.cfg.scorer.asked && m.store.GGUF() != nil && name == answersTensor
}

// answerRows is t, the answersTensor, with the rows of a head that value has new
// elements of. The tokenizer tells which rows these are.
func (m *Model) answerRows(t weights.Tensor, value func(key string) ([]float32, error)) (weights.Tensor, error) {
	tok, err := m.Tokenizer()
	if err != nil {
		return t, err
	}
	var ids [2]int32
	for i, word := range []string{"yes", "no"} {
		id, ok := tok.ID(word)
		if !ok {
			return t, m.fault(t.Name, "a row of the head for %q, expected a token of that name", word)
		}
		if int(id) >= m.cfg.Vocab { // a tokenizer may have more tokens than the head has rows
			return t, m.fault(t.Name, "token %q has id %d, expected a row of the head, which has %d", word, id, m.cfg.Vocab)
		}
		ids[i] = id
	}
	head, err := value(m.headKey())
	if head == nil || err != nil {
		return t, err
	}
	var rows []float32
	for _, id := range ids {
		n := m.cfg.Dim
		rows = append(rows, head[int(id)*n:(int(id)+1)*n]...)
	}
	t.DType, t.Data = tensor.F32, tensor.Bytes(rows)
	return t, nil
}

// answers makes the model one that is asked; rows yes and no of a matrix
// stand for the two answers, no being absent where it is negative.
func (m *Model) answers(matrix string, yes, no int) {
	c := m.cfg
	m.places[yesNo+".weight"] = place{name: matrix, how: transform{derive: rowDifference{yes, no}}}
	c.CanRerank = true
	c.scorer = scorer{key: yesNo, asked: true, act: graph.Sigmoid, acted: true}
}

// rowDifference is one row of a matrix less another.
type rowDifference struct{ plus, minus int }

func (d rowDifference) dims(of []int) ([]int, error) {
	if len(of) != 2 || d.plus >= of[0] || d.minus >= of[0] {
		return nil, fmt.Errorf("dimensions %v, expected rows %d and %d", of, d.plus, d.minus)
	}
	return []int{1, of[1]}, nil
}

func (d rowDifference) derive(t weights.Tensor) ([]float32, error) {
	row := func(i int) ([]float32, error) {
		r, err := t.Rows(i, i+1)
		if err != nil {
			return nil, err
		}
		return r.F32()
	}
	a, err := row(d.plus)
	if err != nil || d.minus < 0 {
		return a, err
	}
	b, err := row(d.minus)
	if err != nil {
		return nil, err
	}
	for i, v := range b {
		a[i] -= v
	}
	return a, nil
}
