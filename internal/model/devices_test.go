//go:build !nogpu

package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/backend/cuda"
	"hotpath/internal/backend/device"
	"hotpath/internal/backend/opencl"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
)

// devices are the ways to cards; a machine without one skips its tests.
var devices = []struct {
	name string
	list func() ([]device.About, error)
	open func() (plan.Backend, error)
}{
	{"CUDA", cuda.Cards, func() (plan.Backend, error) { return cuda.New(cuda.Options{F32: true}) }},
	{"OpenCL", opencl.Devices, func() (plan.Backend, error) { return opencl.New(opencl.Options{Untuned: true}) }},
}

func onDevices(t *testing.T, f func(t *testing.T, be plan.Backend)) {
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) {
			if _, err := d.list(); err != nil {
				t.Skip(err)
			}
			be, err := d.open()
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			f(t, be)
		})
	}
}

// Decoders of every family answer on a device what transformers answers.
func TestDecodersOnDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, be plan.Backend) {
		found, err := filepath.Glob("testdata/*/reference.json")
		files, also := filepath.Glob("testdata/gguf/*.json")
		if err != nil || also != nil || len(found) < 30 || len(files) < 20 {
			t.Fatalf("%d directories and %d files under testdata, expected at least 30 and 20: %v %v", len(found), len(files), err, also)
		}
		for i, reference := range append(found, files...) {
			if !testmodels.Mine(t, i) {
				continue
			}
			path := filepath.Dir(reference)
			if strings.Contains(filepath.ToSlash(reference), "/gguf/") {
				path = strings.TrimSuffix(reference, ".json") + ".gguf"
			}
			t.Run(filepath.Base(path), func(t *testing.T) {
				var want testmodels.Reference
				data, err := os.ReadFile(reference)
				if err == nil {
					err = json.Unmarshal(data, &want)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, step := range []int{5, 128} {
					for i, nll := range scoreOn(t, be, open(t, path), idsOf(want), step) {
						for j, x := range nll {
							if d := math.Abs(x - want.Cases[i].NLL[j]); !(d <= 5e-5) {
								t.Fatalf("pieces of %d: token %d of text %d has nll %g, expected %g", step, j, i, x, want.Cases[i].NLL[j])
							}
						}
					}
				}
			})
		}
	})
}

// Encoders give on a device the vectors of the reference.
func TestEncodersOnDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, be plan.Backend) {
		encoderFixtures(t, "embed", 18, func(t *testing.T, path string, want encoderReference) {
			m := open(t, path)
			seqs := make([][]int, len(want.Cases))
			for i, c := range want.Cases {
				seqs[i] = c.IDs
			}
			for i, v := range embedOn(t, be, m, seqs, EmbedOptions{m.cfg.Pooling, true}) {
				dot, norm := 0.0, 0.0
				for j, x := range want.Cases[i].Embedding {
					dot, norm = dot+float64(x)*float64(v[j]), norm+float64(x)*float64(x)
				}
				if cos := dot / math.Sqrt(norm); !(cos >= 0.99999) {
					t.Errorf("text %d: cosine %.7f", i, cos)
				}
			}
		})
	})
}
