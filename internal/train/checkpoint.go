package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/internal/format/gguf"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// A checkpoint is a folder step-NNNNNNNN of the run's: the model as its own
// files lay it out (model.safetensors with config and tokenizer, or
// model.gguf), in F32, stateFile and configFile. It is written under a hidden name,
// synced and renamed, so that a folder of that name is always whole.
const (
	stateFile   = "train_state.safetensors"
	stateKey    = "hotpath_train" // of the file's metadata: progress as JSON
	stateFormat = 1
	configFile  = "train.json" // the configuration of the run, in full
	stepPrefix  = "step-"
	tempPrefix  = ".tmp-"
	fromFiles   = "files of its own" // progress.Model of a model that was not described
)

// progress is how far a run has come, and what its data were.
type progress struct {
	Format    int      `json:"format"`
	Step      int      `json:"step"`
	At        Position `json:"position"`
	Seed      uint64   `json:"seed"`
	SeqLen    int      `json:"seq_len"`
	Data      string   `json:"data_sha256"`
	Optimizer string   `json:"optimizer"`
	Norms     norms    `json:"norms"`
	Best      best     `json:"best"`
	BestBy    string   `json:"best_by"`       // the field validation.best; "": no evaluations
	Due       *Step    `json:"due,omitempty"` // the last step, where its evaluation was left out
	// What is trained, as the configuration has it: a model and adapters of other
	// shapes would be ignored, because the checkpoint has its own.
	Model     string `json:"model"` // a shape as JSON, or fromFiles
	Objective string `json:"objective"`
	LoRA      string `json:"lora"` // as JSON
	// Files are digests of what the checkpoint has no copy of, by the field that names
	// the files. Checkpoints of earlier versions have none.
	Files map[string]string `json:"files,omitempty"`
}

// companions are the files of a Hugging Face directory that a model needs
// beside its weights.
var companions = []string{
	"generation_config.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model",
	"chat_template.jinja", "chat_template.json",
}

// checkpoints lists the steps that a folder has checkpoints of, rising.
func checkpoints(out string) ([]int, error) {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var steps []int
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), stepPrefix)
		if n, err := strconv.Atoi(text); ok && err == nil && n > 0 && e.IsDir() {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

func checkpointDir(out string, step int) string {
	return filepath.Join(out, fmt.Sprintf("%s%08d", stepPrefix, step))
}

// save writes a checkpoint and returns its folder.
func (r *runner) save(out string, p progress, c *Config) (string, error) {
	dir := checkpointDir(out, p.Step)
	temp := filepath.Join(out, tempPrefix+filepath.Base(dir))
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o777)); err != nil {
		return "", err
	}
	err := r.writeModel(temp)
	debug.FreeOSMemory() // copies of tensors, which would stand beside those of the moments
	if err == nil {
		err = writeConfig(filepath.Join(temp, configFile), c)
	}
	if err == nil {
		err = r.writeState(filepath.Join(temp, stateFile), p)
	}
	if err == nil {
		err = atomicfile.SyncDir(temp)
	}
	if err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) { // named as it would have been called
			if rel, relErr := filepath.Rel(temp, at.Path); relErr == nil && filepath.IsLocal(rel) {
				err = atomicfile.Named(filepath.Join(dir, rel), err)
			}
		}
		return "", errors.Join(fmt.Errorf("checkpoint: %w", err), os.RemoveAll(temp))
	}
	return dir, atomicfile.SyncDir(out)
}

// prune leaves the newest checkpoints and the best one. One that goes is
// renamed first, so that no half of it keeps the name.
func prune(out string, keep, best int) error {
	steps, err := checkpoints(out)
	if err != nil || keep == 0 || len(steps) <= keep {
		return err
	}
	for _, step := range steps[:len(steps)-keep] {
		if step == best {
			continue
		}
		dir := checkpointDir(out, step)
		temp := filepath.Join(out, tempPrefix+filepath.Base(dir))
		if err := errors.Join(os.Rename(dir, temp), os.RemoveAll(temp)); err != nil {
			return err
		}
	}
	return nil
}

