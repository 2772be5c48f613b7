package calib

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"hotpath/internal/kernel/cpu"
)

// version is of what is measured and how: figures of another one are not read.
const version = 1

// Off is what the environment variable Env says to use built-in figures
// whatever was measured.
const (
	Env = "HOTPATH_CALIBRATION"
	Off = "off"
)

// maxFile bounds what is read of a file.
const maxFile = 1 << 16

// Key is what figures are valid for.
type Key struct {
	Version int    `json:"version"`
	CPU     string `json:"cpu"`
	Tier    string `json:"tier"`
	Cores   int    `json:"cores"`      // that the process may use: affinity and cgroup limit
	Procs   int    `json:"gomaxprocs"` // that Go runs on at once
	Workers int    `json:"workers"`
}

// KeyOf is this process's with a number of workers.
func KeyOf(workers int) Key {
	h := cpu.Host()
	return Key{Version: version, CPU: h.Brand, Tier: cpu.Active().String(), Cores: h.Cores, Procs: runtime.GOMAXPROCS(0), Workers: workers}
}

// Parallel is how many workers run at the same time, at most.
func (k Key) Parallel() int { return max(1, min(k.Cores, k.Procs, k.Workers)) }

// entry is the file.
type entry struct {
	Key   Key   `json:"key"`
	Costs Costs `json:"costs"`
}

// Dir is the folder of such files: below HOTPATH_CACHE, or hotpath's folder
// of the user's cache.
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

// file is where a key's figures lie: machines that share a home keep apart.
func (k Key) file(dir string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", k)
	return filepath.Join(dir, "threads-"+hex.EncodeToString(h.Sum(nil))+".json")
}

// Load reads the figures for a key. An error says why there are none to use;
// a file that is not there is fs.ErrNotExist.
func Load(dir string, k Key) (Costs, error) {
	f, err := os.Open(k.file(dir))
	if err != nil {
		return Costs{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Costs{}, err
	}
	c, err := decode(data, k)
	if err != nil {
		return Costs{}, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return c, nil
}

func decode(data []byte, k Key) (Costs, error) {
	if len(data) > maxFile {
		return Costs{}, fmt.Errorf("more than %d bytes, expected a few hundred", maxFile)
	}
	var e entry
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Costs{}, err
	}
	if e.Key != k {
		return Costs{}, fmt.Errorf("figures of %+v, expected %+v", e.Key, k)
	}
	if e.Costs.Workers != k.Workers || e.Costs.Cores != k.Parallel() {
		return Costs{}, fmt.Errorf("figures of %d workers on %d cores, expected %d on %d", e.Costs.Workers, e.Costs.Cores, k.Workers, k.Parallel())
	}
	return e.Costs, e.Costs.check()
}

// Store writes the figures for a key: whole or not at all, and after another
// process's file rather than into it.
func Store(dir string, k Key, c Costs) (err error) {
	data, err := json.MarshalIndent(entry{k, c}, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "threads-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), k.file(dir))
}

// Cached are the figures of this machine with a number of workers: those that
// were measured and kept, or Default. It never measures.
func Cached(workers int) Costs {
	k := KeyOf(workers)
	if dir, err := Dir(); err == nil && os.Getenv(Env) != Off {
		if c, err := Load(dir, k); err == nil {
			return c
		}
	}
	return Default(workers, k.Parallel())
}
