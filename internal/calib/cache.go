package calib

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"hotpath/internal/atomicfile"
	"hotpath/internal/kernel/isa"
)

// version changes with what is measured and how. Files of other versions are ignored.
const version = 2

// Off is the value of the environment variable Env that selects built-in figures.
const (
	Env = "HOTPATH_CALIBRATION"
	Off = "off"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 16

// Key identifies the machine and settings that figures are valid for.
type Key struct {
	Version int    `json:"version"`
	CPU     string `json:"cpu"`
	Tier    string `json:"tier"`
	Cores   int    `json:"cores"`      // that the process may use: affinity and cgroup limit
	Procs   int    `json:"gomaxprocs"` // that Go runs on at once
	Workers int    `json:"workers"`
}

// KeyOf is the key of this process with a number of workers.
func KeyOf(workers int) Key {
	h := isa.Host()
	return Key{Version: version, CPU: h.Brand, Tier: isa.Active().String(), Cores: h.Cores, Procs: runtime.GOMAXPROCS(0), Workers: workers}
}

// Parallel is the largest number of workers that run at the same time.
func (k Key) Parallel() int { return max(1, min(k.Cores, k.Procs, k.Workers)) }

// entry is the content of a file.
type entry[K comparable, V any] struct {
	Key   K `json:"key"`
	Costs V `json:"costs"`
}

// Dir is the folder of the files: below HOTPATH_CACHE, or hotpath's folder in the
// user's cache.
func Dir() (string, error) {
	if dir := os.Getenv("HOTPATH_CACHE"); dir != "" {
		return filepath.Join(dir, "calibration"), nil
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "hotpath", "calibration"), nil
}

// fileOf is the path of a key's file. Machines that share a home have different
// files.
func fileOf(dir, kind string, key any) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", key)
	return filepath.Join(dir, kind+"-"+hex.EncodeToString(h.Sum(nil))+".json")
}

func (k Key) file(dir string) string { return fileOf(dir, "threads", k) }

// Load reads the figures for a key. The error says why there are none; a missing
// file is fs.ErrNotExist.
func Load(dir string, k Key) (Costs, error) { return load(k.file(dir), k, decode) }

// load reads a file of a bounded size. It checks the file's kind before it opens
// it, because opening a pipe would block.
func load[K, V any](file string, k K, decode func([]byte, K) (V, error)) (v V, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return v, err
	}
	if !info.Mode().IsRegular() {
		return v, fmt.Errorf("%s: expected a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return v, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return v, err
	}
	if v, err = decode(data, k); err != nil {
		return v, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// parse reads an entry and compares its key.
func parse[K comparable, V any](data []byte, k K) (v V, err error) {
	if len(data) > maxFile {
		return v, fmt.Errorf("more than %d bytes, expected a few hundred", maxFile)
	}
	var e entry[K, V]
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return v, err
	}
	if _, err := d.Token(); err != io.EOF {
		return v, fmt.Errorf("more data after the entry, at byte %d", d.InputOffset())
	}
	if e.Key != k {
		return v, fmt.Errorf("figures of %+v, expected %+v", e.Key, k)
	}
	return e.Costs, nil
}

func decode(data []byte, k Key) (Costs, error) {
	c, err := parse[Key, Costs](data, k)
	if err != nil {
		return Costs{}, err
	}
	if c.Workers != k.Workers || c.Cores != k.Parallel() {
		return Costs{}, fmt.Errorf("figures of %d workers on %d cores, expected %d on %d", c.Workers, c.Cores, k.Workers, k.Parallel())
	}
	return c, c.check()
}

// Store writes the figures for a key.
func Store(dir string, k Key, c Costs) error {
	return store(dir, k.file(dir), entry[Key, Costs]{k, c})
}

// store writes a file atomically.
func store(dir, file string, entry any) error {
	data, err := json.MarshalIndent(entry, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Replace(file, append(data, '\n'))
}

// Cached are the figures of this machine for a number of workers: the measured ones
// from the cache, or Default. It never measures.
func Cached(workers int) Costs {
	k := KeyOf(workers)
	if dir, err := Dir(); err == nil && os.Getenv(Env) != Off {
		if c, err := Load(dir, k); err == nil {
			return c
		}
	}
	return Default(workers, k.Parallel())
}