// writeModel writes the weights with what the model needs beside them.
func (r *runner) writeModel(dir string) error {
	value, st := r.values(), r.model.Store()
	if st.Format() == weights.GGUF {
		return writeGGUF(filepath.Join(dir, weights.GGUFFile), r.model, r.embeds, func(emit func(weights.Tensor) error) error { return r.export(value, emit) })
	}
	// Of a sentence-transformers model the decoder may have a folder of its own.
	inner, err := filepath.Rel(st.Path(), st.HF().Dir)
	if err != nil {
		return err
	}
	if err := errors.Join(writeStages(dir, st), r.writeTrainedStages(dir, value)); err != nil {
		return err
	}
	if r.embeds && len(st.HF().Modules) == 0 {
		if err := writePooling(dir, r.model.Config()); err != nil {
			return err
		}
	}
	dir = filepath.Join(dir, inner)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	w := &safetensors.Writer{Metadata: map[string]string{"format": "pt"}}
	err = writeStreamed(filepath.Join(dir, "model.safetensors"), w, func(emit func(weights.Tensor) error) error {
		return r.export(value, emit)
	})
	if err != nil {
		return err
	}
	return writeCompanions(dir, st.HF(), r.parts.FreshLabels())
}

// canSave reports a model whose files have a tensor that no checkpoint can
// have, before training and not after it.
func canSave(m *model.Model) error {
	asItIs := func(string) ([]float32, error) { return nil, nil }
	if err := m.Export(asItIs, func(weights.Tensor) error { return nil }); err != nil {
		return fmt.Errorf("field model: no checkpoint can be written: %w", err)
	}
	return nil
}

// export gives every tensor of the model as it is now.
func (r *runner) export(value func(string) ([]float32, error), emit func(weights.Tensor) error) error {
	if err := r.model.Export(value, emit); err != nil {
		return err
	}
	return r.model.ExportFresh(r.parts, value, emit)
}

// values reads parameters by key; what it gives lasts until the next call.
func (r *runner) values() func(key string) ([]float32, error) {
	params, read := map[string]model.Param{}, r.reader()
	for _, p := range r.parts.Params {
		params[p.Key] = p
	}
	adapters := map[string]model.Adapter{}
	for _, d := range r.parts.Adapters {
		adapters[d.Key] = d
	}
	return func(key string) ([]float32, error) {
		if d, ok := adapters[key]; ok {
			return r.merged(d)
		}
		p, ok := params[key]
		if !ok {
			return nil, nil
		}
		return read(p.Value)
	}
}

// notCopied are keys of a GGUF file that say how its tensors were stored.
var notCopied = []string{"general.alignment", "general.file_type", "general.quantization_version"}

func writeGGUF(path string, m *model.Model, embeds bool, export func(emit func(weights.Tensor) error) error) error {
	w, source := &gguf.Writer{}, m.Store().GGUF()
	for _, key := range source.Keys() {
		v, _ := source.Value(key)
		// A file of one part, with the default alignment, that is not quantized.
		if strings.HasPrefix(key, "split.") || strings.HasPrefix(key, "quantize.") || slices.Contains(notCopied, key) {
			continue
		}
		if err := w.SetValue(key, v); err != nil {
			return err
		}
	}
	if err := w.Set("general.file_type", uint32(0)); err != nil { // all F32
		return err
	}
	if embeds {
		if err := setPooling(w, m); err != nil {
			return err
		}
	}
	// Tensors pass twice, for their descriptions and for their data, so that no
	// more than one of them is in memory at a time.
	var failed error
	next, stop := iter.Pull(func(yield func(weights.Tensor) bool) {
		failed = export(func(t weights.Tensor) error {
			if !yield(t) {
				return io.ErrClosedPipe
			}
			return nil
		})
	})
	defer stop()
	err := export(func(t weights.Tensor) error {
		name := t.Name
		return w.AddStream(name, t.DType, t.Dims, func(out io.Writer) error {
			now, ok := next()
			if !ok || now.Name != name {
				return fmt.Errorf("tensor %q: expected it next: %w", name, errors.Join(failed, io.ErrUnexpectedEOF))
			}
			_, err := out.Write(now.Data)
			return err
		})
	})
	if err != nil {
		return err
	}
	return writeSynced(path, w)
}

