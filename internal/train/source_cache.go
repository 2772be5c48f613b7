package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/internal/calib"
	"hotpath/internal/dataset"
	"hotpath/internal/lockfile"
	"hotpath/internal/model"
	"hotpath/internal/weights"
)

// The cache has a folder per data and tokenizer: shards of tokens, and an index
// that is written last. It is made under a hidden name and renamed, so that a
// folder of that name is always whole.
const (
	cacheFormat = 1
	indexFile   = "index.json"
)

// memoryData is how many bytes of files are tokenized in memory at each start;
// tests change it.
var memoryData int64 = 64 << 20

// cacheDir is the folder of token shards: below HOTPATH_CACHE, or hotpath's
// folder of the user's cache.
func cacheDir() (string, error) {
	dir, err := calib.Dir()
	return filepath.Join(filepath.Dir(dir), "tokens"), err
}

// shardIndex is the index file of a folder of shards.
type shardIndex struct {
	Format int    `json:"format"`
	Kind   string `json:"kind"`
	Shards int    `json:"shards"`
	Data   string `json:"data_sha256"` // fingerprint
}

// key names the folder of data: files are told apart by path, size and time,
// because reading all of them would take as long as tokenizing.
func (s *sourceSpec) key(files []dataset.File) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	length := 0 // documents are kept whole
	if s.kind != Text {
		length = s.most()
	}
	tok, err := s.tokPrint()
	if err != nil {
		return "", err
	}
	if err := e.Encode([]any{cacheFormat, tok, s.vocab, s.kind, s.truncate, length, s.labels}); err != nil {
		return "", err
	}
	for _, f := range files {
		path, err := filepath.Abs(f.Path)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(f.Path)
		if err != nil {
			return "", err
		}
		if err := e.Encode([]any{path, info.Size(), info.ModTime().UnixNano()}); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

// tokenizerPrint is a fingerprint of a model's tokenizer: of its files, and of the
// architecture, because some architectures change it. config.json does not count,
// because a checkpoint has another one with the same tokenizer.
func tokenizerPrint(m *model.Model) (string, error) {
	h, st := sha256.New(), m.Store()
	fmt.Fprintln(h, m.Config().Arch)
	if f := st.GGUF(); f != nil {
		for _, key := range f.Keys() {
			if strings.HasPrefix(key, "tokenizer.") {
				v, _ := f.Value(key)
				fmt.Fprintf(h, "%q=%v\n", key, v)
			}
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	for _, name := range []string{
		"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "sentence_bert_config.json",
		"chat_template.jinja", "chat_template.json", "generation_config.json",
	} {
		data, err := st.HF().Read(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s\n", name, len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func shardName(i int) string { return fmt.Sprintf("shard-%05d.tokens", i) }

// cachedSource maps the shards of the data, and makes them first where they are
// missing. Another process that makes them is waited for.
func cachedSource(ctx context.Context, spec *sourceSpec, files []dataset.File, form *recordForm) (_ *fileSource, err error) {
	key, err := spec.key(files)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(spec.cache, key)
	if err := os.MkdirAll(spec.cache, 0o777); err != nil {
		return nil, err
	}
	lock, err := lockfile.Wait(ctx, filepath.Join(spec.cache, key+".lock"), lockfile.Acquire, func(*lockfile.HeldError) {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if _, err := os.Stat(filepath.Join(dir, indexFile)); errors.Is(err, os.ErrNotExist) {
		if err := makeShards(ctx, spec, files, form, dir); err != nil {
			return nil, err
		}
	} else if err == nil && spec.progress != nil {
		spec.progress(totalSize(files), totalSize(files))
	}
	return mapShards(spec, dir)
}

// makeShards tokenizes files into a folder.
func makeShards(ctx context.Context, spec *sourceSpec, files []dataset.File, form *recordForm, dir string) (err error) {
	temp := filepath.Join(filepath.Dir(dir), tempPrefix+filepath.Base(dir))
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o777)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	index := shardIndex{Format: cacheFormat, Kind: spec.kind.String()}
	b := newBuilder(spec)
	b.limit = cmp.Or(spec.shard, shardBytes)
	b.full = func(s *shard) error {
		name := filepath.Join(temp, shardName(index.Shards))
		index.Shards++
		return atomicfile.Write(name, func(w io.Writer) error { return s.write(w) })
	}
	if err := b.build(ctx, files, form); err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return err
	}
	index.Data = b.fingerprint()
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(filepath.Join(temp, indexFile), text); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(temp, dir)); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}

// mapShards opens a folder of shards.
func mapShards(spec *sourceSpec, dir string) (_ *fileSource, err error) {
	var unmaps []func() error
	closeAll := func() error {
		var errs []error
		for _, unmap := range unmaps {
			errs = append(errs, unmap())
		}
		unmaps = nil
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	path := filepath.Join(dir, indexFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var index shardIndex
	if err := json.Unmarshal(text, &index); err != nil || index.Format != cacheFormat || index.Kind != spec.kind.String() || index.Shards < 1 {
		return nil, fmt.Errorf("%s: expected an index of tokens: remove the folder, the next run creates it again: %w", path, ErrData)
	}
	var shards []*shard
	for i := range index.Shards {
		path := filepath.Join(dir, shardName(i))
		data, unmap, err := weights.MapFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: remove the folder, the next run creates it again", err)
		}
		unmaps = append(unmaps, unmap)
		s, err := parseShard(path, data)
		if err == nil && !s.suits(spec.kind) {
			err = fmt.Errorf("%s: expected examples of kind %s: remove the folder, the next run creates it again: %w", path, spec.kind, ErrData)
		}
		if err != nil {
			return nil, err
		}
		shards = append(shards, s)
	}
	src := newFileSource(spec, shards, index.Data)
	src.mapped, src.close = true, closeAll
	return src, nil
}
