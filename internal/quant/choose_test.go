package quant

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"hotpath/internal/tensor"
)

// The encodings that llama.cpp chooses, by scripts/goldens_mixes.py.
func TestChooseAsLlamaCpp(t *testing.T) {
	data, err := os.ReadFile("testdata/mixes.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct {
		Arch                   string
		Layers, Group, Experts int
		Tensors                [][2]json.RawMessage
		Mixes                  map[string]map[string][]int
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for name, m := range golden {
		tensors := make([]Tensor, len(m.Tensors))
		for i, raw := range m.Tensors {
			if json.Unmarshal(raw[0], &tensors[i].Name) != nil || json.Unmarshal(raw[1], &tensors[i].Dims) != nil {
				t.Fatal(name, i)
			}
		}
		for mixName, want := range m.Mixes {
			plain, importance := strings.CutSuffix(mixName, "+importance")
			mix, err := ParseMix(plain)
			if err != nil {
				t.Fatal(err)
			}
			opts := Options{}
			if importance {
				opts.Importance = &Importance{}
			}
			got, err := Choose(mix, Facts{m.Arch, m.Layers, m.Group, m.Experts}, tensors, opts)
			if err != nil {
				t.Fatal(err)
			}
			expected := make([]string, len(tensors))
			for d, which := range want {
				for _, i := range which {
					expected[i] = d
				}
			}
			for i, d := range got {
				if e := expected[i]; e != d.String() && (e != "" || d != tensor.F32) {
					t.Errorf("%s as %s: %s is %s, llama.cpp makes it %s", name, mixName, tensors[i].Name, d, e)
				}
			}
		}
		if len(m.Mixes) < len(mixes)-1 { // all but Q2_K_S
			t.Errorf("%s: %d mixes in the golden, %d in the table", name, len(m.Mixes), len(mixes))
		}
	}
}

func TestChooseOptions(t *testing.T) {
	mix, err := ParseMix("q4_k")
	if err != nil || mix.Name != "Q4_K_M" {
		t.Fatal(mix, err)
	}
	if _, err := ParseMix("Q9"); err == nil || !strings.Contains(err.Error(), "Q4_K_M, Q4_K_S") {
		t.Errorf("%v", err)
	}
	tensors := []Tensor{
		{Name: "token_embd.weight", Dims: []int{4, 256}, DType: tensor.F16},
		{Name: "output.weight", Dims: []int{4, 256}, DType: tensor.F16},
		{Name: "blk.0.attn_v.weight", Dims: []int{4, 256}, DType: tensor.F16},
		{Name: "blk.0.attn_q.weight", Dims: []int{4, 48}, DType: tensor.F16},
	}
	q8, q5 := tensor.Q8_0, tensor.Q5_K
	for name, c := range map[string]struct {
		opts Options
		want []tensor.DType
	}{
		"none":  {Options{}, []tensor.DType{tensor.Q4_K, tensor.Q6_K, tensor.Q6_K, tensor.F16}},
		"keep":  {Options{KeepOutput: true}, []tensor.DType{tensor.Q4_K, tensor.F16, tensor.Q6_K, tensor.F16}},
		"pure":  {Options{Pure: true}, []tensor.DType{tensor.Q4_K, tensor.Q4_K, tensor.Q4_K, tensor.F16}},
		"types": {Options{Output: &q8, Embedding: &q5}, []tensor.DType{tensor.Q5_K, tensor.Q8_0, tensor.Q6_K, tensor.F16}},
	} {
		got, err := Choose(mix, Facts{Arch: "llama", Layers: 1, Group: 1}, tensors, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %s is %s, expected %s", name, tensors[i].Name, got[i], c.want[i])
			}
		}
	}
}
