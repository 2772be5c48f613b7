package train

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

const smallest = `{"model":"m","data":"d.txt","out":"o"}`

func TestConfigDefaultsAndFields(t *testing.T) {
	want := DefaultConfig()
	want.Model, want.Data, want.Out = "m", []string{"d.txt"}, "o"
	if got, err := ParseConfig("c.json", []byte(smallest), nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("configuration %+v, %v, want %+v", got, err, want)
	}
	all := `{"model":"m","init":"random","data":["a","b"],"out":"o","steps":7,"batch_tokens":64,"seq_len":16,"lr":1,"min_lr":0.5,
		"warmup":2,"schedule":"wsd","betas":[0.5,0.6],"eps":1e-3,"weight_decay":0,"clip":0,"seed":18446744073709551615,"checkpoint_every":3,"keep":0,
		"micro_tokens":32,"objective":{"type":"lm"},"validation":{"data":"v","sts":"s","retrieval":"r","every":5,"tokens":6,"best":"mrr","keep_best":false,"patience":7},"sample":{"every":8,"prompt":"p","tokens":9,"temp":0},"truncate":true,"about":"x","optimizer":"sgd","decay_steps":1,"momentum":0.5,"nesterov":true,"no_decay":[],"dropout":0.2,"label_smoothing":0.1,"recompute":true,"skip_above":2,"stop_above":3}`
	want = Config{Model: "m", Init: "random", Data: []string{"a", "b"}, Out: "o", Steps: 7, BatchTokens: 64, SeqLen: 16, LR: 1, MinLR: 0.5, Warmup: 2,
		Schedule: "wsd", Betas: [2]float64{0.5, 0.6}, Eps: 1e-3, Seed: math.MaxUint64, CheckpointEvery: 3,
		MicroTokens: 32, Objective: ObjectiveConfig{Type: "lm"}, Validation: ValidationConfig{Data: List{"v"}, STS: List{"s"}, Retrieval: List{"r"}, Every: 5, Tokens: 6, Best: "mrr", Patience: 7}, Sample: SampleConfig{Every: 8, Prompt: "p", Tokens: 9}, Truncate: true, About: "x", Optimizer: "sgd", DecaySteps: 1, Momentum: 0.5, Nesterov: true, NoDecay: List{}, Dropout: 0.2, LabelSmoothing: 0.1, Recompute: true, SkipAbove: 2, StopAbove: 3}
	got, err := ParseConfig("c.json", []byte(all), nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("configuration %+v, %v, want %+v", got, err, want)
	}
	// What a configuration is written as reads back, with no field left out.
	data, err := json.Marshal(want)
	must(t, err)
	if got, err := ParseConfig("c.json", data, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s reads back as %+v, %v", data, got, err)
	}
}

func TestSetReplacesFields(t *testing.T) {
	c, err := ParseConfig("c.json", []byte(smallest), []string{"lr=0.5", "betas.1=0.99", "model=/a=b/m", `data=["x","y"]`, "data.1=z", "schedule=constant"})
	must(t, err)
	if c.LR != 0.5 || c.Betas != ([2]float64{0.9, 0.99}) || c.Model != "/a=b/m" || len(c.Data) != 2 || c.Data[1] != "z" || c.Schedule != "constant" {
		t.Errorf("configuration %+v", c)
	}
}

