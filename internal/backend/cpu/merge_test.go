package cpu_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// unmerged is the CPU with a step of its own for each norm and each rotation.
type unmerged struct{ *cpu.Backend }

func (b unmerged) Caps() plan.Caps {
	c := b.Backend.Caps()
	c.Merges = nil
	return c
}

// TestMergedStepsKeepBits: the logits of tokens that are decoded one at a time have
// the same bits with merged steps and without, whatever the number of workers.
func TestMergedStepsKeepBits(t *testing.T) {
	paths := testmodels.Directories(testmodels.Decoders(t))
	for i, name := range paths {
		paths[i] = testmodels.Dir(t, name)
	}
	more, err := filepath.Glob("../../model/testdata/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range more {
		paths = append(paths, filepath.Dir(f))
	}
	files, err := filepath.Glob("../../testmodels/testdata/gguf/llama-*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, files...) {
		st, err := weights.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		m, err := model.Open(st)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Config().CanGenerate {
			continue
		}
		for _, precision := range []cpu.Precision{cpu.F32, cpu.Auto} {
			for _, kv := range graph.KVTypes {
				if m.Config().HeadDim%kv.Info().BlockLen != 0 {
					continue
				}
				want := decodeOn(t, m, cpu.Options{Workers: 1, Precision: precision}, kv, false)
				for workers := 1; workers <= 3; workers++ {
					got := decodeOn(t, m, cpu.Options{Workers: workers, Precision: precision, Test: workers == 3}, kv, true)
					if i := slices.IndexFunc(got, func(x float32) bool { return x != x }); i >= 0 {
						t.Errorf("%s: logit %d is NaN", path, i)
					}
					for i := range got {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Errorf("%s, %s, %s, %d workers: logit %d is %g, %g in steps of their own", path, precision, kv, workers, i, got[i], want[i])
							break
						}
					}
				}
			}
		}
	}
}

// decodeOn is the logits of some tokens of a sequence, run one by one.
func decodeOn(t *testing.T, m *model.Model, o cpu.Options, kv tensor.DType, merged bool) (logits []float32) {
	t.Helper()
	on, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	var be plan.Backend = on
	if !merged {
		be = unmerged{on}
	}
	one := tensor.Bind{T: 1, S: 1, R: 1}
	g, ports, err := m.BuildGenerate(one, model.KVLayout{Type: kv, Blocks: 2, MaxBlocksPerSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("generate", g, be, []tensor.Bind{one}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	table := s.I32(ports.BlockTable)
	table[0], table[1] = 1, 0
	s.I32(ports.QStart)[1] = 1
	for pos := range 5 {
		s.I32(ports.Tokens)[0], s.I32(ports.Pos)[0] = int32(7*pos%m.Config().Vocab), int32(pos)
		s.I32(ports.Slots)[0], s.I32(ports.KVLen)[0] = int32(graph.KVBlock+pos), int32(pos+1)
		if ports.Length != nil {
			s.I32(ports.Length)[0] = int32(pos + 1)
		}
		if err := s.Run(context.Background(), one); err != nil {
			t.Fatal(err)
		}
		logits = append(logits, s.F32(ports.Logits)...)
	}
	return logits
}
