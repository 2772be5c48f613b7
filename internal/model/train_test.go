package model

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
)

// recipe is train/<model>.json: what PyTorch did, step by step.
type recipe struct {
	LR, Beta1, Beta2, Eps, Clip float64
	Decay                       float64 `json:"weight_decay"`
	Tokens                      [][][]int
	Losses                      []float64
	GradNorms                   []float64 `json:"grad_norms"`
	After                       map[string]struct {
		Sum       float64
		SquareSum float64 `json:"square_sum"`
	}
}

func TestTrainingMatchesPyTorch(t *testing.T) {
	for _, name := range testmodels.Trained(t) {
		t.Run(name, func(t *testing.T) {
			var want recipe
			data, err := os.ReadFile(testmodels.Dir(t, "train/"+name+".json"))
			if err == nil {
				err = json.Unmarshal(data, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			m := open(t, testmodels.Dir(t, name))
			var most tensor.Bind
			for _, seqs := range want.Tokens {
				n := total(seqs)
				most = tensor.Bind{T: max(most.T, n), S: max(most.S, len(seqs)), R: max(most.R, n)}
			}
			g, p, parts, err := m.BuildTrain(most, TrainOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s := session(t, m, g)
			hyper := grad.Hyper{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, Decay: want.Decay, Clip: want.Clip}
			for step, seqs := range want.Tokens {
				n, r := batch(s, p, seqs), 0
				at := 0
				for _, ids := range seqs {
					for j := range ids[1:] {
						s.I32(p.Rows)[r], s.I32(p.Targets)[r] = int32(at+j), int32(ids[j+1])
						r++
					}
					at += len(ids)
				}
				if err := hyper.Put(s.F32(p.Hyper)[:graph.HyperLen], step+1); err != nil {
					t.Fatal(err)
				}
				run(t, s, tensor.Bind{T: n, S: len(seqs), R: r})
				near(t, "loss", step, float64(s.F32(p.Loss)[0]), want.Losses[step], 1e-5)
				near(t, "norm of gradients", step, float64(s.F32(p.GradNorm)[0]), want.GradNorms[step], 1e-4)
			}
			// q, k and v of GPT-2 are one parameter there.
			sums, squares := map[string]float64{}, map[string]float64{}
			for _, param := range parts.Params {
				f := make([]float32, param.Value.Shape.Len(tensor.Bind{}))
				if err := s.ReadState(param.Value, f); err != nil {
					t.Fatal(err)
				}
				for _, v := range f {
					sums[m.place(param.Key).name] += float64(v)
					squares[m.place(param.Key).name] += float64(v) * float64(v)
				}
				if param.Decay != (param.Value.Shape.Rank() == 2) {
					t.Errorf("%s: weight decay %v", param.Key, param.Decay)
				}
			}
			for key, w := range want.After {
				near(t, key, 20, squares[key], w.SquareSum, 1e-4)
				near(t, "sum of "+key, 20, sums[key]/math.Sqrt(w.SquareSum), w.Sum/math.Sqrt(w.SquareSum), 1e-3)
			}
		})
	}
}

func near(t *testing.T, what string, step int, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("step %d: %s %g, want %g", step, what, got, want)
	}
}

func TestTrainOnlyWhatIsAsked(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"))
	o := TrainOptions{Trainable: func(r graph.Role, layer int) bool { return r == graph.RoleQ && layer == 1 }}
	g, _, parts, err := m.BuildTrain(tensor.Bind{T: 8, S: 1, R: 8}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts.Params) != 1 || parts.Params[0].Key != "blk.1.attn_q.weight" {
		t.Errorf("trains %v", parts.Params)
	}
	for _, n := range g.Nodes {
		if n.Leaf != nil && n.Leaf.Trainable && n.Leaf.Key != "blk.1.attn_q.weight" {
			t.Errorf("the graph has %s as trainable", n.Leaf.Key)
		}
	}
	if _, _, _, err := open(t, testmodels.Dir(t, "bert")).BuildTrain(tensor.Bind{T: 8, S: 1, R: 8}, o); err == nil {
		t.Error("BERT has no head, expected an error")
	}
}
