package hotpath

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cpubackend "hotpath/internal/backend/cpu"
	"hotpath/internal/calib"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/model"
	"hotpath/internal/precision"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// TestClasses: Info says for each role what the bound kernels compute in.
func TestClasses(t *testing.T) {
	m := open(t, testmodels.Dir(t, "gguf/bert-q8_0.gguf"), Options{Precision: "f32"})
	i, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, u := range i.Classes {
		if u.Class != "f32" || u.Role != "attention" && (u.Params == 0 || u.DType == "") {
			t.Errorf("%+v", u)
		}
		roles = append(roles, u.Role)
	}
	for _, want := range []string{"q", "k", "v", "o", "up", "down", "attention"} {
		if !slices.Contains(roles, want) {
			t.Errorf("no class for %s in %v", want, roles)
		}
	}
	if i.Precision != "f32" || i.Calibration != nil && i.Calibration.Texts == 0 {
		t.Errorf("%+v", i)
	}
	// At the default precision they are what the kernels were bound with.
	for _, name := range []string{"bert", "gguf/bert-q8_0.gguf", "gguf/bert-f16.gguf"} {
		rec := profile.NewRecorder(profile.Options{})
		m := open(t, testmodels.Dir(t, name), Options{Profile: rec, NoCalibration: true})
		if _, err := m.Embed(context.Background(), []string{"rain in the hills, and boats that swung round to face them"}, EmbedOptions{}); err != nil {
			t.Fatal(err)
		}
		i, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		said, bound := map[string]bool{}, map[string]bool{}
		for _, u := range i.Classes {
			if u.Role != "attention" {
				said[u.Class] = true
			}
		}
		for _, p := range rec.Snapshot().Plans {
			for _, s := range p.Steps {
				if p.Ledger.Runs > 0 && strings.HasPrefix(s.Op, "linear") {
					bound[s.Class] = true
				}
			}
		}
		if len(bound) == 0 || !maps.Equal(said, bound) {
			t.Errorf("%s: Info says %v, the kernels are %v", name, said, bound)
		}
	}
	m = open(t, testmodels.Dir(t, "bert"), Options{Device: "ref"})
	if i, err := m.Info(); err != nil || i.Precision != "" || i.Classes != nil {
		t.Errorf("another device: %+v, %v", i, err)
	}
}

// TestClassesOfRareKernels: attention that has no kernel on tiles is said to be in
// f32, and experts, which have no kernels in integers, are not said to be.
func TestClassesOfRareKernels(t *testing.T) {
	for _, c := range []struct {
		model, role string
		precision   cpubackend.Precision
		want        string
	}{
		{"internal/model/testdata/falcon-alibi", "attention", cpubackend.BF16, "f32"},
		{"internal/model/testdata/gemma2", "attention", cpubackend.BF16, "f32"},
		{"internal/testmodels/testdata/mpnet", "attention", cpubackend.BF16, "f32"},
		{"internal/model/testdata/mixtral", "up", cpubackend.I16G32, "f32"},
		{"internal/model/testdata/mixtral", "q", cpubackend.I16G32, "i16g32"},
	} {
		st, err := weights.Open(c.model)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		opened, err := model.Open(st)
		if err != nil {
			t.Fatal(err)
		}
		be, err := cpubackend.New(cpubackend.Options{Workers: 1, Precision: c.precision})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		classes, err := (&Model{model: opened, cfg: opened.Config(), backend: be, precision: string(c.precision)}).classes() // some have no tokenizer
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(classes, func(u ClassUse) bool { return u.Role == c.role })
		if k < 0 || classes[k].Class != c.want {
			t.Errorf("%s at %s: %+v, expected %s in %s", c.model, c.precision, classes, c.role, c.want)
		}
	}
}

// TestAutoTakesWhatCalibrationAllows, for this very file and no other.
func TestAutoTakesWhatCalibrationAllows(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	data, err := os.ReadFile(testmodels.Dir(t, "gguf/bert-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bert.gguf")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	class := func(o Options) string {
		t.Helper()
		m := open(t, path, o)
		if _, err := m.Embed(context.Background(), []string{"rain in the hills"}, EmbedOptions{}); err != nil {
			t.Fatal(err)
		}
		return m.mainClass()
	}
	usual := class(Options{})
	store := func(worst float64) {
		t.Helper()
		m := open(t, path, Options{})
		k, err := m.fileKey()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := calib.StorePrecision(k, calib.Precision{Texts: 9, Default: calib.Class{Name: usual, Mean: 1, Worst: 1, Speed: 1},
			Others: []calib.Class{{Name: "i8g32", Mean: 1, Worst: worst, Speed: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	store(0.999)
	if got := class(Options{}); got != usual {
		t.Errorf("a class that is too far off is taken: %s", got)
	}
	store(0.9999)
	if got := class(Options{}); got != "i8g32" {
		t.Errorf("auto takes %s, expected what calibration allows", got)
	}
	i, err := open(t, path, Options{}).Info()
	if err != nil || i.Calibration == nil || i.Calibration.Chosen != "i8g32" || len(i.Calibration.Classes) != 2 {
		t.Errorf("%+v, %v", i.Calibration, err)
	}
	for name, o := range map[string]Options{"no calibration": {NoCalibration: true}, "f32 on demand": {Precision: "f32"}} {
		if got := class(o); got == "i8g32" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Another file under the same name.
	other, err := os.ReadFile(testmodels.Dir(t, "gguf/bert-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, other, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := class(Options{}); got == "i8g32" {
		t.Error("another file takes the class of the one before it")
	}
}

func TestCalibratePrecision(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	ctx := context.Background()
	path := testmodels.Dir(t, "gguf/bert-q8_0.gguf")
	r, err := CalibratePrecision(ctx, path, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r.Texts != len(precision.Texts) || len(r.Classes) != 2 || r.Classes[1].Class != "i8g32" || r.File == "" || r.Classes[0].Worst < 0.9995 || r.Classes[1].Mean < 0.99 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(r.File); err != nil {
		t.Error(err)
	}
	i, err := open(t, path, Options{}).Info()
	if err != nil || i.Calibration == nil || !slices.Equal(i.Calibration.Classes, r.Classes) {
		t.Errorf("%+v, %v", i.Calibration, err)
	}
	// What generates has no candidate: likelihoods want more than vectors do.
	r, err = CalibratePrecision(ctx, testmodels.Dir(t, "gguf/llama-q8_0.gguf"), Options{Threads: 2})
	if err != nil || len(r.Classes) != 1 {
		t.Errorf("llama on %v: %+v, %v", isa.Active(), r, err)
	}
	t.Setenv("HOTPATH_CACHE", filepath.Join(i.Path, "below a file"))
	if r, err = CalibratePrecision(ctx, path, Options{Threads: 1}); err != nil || r.File != "" || r.Note == "" {
		t.Errorf("no folder: %+v, %v", r, err)
	}
	if _, err := CalibratePrecision(ctx, filepath.Join(t.TempDir(), "none.gguf"), Options{}); !errors.Is(err, ErrNotModel) {
		t.Errorf("no file: %v", err)
	}
}
