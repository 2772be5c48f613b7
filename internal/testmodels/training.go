package testmodels

import (
	"encoding/json"
	"os"
	"testing"
)

// Training is a short training run of a fixture in PyTorch (train/NAME.json), to be
// repeated from the fixture's weights. scripts/goldens_train.py states the recipe in
// full; gradients of step 0 and parameters after the last step lie beside it as
// train/NAME-grads.safetensors and train/NAME-after.safetensors, where the last
// step is the last of Tokens, not of MoreTokens.
type Training struct {
	Model        string
	Steps        int
	LR           float64
	Beta1, Beta2 float64
	Eps          float64
	WeightDecay  float64   `json:"weight_decay"`
	Decayed      []string  // parameters that decay, by their Hugging Face names
	Clip         float64   // bound of the norm over all gradients together
	Tokens       [][][]int // [steps][sequences][ids], ragged
	Losses       []float64 // [steps], mean over all predicted tokens
	GradNorms    []float64 `json:"grad_norms"`  // [steps], before clipping
	MoreTokens   [][][]int `json:"more_tokens"` // of the steps that follow
	MoreLosses   []float64 `json:"more_losses"`
	After        map[string]struct {
		Sum       float64
		SquareSum float64 `json:"square_sum"`
	}
}

// LoadTraining reads the run of "llama" or "gpt2".
func LoadTraining(t testing.TB, name string) Training {
	t.Helper()
	path := Dir(t, "train/"+name+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("testmodels: %v", err)
	}
	var r Training
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("testmodels: %s: %v", path, err)
	}
	return r
}