// writeTrainedStages writes the weights of stages behind the pooling that were
// trained, in place of their copies.
func (r *runner) writeTrainedStages(dir string, value func(string) ([]float32, error)) error {
	st := r.model.Store()
	for i, m := range st.HF().Modules {
		prefix := m.Path + "/"
		trained := func(p model.Param) bool { return !p.Fresh && strings.HasPrefix(p.Key, prefix) }
		if i == 0 || !slices.ContainsFunc(r.parts.Params, trained) {
			continue
		}
		w := &safetensors.Writer{Metadata: map[string]string{"format": "pt"}}
		err := writeStreamed(filepath.Join(dir, m.Path, "model.safetensors"), w, func(emit func(weights.Tensor) error) error {
			for _, name := range st.Names() {
				if !strings.HasPrefix(name, prefix) {
					continue
				}
				t, err := st.Get(name)
				if err != nil {
					return err
				}
				if t, err = r.model.Replaced(t, name, value); err != nil {
					return err
				}
				t.Name = strings.TrimPrefix(name, prefix)
				if err := emit(t); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeStages copies what a sentence-transformers model has besides its
// encoder or decoder: pooling, prompts and further stages.
func writeStages(dir string, st *weights.Store) error {
	if len(st.HF().Modules) == 0 {
		return nil
	}
	files := []string{"modules.json", "config_sentence_transformers.json"}
	for _, m := range st.HF().Modules[1:] {
		files = append(files, filepath.Join(m.Path, "config.json"), filepath.Join(m.Path, "model.safetensors"))
	}
	for _, name := range files {
		f, err := os.Open(filepath.Join(st.Path(), name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err = os.MkdirAll(filepath.Dir(to), 0o777); err == nil {
			err = writeSynced(to, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// writeCompanions copies configuration and tokenizer; labels is the number of
// scores of a classifier that the model had not.
func writeCompanions(dir string, h *weights.HFDir, labels int) error {
	config, err := h.Read("config.json")
	if err == nil {
		config, err = inF32(config)
	}
	if err == nil && labels > 0 {
		config, err = classifying(config, labels)
	}
	if err == nil {
		err = writeSynced(filepath.Join(dir, "config.json"), bytes.NewReader(config))
	}
	for _, name := range companions {
		data, readErr := h.Read(name)
		if err = errors.Join(err, readErr); err != nil {
			return err
		}
		if data == nil {
			continue
		}
		err = writeSynced(filepath.Join(dir, name), bytes.NewReader(data))
	}
	return err
}

// inF32 is a config.json that says what the weights are in now.
func inF32(config []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	same := true
	for _, name := range []string{"dtype", "torch_dtype"} {
		if old, ok := fields[name]; ok && old != "float32" {
			fields[name], same = "float32", false
		}
	}
	if same {
		return config, nil
	}
	return json.MarshalIndent(fields, "", "  ")
}

// writeConfig writes the configuration, for people and for a run that begins
// with the same.
func writeConfig(path string, c *Config) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(path, bytes.NewReader(append(text, '\n')))
}

// classifying is a config.json of a model that has a classifier now.
func classifying(config []byte, labels int) ([]byte, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	class := "Model"
	if list, ok := fields["architectures"].([]any); ok && len(list) > 0 {
		class, _ = list[0].(string)
	}
	class, _, _ = strings.Cut(strings.TrimSuffix(class, "Model"), "For")
	fields["architectures"] = []string{class + "ForSequenceClassification"}
	names, ids := map[string]string{}, map[string]int{}
	for i := range labels {
		name := fmt.Sprintf("LABEL_%d", i)
		names[strconv.Itoa(i)], ids[name] = name, i
	}
	fields["id2label"], fields["label2id"] = names, ids
	return json.MarshalIndent(fields, "", "  ")
}

// writeState writes the optimizer's moments and the progress.
func (r *runner) writeState(path string, p progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w := &safetensors.Writer{Metadata: map[string]string{stateKey: string(text)}}
	read := r.reader()
	return writeStreamed(path, w, func(emit func(weights.Tensor) error) error {
		for name, v := range r.moments() {
			f, err := read(v)
			if err != nil {
				return err
			}
			if err := emit(weights.Tensor{Name: name, DType: tensor.F32, Dims: []int{len(f)}, Data: tensor.Bytes(f)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeStreamed writes a file of which no more than one tensor is in memory at
// a time: all of them pass twice, for their places and for their data.
func writeStreamed(path string, w *safetensors.Writer, each func(emit func(weights.Tensor) error) error) error {
	if err := each(func(t weights.Tensor) error { return w.Reserve(t.Name, t.DType, t.Dims) }); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	s, err := w.Stream(f)
	if err == nil {
		err = each(func(t weights.Tensor) error { return s.Put(t.Name, t.Data) })
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// writeSynced writes a file and waits until it is on the disk.
func writeSynced(path string, from io.WriterTo) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = from.WriteTo(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
