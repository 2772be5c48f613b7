package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// ErrCheckpoint reports a checkpoint that a run cannot go on from.
var ErrCheckpoint = errors.New("cannot resume")

// resumeFrom is the checkpoint to go on from, "" for a fresh run.
func resumeFrom(c *Config, resume string) (string, error) {
	steps, err := checkpoints(c.Out)
	if err != nil {
		return "", fmt.Errorf("field out: %w", err)
	}
	switch {
	case resume == "auto" && len(steps) > 0:
		return checkpointDir(c.Out, slices.Max(steps)), nil
	case resume == "auto":
		return "", nil
	case resume != "":
		return resume, nil
	case len(steps) > 0:
		return "", fmt.Errorf("field out: %s has a checkpoint of step %d: go on from it (--resume auto, TrainOptions.Resume) or choose another folder (-o, field out): %w", c.Out, slices.Max(steps), ErrConfig)
	}
	return "", nil
}

// state is an open stateFile.
type state struct {
	progress
	file  *safetensors.File
	unmap func() error
}

func (s *state) close() error { return s.unmap() }

func readState(dir string) (*state, error) {
	path := filepath.Join(dir, stateFile)
	data, unmap, err := weights.MapFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s, err := parseState(path, data)
	if err != nil {
		return nil, errors.Join(err, unmap())
	}
	s.unmap = unmap
	return s, nil
}

// parseState checks data, the bytes of a stateFile. path is for errors.
func parseState(path string, data []byte) (*state, error) {
	f, err := safetensors.Parse(path, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s := &state{file: f}
	text, _ := f.Metadata(stateKey)
	if err := json.Unmarshal([]byte(text), &s.progress); err != nil {
		return nil, fmt.Errorf("%s: metadata %q: expected the progress of a run: %v: %w", path, stateKey, err, ErrCheckpoint)
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("%s: format %d, expected %d: %w", path, s.Format, stateFormat, ErrCheckpoint)
	}
	if s.Step < 1 || s.At.Epoch < 0 || s.At.Next < 0 || s.SeqLen < 1 {
		return nil, fmt.Errorf("%s: step %d at epoch %d, piece %d, seq_len %d: expected positive numbers: %w", path, s.Step, s.At.Epoch, s.At.Next, s.SeqLen, ErrCheckpoint)
	}
	if s.Due != nil && s.Due.Step != s.Step {
		return nil, fmt.Errorf("%s: an evaluation after step %d, expected one after step %d: %w", path, s.Due.Step, s.Step, ErrCheckpoint)
	}
	return s, nil
}

// fits holds the state against the run that is to go on: with other data,
// pieces or order the position would mean something else.
func (s *state) fits(now progress, pieces int) error {
	then := s.Model
	if then == "" || sameShape(then, now.Model) { // checkpoints of before have none
		then = now.Model
	}
	lora := s.LoRA
	if lora == "" || sameLoRA(lora, now.LoRA) {
		lora = now.LoRA
	}
	for _, f := range []struct {
		name      string
		then, now any
	}{
		{"seed", s.Seed, now.Seed},
		{"seq_len", s.SeqLen, now.SeqLen},
		{"optimizer", cmp.Or(s.Optimizer, "adamw"), cmp.Or(now.Optimizer, "adamw")},
		{"data (its tokens' hash)", s.Data, now.Data},
		{"model", then, now.Model},
		{"objective", cmp.Or(s.Objective, now.Objective), now.Objective},
		{"lora", lora, now.LoRA},
	} {
		if f.then != f.now {
			return fmt.Errorf("%s: field %s: the checkpoint has %v, this run %v, expected the same: %w", s.file.Name(), f.name, f.then, f.now, ErrCheckpoint)
		}
	}
	if s.Best.Step > 0 && s.BestBy == "" { // of a version that knew the loss only
		s.BestBy, s.Best.Value = "loss", s.Best.Loss
	}
	if s.BestBy != "" && !slices.Contains(figureWords(), s.BestBy) {
		return fmt.Errorf("%s: best by %.*q, expected one of %v: %w", s.file.Name(), maxShown, s.BestBy, figureWords(), ErrCheckpoint)
	}
	if s.Best.Step > 0 && now.BestBy != "" && s.BestBy != now.BestBy {
		return fmt.Errorf("%s: field validation.best: the checkpoint has %s, this run %s, expected the same: %w", s.file.Name(), s.BestBy, now.BestBy, ErrCheckpoint)
	}
	if s.At.Next >= pieces {
		return fmt.Errorf("%s: piece %d of the data, expected one below %d: %w", s.file.Name(), s.At.Next, pieces, ErrCheckpoint)
	}
	return nil
}

// sameShape reports whether two texts of progress.Model describe the same model: sizes
// may be left to their defaults, and the folder of a tokenizer may have moved, because
// the checkpoint has the tokenizer.
func sameShape(then, now string) bool {
	var a, b Shape
	if json.Unmarshal([]byte(then), &a) != nil || json.Unmarshal([]byte(now), &b) != nil {
		return then == now
	}
	if a.Vocab == 0 || b.Vocab == 0 {
		a.Vocab, b.Vocab = 0, 0
	}
	for _, s := range []*Shape{&a, &b} {
		if *s = s.sized(); !slices.Contains(madeTokenizers, s.Tokenizer) {
			s.Tokenizer = ""
		}
	}
	return a == b
}

// sameLoRA reports whether two texts of progress.LoRA ask for the same adapters, with
// defaults left out or not.
func sameLoRA(then, now string) bool {
	var a, b LoRAConfig
	if json.Unmarshal([]byte(then), &a) != nil || json.Unmarshal([]byte(now), &b) != nil || a.validate() != nil {
		return false
	}
	x, y := a.options(), b.options()
	if x == nil || y == nil {
		return x == y
	}
	slices.Sort(x.Roles)
	slices.Sort(y.Roles)
	return x.Rank == y.Rank && x.Alpha == y.Alpha && slices.Equal(x.Roles, y.Roles)
}

// sameModel refuses to go on with the checkpoint's model m where the field model
// names another. Files that are gone say nothing: the checkpoint is enough.
func (t *Trainer) sameModel(m *model.Model, from string) error {
	if t.cfg.Model == "" {
		return nil
	}
	st, err := weights.Open(t.cfg.Model)
	if err != nil {
		return nil
	}
	defer st.Close()
	other, err := model.Open(st)
	if err != nil {
		return nil
	}
	of := func(m *model.Model) string {
		c := m.Config()
		return fmt.Sprintf("%s of %d layers of %d, %d tokens", c.Arch, c.Layers, c.Dim, c.Vocab)
	}
	if then, now := of(m), of(other); then != now {
		return fmt.Errorf("%s: field model: the checkpoint has a %s, %s a %s, expected the same: %w", from, then, t.cfg.Model, now, ErrCheckpoint)
	}
	return nil
}

// digest takes the digests of files that no checkpoint has a copy of: the model that
// adapters are beside, objective.beside, and the validation data. It refuses to go on
// from st, nil for a fresh run, with other contents. Paths may change, and a run may
// go on without validation data.
func (t *Trainer) digest(ctx context.Context, st *state, from string) error {
	_, end := profile.Scope(ctx, "digest files")
	defer end()
	field, digest, err := t.obj.beside(ctx)
	if err != nil {
		return err
	}
	t.digests = map[string]string{}
	if field != "" {
		t.digests[field] = digest
	}
	if t.cfg.LoRA.Rank > 0 {
		if t.digests["model"], err = t.store.Digest(ctx); err != nil {
			return err
		}
	}
	const held = "validation.data"
	if t.held != nil {
		t.digests[held] = t.held.Fingerprint()
	}
	if st == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(st.Files)) {
		if st.Files[name] != t.digests[name] && (name != held || t.held != nil) {
			return fmt.Errorf("%s: field %s: its files have other contents than those that the checkpoint was trained with, expected the same: %w", from, name, ErrCheckpoint)
		}
	}
	if old := st.Files[held]; t.held == nil && old != "" {
		t.digests[held] = old // the best evaluation is of these data, also in later checkpoints
	}
	return nil
}

