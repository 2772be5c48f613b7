package calib

import (
	"fmt"
	"io/fs"
	"math"
	"os"

	"hotpath/internal/kernel/isa"
)

// FileKey identifies the model and machine that a precision was measured for.
type FileKey struct {
	Version int    `json:"version"`
	Model   string `json:"model"` // its name, as people know it
	Bytes   int64  `json:"bytes"`
	Hash    string `json:"hash"` // of names, types, shapes and some of the weights
	CPU     string `json:"cpu"`
	Tier    string `json:"tier"`
}

// NewFileKey is the key of a model on this machine.
func NewFileKey(model string, bytes int64, hash string) FileKey {
	return FileKey{version, model, bytes, hash, isa.Host().Brand, isa.Active().String()}
}

// Class tells how one compute class changes a model's vectors.
type Class struct {
	Name  string  `json:"class"`
	Mean  float64 `json:"cosine_mean"` // of its vectors and those of f32
	Worst float64 `json:"cosine_worst"`
	Speed float64 `json:"speed"` // against the default class: 2 is twice as fast
}

// Bounds for auto: it takes another class only if its vectors have at least this
// cosine with those of f32 for every text, and if it is at least this much faster.
// Tests hold the default class to the same cosine.
const (
	LeastCosine = 0.9995
	LeastSpeed  = 1.1
)

// Fit reports whether auto may take the class, or the reason why not.
func (c Class) Fit() (bool, string) {
	switch {
	case c.Worst < LeastCosine:
		return false, fmt.Sprintf("a cosine below %g", LeastCosine)
	case c.Speed < LeastSpeed:
		return false, fmt.Sprintf("less than %g times as fast", LeastSpeed)
	}
	return true, ""
}

// Precision is what was measured of a model.
type Precision struct {
	Texts   int     `json:"texts"`
	Default Class   `json:"default"` // Speed is against f32
	Others  []Class `json:"others,omitempty"`
}

// Choose is the class that auto takes instead of the default: the fastest of
// those that fit, "" for none.
func (p Precision) Choose() string {
	name, speed := "", 0.0
	for _, c := range p.Others {
		if ok, _ := c.Fit(); ok && c.Speed > speed {
			name, speed = c.Name, c.Speed
		}
	}
	return name
}

func (p Precision) check() error {
	if p.Texts < 1 || p.Texts > 1<<20 || len(p.Others) > 16 {
		return fmt.Errorf("%d texts and %d classes, expected 1 to 1048576 texts and at most 16 classes", p.Texts, len(p.Others))
	}
	for _, c := range append([]Class{p.Default}, p.Others...) {
		sane := c.Name != "" && len(c.Name) <= 16 && math.Abs(c.Mean) <= 1.000001 && math.Abs(c.Worst) <= 1.000001 && c.Speed >= 0 && c.Speed <= 1e6
		if !sane { // also where one is not a number
			return fmt.Errorf("class %.16q with cosines %g and %g and speed %g, expected a name, cosines of -1 to 1 and a speed above 0", c.Name, c.Mean, c.Worst, c.Speed)
		}
	}
	return nil
}

func (k FileKey) file(dir string) string { return fileOf(dir, "precision", k) }

func decodePrecision(data []byte, k FileKey) (Precision, error) {
	p, err := parse[FileKey, Precision](data, k)
	if err != nil {
		return Precision{}, err
	}
	return p, p.check()
}

// AnyPrecision reports whether anything was ever measured here. If not, there is
// nothing to look up for a model.
func AnyPrecision() bool {
	dir, err := Dir()
	if err != nil || os.Getenv(Env) == Off {
		return false
	}
	found, err := fs.Glob(os.DirFS(dir), "precision-*.json")
	return err == nil && len(found) > 0
}

// CachedPrecision is what was measured of a model before; false where nothing
// usable is kept.
func CachedPrecision(k FileKey) (Precision, bool) {
	dir, err := Dir()
	if err != nil || os.Getenv(Env) == Off {
		return Precision{}, false
	}
	p, err := load(k.file(dir), k, decodePrecision)
	return p, err == nil
}

// StorePrecision keeps what was measured of a model, and says where.
func StorePrecision(k FileKey, p Precision) (file string, err error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	return k.file(dir), store(dir, k.file(dir), entry[FileKey, Precision]{k, p})
}
