package hotpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

// A configuration file, a cancelled run, a resumed one, and a model that opens
// and has learnt something.
func TestTrainFromFileToModel(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "train.json")
	if err := os.WriteFile(file, []byte(`{"model":"none","init":"random","steps":40,"batch_tokens":256,"seq_len":64,"lr":1e-2,"warmup":5}`), 0o666); err != nil {
		t.Fatal(err)
	}
	text := testmodels.Dir(t, "shakespeare.txt")
	cfg, err := hotpath.ReadTrainConfig(file, "model="+testmodels.Dir(t, "llama"), "data="+text, "out="+filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := hotpath.PlanTraining(t.Context(), cfg, hotpath.TrainOptions{Threads: 1})
	if err != nil || plan.Parameters == 0 || plan.FLOPs == 0 {
		t.Fatalf("plan %+v, error %v", plan, err)
	}
	if s := plan.String(); !strings.Contains(s, "memory, state") || strings.Contains(s, " 0.0 ") {
		t.Errorf("memory that is there reads as none:\n%s", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := float32(0)
	res, err := hotpath.Train(ctx, cfg, hotpath.TrainOptions{Threads: 2, OnStep: func(s hotpath.TrainStep) error {
		if s.Step == 1 {
			first = s.Loss
		}
		if s.Step == 10 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || res.Steps != 10 {
		t.Fatalf("result %+v, error %v, want ten steps and a cancellation", res, err)
	}
	res, err = hotpath.Train(context.Background(), cfg, hotpath.TrainOptions{Resume: "auto"})
	if err != nil || res.Steps != 40 || res.Loss > first-1 {
		t.Fatalf("result %+v, error %v, want 40 steps and a loss far below %g", res, err, first)
	}
	if _, err := hotpath.Train(context.Background(), cfg, hotpath.TrainOptions{}); !errors.Is(err, hotpath.ErrTrainConfig) ||
		!strings.Contains(err.Error(), "--resume auto") || !strings.Contains(err.Error(), "-o") {
		t.Errorf("a second run: %v, want what to do about it", err)
	}
	m, err := hotpath.Open(res.Checkpoint, hotpath.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// The tables of fields in docs/training.md are the configuration, defaults
// included.
func TestTrainFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "training.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			if strings.TrimSpace(cells[3]) == "" {
				t.Errorf("%s is not explained", cells[1])
			}
			got = append(got, strings.Trim(cells[1], " `")+" "+strings.Trim(cells[2], " `"))
		}
	}
	want = append(defaults(t, "", hotpath.DefaultTrainConfig()), defaults(t, "model.", hotpath.DefaultModelShape())...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/training.md has\n%q, the configuration\n%q", got, want)
	}
}

// defaults are the fields of a struct with their defaults, those of groups
// included.
func defaults(t *testing.T, prefix string, of any) []string {
	t.Helper()
	var out []string
	for c, i := reflect.ValueOf(of), 0; i < c.NumField(); i++ {
		f, name := c.Field(i), c.Type().Field(i).Tag.Get("json")
		if name == "-" {
			continue
		}
		if f.Type() == reflect.TypeFor[hotpath.TrainObjective]() || f.Type() == reflect.TypeFor[hotpath.TrainLoRA]() { // docs/objectives.md has its fields
			out = append(out, prefix+name+" ")
			continue
		}
		if f.Kind() == reflect.Struct {
			out = append(out, defaults(t, prefix+name+".", f.Interface())...)
			continue
		}
		value := ""
		if !f.IsZero() || f.CanInt() || f.CanFloat() || f.Kind() == reflect.Bool {
			b, err := json.Marshal(f.Interface())
			if err != nil {
				t.Fatal(err)
			}
			value = string(b)
		}
		out = append(out, prefix+name+" "+value)
	}
	return out
}

// go doc shows no fields of aliases, so comments name them: all of them.
func TestTrainTypesNameTheirFields(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "hotpath_train.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Assign != token.NoPos {
			docs[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
		}
	}
	for name, of := range map[string]any{
		"TrainConfig": hotpath.TrainConfig{}, "TrainValidation": hotpath.TrainValidation{}, "TrainSampling": hotpath.TrainSampling{}, "ModelShape": hotpath.ModelShape{},
		"TrainObjective": hotpath.TrainObjective{}, "TrainLoRA": hotpath.TrainLoRA{}, "TrainStep": hotpath.TrainStep{}, "TrainEvaluation": hotpath.TrainEvaluation{},
		"TrainResult": hotpath.TrainResult{}, "TrainPlan": hotpath.TrainPlan{},
	} {
		var got, want []string
		for line := range strings.Lines(docs[name]) {
			if names, found := strings.CutPrefix(line, "\t"); found {
				names, _, _ = strings.Cut(strings.ReplaceAll(names, ", ", ","), " ")
				got = append(got, strings.Split(names, ",")...)
			}
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			want = append(want, f.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the comment of %s names %q, it has %q", name, got, want)
		}
		delete(docs, name)
	}
	if len(docs) > 0 {
		t.Errorf("types that nobody looks at: %v", docs)
	}
}

func TestTrainRefusesNonsense(t *testing.T) {
	if _, err := hotpath.Train(context.Background(), hotpath.TrainConfig{}, hotpath.TrainOptions{}); !errors.Is(err, hotpath.ErrTrainConfig) {
		t.Errorf("error %v of an empty configuration", err)
	}
	if _, err := hotpath.Train(context.Background(), hotpath.DefaultTrainConfig(), hotpath.TrainOptions{Device: "abacus"}); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("error %v of a device that does not exist", err)
	}
}
