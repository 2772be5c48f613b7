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
)

// unmerged is the CPU with a step of its own for each norm and each rotation.
type unmerged struct{ *cpu.Backend }

func (b unmerged) Caps() plan.Caps {
	c := b.Backend.Caps()
	c.Merges = nil
	return c
}

// TestMergedStepsKeepBits: the logits of tokens that are decoded, one or several
// sequences at a time, have the same bits with merged steps and without, whatever
// the number of workers.
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
	// Only of the last are rows so long that workers share steps, keep sums of their own and
	// read keys in place.
	for _, path := range append(append(paths, files...), "../../builtin/hotpath-generator.gguf") {
		m := cpu.OpenModel(t, path)
		if !m.Config().CanGenerate {
			continue
		}
		for _, precision := range []cpu.Precision{cpu.F32, cpu.Auto} {
			for _, kv := range graph.KVTypes {
				if m.Config().HeadDim%kv.Info().BlockLen != 0 {
					continue
				}
				for _, seqs := range []int{1, 3} {
					sameMerged(t, m, path, precision, kv, seqs)
				}
			}
		}
	}
}

// sameMerged compares bits with merged steps and without.
func sameMerged(t *testing.T, m *model.Model, path string, precision cpu.Precision, kv tensor.DType, seqs int) {
	t.Helper()
	want := decodeOn(t, m, cpu.Options{Workers: 1, Precision: precision}, kv, seqs, false)
	for workers := 1; workers <= 3; workers++ {
		got := decodeOn(t, m, cpu.Options{Workers: workers, Precision: precision, Test: workers == 3}, kv, seqs, true)
		if i := slices.IndexFunc(got, func(x float32) bool { return x != x }); i >= 0 {
			t.Errorf("%s: logit %d is NaN", path, i)
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Errorf("%s, %s, %s, %d sequences, %d workers: logit %d is %g, %g in steps of their own", path, precision, kv, seqs, workers, i, got[i], want[i])
				break
			}
		}
	}
}

// decodeOn is the logits of some tokens of sequences, one token of each per run.
func decodeOn(t *testing.T, m *model.Model, o cpu.Options, kv tensor.DType, seqs int, merged bool) (logits []float32) {
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
	all := tensor.Bind{T: seqs, S: seqs, R: seqs}
	g, ports, err := m.BuildGenerate(all, model.KVLayout{Type: kv, Blocks: 2 * seqs, MaxBlocksPerSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("generate", g, be, []tensor.Bind{all}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	table := s.I32(ports.BlockTable)
	for i := range seqs {
		table[2*i], table[2*i+1] = int32(2*i+1), int32(2*i)
		s.I32(ports.QStart)[i+1] = int32(i + 1)
		s.I32(ports.Rows)[i] = int32(i)
	}
	for pos := range 5 {
		for i := range seqs {
			s.I32(ports.Tokens)[i], s.I32(ports.Pos)[i] = int32((7*pos+11*i)%m.Config().Vocab), int32(pos)
			s.I32(ports.Slots)[i], s.I32(ports.KVLen)[i] = int32((2*i+1)*graph.KVBlock+pos), int32(pos+1)
			if ports.Length != nil {
				s.I32(ports.Length)[i] = int32(pos + 1)
			}
		}
		if err := s.Run(context.Background(), all); err != nil {
			t.Fatal(err)
		}
		logits = append(logits, s.F32(ports.Logits)...)
	}
	return logits
}

// TestBarriersOfFewRows: a step of a few sequences has as many barriers as one of a
// single sequence, five per layer, on every tier (HOTPATH_CPU).
func TestBarriersOfFewRows(t *testing.T) {
	m := cpu.OpenModel(t, testmodels.Dir(t, "llama"))
	be, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	all := tensor.Bind{T: 128, S: 16, R: 16}
	g, _, err := m.BuildGenerate(all, model.KVLayout{Blocks: 32, MaxBlocksPerSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	barriers := func(be plan.Backend, seqs int) (n int) {
		p, err := plan.Compile("generate", g, be, plan.Buckets(be, all), plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bucket := slices.IndexFunc(p.Plans, func(p *plan.Plan) bool { return p.Max.T >= seqs })
		for _, s := range p.Plans[bucket].Steps {
			if s.Barrier {
				n++
			}
		}
		return n
	}
	layers := m.Config().Layers
	one, few, apart := barriers(be, 1), barriers(be, 16), barriers(unmerged{be}, 16)
	if few != one || few < 5*layers || few > 5*layers+3 || apart < few+3*layers {
		t.Errorf("%d barriers in %d layers of 16 rows, %d of one row, %d in steps of their own; expected 5 per layer", few, layers, one, apart)
	}
}