// noneAfter refuses a folder with checkpoints of later steps: they would be
// taken for this run's, and this run's be pruned for them.
func noneAfter(out string, step int) error {
	steps, err := checkpoints(out)
	if err == nil && len(steps) > 0 && slices.Max(steps) > step {
		err = fmt.Errorf("field out: %s has a checkpoint of step %d, later than the one of step %d to resume from: remove it, or choose another folder: %w",
			out, slices.Max(steps), step, ErrConfig)
	}
	return err
}

// moments are what a stateFile has, by name: the optimizer's state, and weights
// that the model's files have no place for.
func (r *runner) moments() iter.Seq2[string, *graph.Value] {
	return func(yield func(string, *graph.Value) bool) {
		for _, p := range r.parts.Params {
			if !yield("m."+p.Key, p.M) || p.V != nil && !yield("v."+p.Key, p.V) || p.Fresh && !yield("w."+p.Key, p.Value) {
				return
			}
		}
	}
}

// restore loads the optimizer's moments; the weights came with the model.
func (r *runner) restore(s *state) error {
	room := r.room()
	for name, v := range r.moments() {
		f := room[:v.Shape.Len(tensor.Bind{})]
		d, data, err := s.file.Data(name)
		if err == nil {
			err = tensor.Dequantize(f, d, data)
		}
		if err != nil {
			return fmt.Errorf("%s: tensor %q: %w: %w", s.file.Name(), name, err, ErrCheckpoint)
		}
		if err := r.sess.WriteState(v, f); err != nil {
			return err
		}
	}
	return nil
}