func TestConfigRefusals(t *testing.T) {
	for _, c := range []struct {
		json string
		sets []string
		want string
	}{
		{`[]`, nil, "expected a JSON object, found an array"},
		{`null`, nil, "expected a JSON object, found null"},
		{`"model"`, nil, "expected a JSON object, found a string"},
		{`3`, nil, "expected a JSON object, found a number"},
		{`true`, nil, "expected a JSON object, found true or false"},
		{``, nil, "expected a JSON object of fields: line 1"},
		{`{"model":"m"} x`, nil, "expected a JSON object of fields: line 1, column 15"},
		{`{"modle":"m"}`, nil, `unknown field "modle", did you mean model?`},
		{`{"Model":"m"}`, nil, `unknown field "Model", did you mean model?`},
		{`{"steps":"ten"}`, nil, "field steps: expected an integer, found \"ten\""},
		{`{"steps":1.5}`, nil, "field steps"},
		{`{"seed":-1}`, nil, "field seed"},
		{`{"betas":[0.9]}`, nil, "field betas: expected a list of two numbers"},
		{`{"data":3}`, nil, "field data: expected a string or a list of strings"},
		{`{}`, nil, "field model: expected a path"},
		{smallest, []string{"data=[]"}, "field data"},
		{smallest, []string{"out="}, "field out"},
		{smallest, []string{"init=zeros"}, `field init: expected one of weights, random, found "zeros"`},
		{smallest, []string{"steps=0"}, "field steps"},
		{smallest, []string{"batch_tokens=0"}, "field batch_tokens"},
		{smallest, []string{"seq_len=5000"}, "field seq_len: expected 0 to batch_tokens (4096), found 5000"},
		{smallest, []string{"lr=0"}, "field lr"},
		{smallest, []string{"min_lr=1"}, "field min_lr"},
		{smallest, []string{"warmup=1001"}, "field warmup"},
		{smallest, []string{"schedule=cosin"}, `field schedule: expected one of constant, cosine, linear, wsd (did you mean cosine?), found "cosin"`},
		{smallest, []string{"decay_steps=1001"}, "field decay_steps"},
		{smallest, []string{"optimizer=adam"}, `field optimizer: expected one of adamw, sgd (did you mean adamw?), found "adam"`},
		{smallest, []string{"momentum=1"}, "field momentum"},
		{smallest, []string{"decay_steps=5"}, "field decay_steps: expected 0 unless the schedule is wsd"},
		{smallest, []string{"nesterov=true"}, "field nesterov: expected false unless the optimizer is sgd"},
		{smallest, []string{"validation.patience=2"}, "field validation.patience: expected 0 without validation.every"},
		{smallest, []string{"validation.tokens=2"}, "field validation.tokens: expected 0 without"},
		{smallest, []string{"objective.type=distill", "label_smoothing=0.1"}, "field label_smoothing: expected 0 unless objective.hard"},
		{smallest, []string{"lora.rank=2", `objective.freeze=["q"]`}, "field objective.freeze: expected none beside lora"},
		{smallest, []string{"momentum=0", "nesterov=true"}, "field nesterov: expected false where momentum is 0"},
		{smallest, []string{"no_decay=norms"}, "field no_decay: expected one of embedding, position, q, k, v, o, gate, up, down, head, norm, bias, router (did you mean norm?)"},
		{smallest, []string{"dropout=1"}, "field dropout"},
		{smallest, []string{"label_smoothing=-0.1"}, "field label_smoothing"},
		{smallest, []string{"skip_above=1"}, "field skip_above: expected 0, or a factor above 1, found 1"},
		{smallest, []string{"stop_above=-1"}, "field stop_above"},
		{smallest, []string{"micro_tokens=5000"}, "field micro_tokens"},
		{smallest, []string{"objective.type=ml"}, "field objective.type: expected one of "},
		{smallest, []string{"objective.kind=lm"}, `unknown field objective."kind"`},
		{smallest, []string{"objective=ml"}, "field objective.type: expected one of "},
		{smallest, []string{"objective=3"}, "field objective: expected an object, found 3"},
		{smallest, []string{"validation.share=1"}, "field validation.share"},
		{smallest, []string{"validation.share=0.1", "validation.data=x"}, "field validation.share"},
		{smallest, []string{"validation.every=5"}, "field validation.every: expected 0 without validation.data and validation.share, found 5"},
		{smallest, []string{"epochs=5"}, `unknown field "epochs", did you mean steps?`},
		{smallest, []string{"attention_dropout=0.1"}, `unknown field "attention_dropout", did you mean dropout?`},
		{smallest, []string{"precision=bf16"}, `unknown field "precision": it is a flag of the command, --precision`},
		{smallest, []string{"validation.evry=5"}, `unknown field validation."evry", did you mean validation.every?`},
		{smallest, []string{"validation.patience=-1"}, "field validation.patience"},
		{smallest, []string{"validation=5"}, "field validation: expected an object, found 5"},
		{smallest, []string{"sample.tokens=0"}, "field sample.tokens"},
		{smallest, []string{"sample.temp=hot"}, "field sample.temp: expected a number, found \"hot\""},
		{`{"lerning_rate":1}`, nil, `unknown field "lerning_rate", did you mean lr?`},
		{`{"learning_rate":1}`, nil, `did you mean lr?`},
		{`{"max_steps":1}`, nil, `did you mean steps?`},
		{`{"bach_tokens":1}`, nil, `did you mean batch_tokens?`},
		{`{"zzzzzzzzz":1}`, nil, `unknown field "zzzzzzzzz", expected one of about, batch_tokens`},
		{"{\n \"lr\": x}", nil, "line 2, column 8"},
		{`{"lr":1e999}`, nil, "field lr: expected a number that fits 64 bits, found 1e999"},
		{`{"steps":10000000000000000000}`, nil, "field steps: expected an integer that fits 64 bits, found 10000000000000000000"},
		{`{"lr":1,"steps":2,"lr":3}`, nil, "field lr: expected it once, found it twice"},
		{`{"model":{"d_model":64,"d_model":32}}`, nil, "field model.d_model: expected it once"},
		{`{"data":["a",{"b":1,"b":2}]}`, nil, "field data.1.b: expected it once"},
		{smallest, []string{"lora.rank=4", `lora.roles=["upp"]`}, "did you mean up?"},
		{`{"nesterov":1}`, nil, "field nesterov: expected true or false, found 1"},
		{`{"model":[]}`, nil, "field model: expected a string"},
		{smallest, []string{"betas.0=1"}, "field betas"},
		{smallest, []string{"eps=0"}, "field eps"},
		{smallest, []string{"weight_decay=-1"}, "field weight_decay"},
		{smallest, []string{"clip=-1"}, "field clip"},
		{smallest, []string{"checkpoint_every=-1"}, "field checkpoint_every"},
		{smallest, []string{"keep=-1"}, "field keep"},
		{smallest, []string{"lr=1e300"}, "field lr: expected a positive number that fits 32 bits, found 1e+300"},
		{smallest, []string{"lr=1e-300"}, "field lr"},
		{smallest, []string{"min_lr=1e-300"}, "field min_lr"},
		{smallest, []string{"eps=1e-300"}, "field eps"},
		{smallest, []string{"clip=1e-300"}, "field clip"},
		{smallest, []string{"weight_decay=1e39"}, "field weight_decay"},
		{smallest, []string{"betas.1=0.99999999999"}, "field betas"},
		{`{"model":"m"}`, []string{"data.0=x"}, `set "data.0=x": "0", expected an index below 0`},
		{`{"lr":null}`, nil, "field lr: expected a value, found null"},
		{"{\"model\":\"\xff\"}", nil, "expected UTF-8"},
		{smallest, []string{"model=\xff"}, "in UTF-8"},
		{smallest, []string{strings.Repeat("a.", 9) + "a=1"}, "at most 8 dots"},
		{smallest, []string{"lr"}, `set "lr": expected field=value`},
		{smallest, []string{"betas.2=1"}, "an index below 2"},
		{smallest, []string{"lr.x=1"}, "expected an object or a list"},
		{smallest, []string{"optimizers.lr=1"}, `unknown field "optimizers", did you mean optimizer?`},
		{``, nil, "line 1, column 0: unexpected end"},
		{"\x00", nil, "line 1, column 1"},
		{"{\x00\"model\":\"m\"}", nil, "line 1, column 2"},
		{`{"model":"m","data":"d","out":"o","lr":NaN}`, nil, "line 1, column 40"},
		{`{"model":"m","data":"d","out":"o","lr":-Infinity}`, nil, "line 1, column 41"},
		{"{\"model\":\"m\", // why\n\"data\":\"d\"}", nil, "line 1, column 15"},
		{`{"model":"m","data":"d","out":"o",}`, nil, "line 1, column 35"},
		{`{"data":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, nil, "exceeded max depth"},
		{`{"steps":1e3}`, nil, "field steps: expected an integer in digits, found 1e3"},
		{`{"seed":1.0}`, nil, "field seed: expected an integer from 0 in digits, found 1.0"},
		{`{"steps":true}`, nil, "field steps: expected an integer, found true"},
		{`{"lr":true}`, nil, "field lr: expected a number, found true"},
		{`{"lr":"−1"}`, nil, "field lr: expected a number, found"},
		{`{"data":[true]}`, nil, "field data: expected a string or a list of strings, found [true]"},
		{`{"lora":null}`, nil, "field lora: expected a value, found null"},
		{`{"mоdel":"m"}`, nil, "did you mean model?"},
		{`{"d_model":32}`, nil, `unknown field "d_model", did you mean model.d_model?`},
		{`{"hidden_size":32}`, nil, `unknown field "hidden_size", did you mean model.d_model?`},
		{`{"rank":4}`, nil, `unknown field "rank", did you mean lora.rank?`},
		{`{"patience":4}`, nil, `unknown field "patience", did you mean validation.patience?`},
		{`{"every":3}`, nil, `unknown field "every", expected one of about`},
		{`{"validation":{"validation":{"share":0.1}}}`, nil, `unknown field validation."validation", expected one of best`},
		{`{"objective":["lm"]}`, nil, `field objective: expected an object, found ["lm"]`},
		{smallest, []string{"lora.rank=2", "lora.alpha=1e-300"}, "field lora.alpha: expected a positive number that fits 32 bits"},
		{smallest, []string{"lora.rank=65536", "lora.alpha=1e-45"}, "field lora.alpha: expected a positive number that fits 32 bits"},
		{smallest, []string{"lora.rank=2", "init=random"}, `field init: expected "weights" with lora`},
		{smallest, []string{"sample.tokens=1000000000"}, "field sample.tokens: expected 1 to"},
		{smallest, []string{"seq_len=32", "batch_tokens=64", "micro_tokens=8"}, "field micro_tokens: expected 0, or seq_len to batch_tokens (64), found 8"},
	} {
		_, err := ParseConfig("c.json", []byte(c.json), c.sets)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.json, c.sets, err, c.want)
		}
	}
	if _, err := ParseConfig("c.json", []byte("\ufeff"+strings.ReplaceAll(smallest, ",", ",\r\n")), nil); err != nil {
		t.Errorf("a byte order mark and line ends of Windows: %v", err)
	}
	if _, err := ReadConfig(filepath.Join(t.TempDir(), "none.json"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a missing file", err)
	}
	if _, err := ReadConfig(t.TempDir(), nil); !errors.Is(err, ErrConfig) {
		t.Errorf("error %v of a directory", err)
	}
}

// Whatever a configuration holds, it is valid or the error names the field,
// in a line for a terminal, and reading costs memory in proportion to its size.
func FuzzParseConfig(f *testing.F) {
	for _, set := range []string{"betas.1=0.5", "a.b.c=1", "betas.x.0=", "lr", "=1", "data.0=x", "data.0.1=x", "lr=1e999", "lr=null", "out=\xff", strings.Repeat("a.", 1000) + "a=1"} {
		f.Add([]byte(smallest), set)
	}
	for _, data := range []string{`{"data":[1]}`, `{"betas":{"x":[]}}`, `{"steps":1e999}`, `{"steps":99999999999999999999}`, `{"seed":1.5}`, `{"lr":null}`,
		`{"model":"` + strings.Repeat("x", 1<<12) + `","out":""}`, `{"` + strings.Repeat("x", 1<<12) + `":1}`, "{\"model\":\"\xff\"}", `[`, `{"data":` + strings.Repeat("[", 1<<12)} {
		f.Add([]byte(data), "seed=1")
	}
	f.Add([]byte(`{"model":"m"}`), "data.0=x")
	f.Add([]byte(`{"model":{"d_model":8,"n_layers":1,"n_heads":2,"tokenizer":"char"},"data":"d","out":"o"}`), "model.n_heads=3")
	f.Add([]byte(`{"model":{"x":{}}}`), "model.d_model=[]")
	names, shape := (&Config{}).fields(), tagged(&Shape{})
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := ParseConfig("c.json", data, []string{set})
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+256*(len(data)+len(set))); got > most {
			t.Errorf("%d bytes of memory for %d bytes, expected at most %d", got, len(data)+len(set), most)
		}
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("an invalid configuration was accepted: %v", err)
			}
			return
		}
		text := err.Error()
		if !errors.Is(err, ErrConfig) || len(text) > 1000 {
			t.Errorf("error of %d bytes: %.200s", len(text), text)
		}
		_, field, named := strings.Cut(text, "field ")
		if name, _, _ := strings.Cut(field, ":"); named && names[name] == nil && shape[strings.TrimPrefix(name, "model.")] == nil && !strings.HasPrefix(name, "objective.") && !strings.HasPrefix(name, "validation.") && !strings.HasPrefix(name, "sample.") && !strings.HasPrefix(text, "c.json: unknown field ") {
			t.Errorf("%s: names a field that there is not", text)
		}
		if !named && !strings.HasPrefix(text, "set ") && !strings.Contains(text, "expected a JSON object") && !strings.Contains(text, "expected UTF-8") {
			t.Errorf("%s: names no field", text)
		}
	})
}

func TestSchedules(t *testing.T) {
	c := Config{LR: 1, MinLR: 0.2, Warmup: 4, Steps: 12}
	for name, want := range map[string]map[int]float64{
		"constant": {1: 0.25, 4: 1, 5: 1, 12: 1},
		"linear":   {1: 0.25, 2: 0.5, 4: 1, 5: 1, 9: 0.6, 12: 0.3},
		"wsd":      {1: 0.25, 4: 1, 10: 1, 11: 1, 12: 0.6},
		"cosine":   {1: 0.25, 4: 1, 5: 1, 9: 0.6, 12: 0.2 + 0.4*(1+math.Cos(math.Pi*7/8))},
	} {
		c.Schedule = name
		for step, rate := range want {
			if got := c.rate(step); math.Abs(got-rate) > 1e-12 {
				t.Errorf("%s: rate %g at step %d, want %g", name, got, step, rate)
			}
		}
	}
	c.Schedule, c.DecaySteps = "wsd", 4
	if got := c.rate(11); math.Abs(got-0.6) > 1e-12 {
		t.Errorf("rate %g after two of four steps of decay, want 0.6", got)
	}
	c.Warmup = c.Steps // all of it
	if got := c.rate(c.Steps); got != 1 {
		t.Errorf("rate %g at the end of a warm-up of all steps", got)
	}
}
