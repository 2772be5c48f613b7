package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/batch"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func fixtureTokenizer(t testing.TB) (*tokenizer.Tokenizer, int) {
	t.Helper()
	st, err := weights.Open(testmodels.Dir(t, "llama"))
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	tok, err := m.Tokenizer()
	must(t, err)
	return tok, m.Config().Vocab
}

// testInputs are inputs without a session.
func testInputs(most tensor.Bind) *inputs {
	return &inputs{Batch: &batch.Batch{
		Tokens: make([]int32, most.T), Pos: make([]int32, most.T), QStart: make([]int32, most.S+1),
		Rows: make([]int32, most.R), Targets: make([]int32, most.R), Max: most,
	}, hyper: make([]float32, graph.HyperLen)}
}

func TestBatches(t *testing.T) {
	// Documents of 11, 1, 2 and 7 tokens; id is 100*document + place.
	var c shard
	for d, n := range []int{11, 1, 2, 7} {
		for i := range n {
			c.ids = append(c.ids, int32(100*d+i))
		}
		c.seqs, c.examples, c.values = append(c.seqs, int64(len(c.ids))), append(c.examples, int64(d+1)), append(c.values, 0)
	}
	cut := func() Source {
		return newTexts(newFileSource(&sourceSpec{kind: Text, vocab: 1000}, []*shard{&c}, ""), 4, true)
	}
	fill := func(b *batches, in *inputs) {
		t.Helper()
		must(t, b.plan())
		if len(b.runs) != 1 {
			t.Fatalf("%d runs without accumulation", len(b.runs))
		}
		must(t, b.fill(t.Context(), in, b.runs[0]))
	}
	most := tensor.Bind{T: 9, S: 9, R: 9}
	b := newBatches(cut(), &lm{}, most, 9, 5)
	in := testInputs(most)
	predicted := map[int32]int{}
	for b.at.Epoch == 0 {
		before := b.at
		fill(b, in)
		n := in.Bind
		if n.T == 0 || n.T != n.R || int(in.QStart[n.S]) != n.T {
			t.Fatalf("a batch of %+v, starts %v", n, in.QStart)
		}
		for s := range n.S {
			for i := in.QStart[s]; i < in.QStart[s+1]; i++ {
				if in.Targets[i] != in.Tokens[i]+1 || in.Rows[i] != i || in.Pos[i] != i-in.QStart[s] || i > in.QStart[s] && in.Tokens[i] != in.Tokens[i-1]+1 {
					t.Errorf("sequence %d: token %d at %d, target %d, row %d", s, in.Tokens[i], in.Pos[i], in.Targets[i], in.Rows[i])
				}
				if b.at.Epoch == 0 {
					predicted[in.Targets[i]]++
				}
			}
		}
		again := newBatches(cut(), &lm{}, most, 9, 5)
		again.at = before
		fresh := testInputs(in.Max)
		fill(again, fresh)
		if !slices.Equal(fresh.Tokens[:n.T], in.Tokens[:n.T]) || again.at != b.at {
			t.Error("a position does not determine what comes")
		}
	}
	for id, n := range predicted {
		if n != 1 || id%100 == 0 {
			t.Errorf("id %d was predicted %d times", id, n)
		}
	}
	if b.n != 3+0+1+2 {
		t.Errorf("%d pieces", b.n)
	}
	orders := map[string]bool{}
	for epoch := range 5 {
		b.at = Position{Epoch: epoch}
		must(t, b.next())
		sorted := slices.Sorted(slices.Values(b.walk.order))
		if !slices.Equal(sorted, []int32{0, 1, 2, 3, 4, 5}) {
			t.Errorf("order %v is no permutation", b.walk.order)
		}
		orders[fmt.Sprint(b.walk.order)] = true
	}
	if len(orders) < 3 {
		t.Errorf("epochs have the same order: %v", orders)
	}
	wide := testInputs(tensor.Bind{T: 100, S: 100, R: 100})
	b = newBatches(cut(), &lm{}, wide.Max, 100, 5)
	fill(b, wide)
	if wide.Bind.S != 6 || b.at != (Position{Epoch: 1}) {
		t.Errorf("a batch of all data has %d pieces and ends at %v", wide.Bind.S, b.at)
	}
}

func TestRandomWeights(t *testing.T) {
	for _, name := range []string{"llama", "gpt2"} {
		c := fixture(t, name)
		c.Init = "random"
		var first map[string][]float32
		for _, seed := range []uint64{1, 1, 2} {
			c.Seed = seed
			tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
			must(t, err)
			layers := float64(tr.runner.model.Config().Layers)
			got := map[string][]float32{}
			for _, p := range tr.runner.parts.Params {
				f := read(t, tr.runner, p.Value)
				got[p.Key] = f
				var sum, square float64
				for _, v := range f {
					sum += float64(v)
					square += float64(v) * float64(v)
				}
				mean, deviation := sum/float64(len(f)), math.Sqrt(square/float64(len(f)))
				want := 0.02
				switch p.Role {
				case graph.RoleBias:
					want = 0
				case graph.RoleNorm:
					want, mean = 1, mean-1
				case graph.RoleO, graph.RoleDown:
					want /= math.Sqrt(2 * layers)
				}
				if math.Abs(deviation-want) > 0.1*want || math.Abs(mean) > 0.1*want {
					t.Errorf("%s: mean %g, deviation %g, want %g", p.Key, mean, deviation, want)
				}
				if first != nil && want > 0 && want < 1 && slices.Equal(f, first[p.Key]) != (seed == 1) {
					t.Errorf("%s: seed %d does not decide it", p.Key, seed)
				}
			}
			if first == nil {
				first = got
			}
			must(t, tr.Close())
		}
	}
}

func TestHostileStates(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.Warmup = 1, 0
	res, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	path := filepath.Join(res.Checkpoint, stateFile)
	good, err := os.ReadFile(path)
	must(t, err)
	for name, change := range map[string]func() []byte{
		"truncated":   func() []byte { return good[:len(good)/2] },
		"empty":       func() []byte { return nil },
		"format":      func() []byte { return []byte(strings.Replace(string(good), `\"format\":1`, `\"format\":7`, 1)) },
		"negative":    func() []byte { return []byte(strings.Replace(string(good), `\"step\":1`, `\"step\":0`, 1)) },
		"no progress": func() []byte { return []byte(strings.Replace(string(good), stateKey, strings.ToUpper(stateKey), 1)) },
		"no moment":   func() []byte { return []byte(strings.Replace(string(good), "m.output", "m.0utput", 1)) },
	} {
		data := change()
		must(t, os.WriteFile(path, data, 0o666))
		_, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"})
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), stateFile) {
			t.Errorf("%s: error %v, want ErrCheckpoint that names the file", name, err)
		}
	}
}

func TestStateFits(t *testing.T) {
	file, err := safetensors.Parse("f", []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	must(t, err)
	s := &state{progress: progress{Format: stateFormat, Step: 1, At: Position{0, 3}, Seed: 1, SeqLen: 2, Data: "x"}, file: file}
	if err := s.fits(s.progress, 4); err != nil {
		t.Error(err)
	}
	old := *s
	s.Model, s.Objective, s.LoRA = "m", "lm", "{}"
	if err := old.fits(s.progress, 4); err != nil {
		t.Errorf("a checkpoint that does not say what is trained: %v", err)
	}
	for field, change := range map[string]func(p *progress){
		"seed": func(p *progress) { p.Seed++ }, "seq_len": func(p *progress) { p.SeqLen++ }, "optimizer": func(p *progress) { p.Optimizer = "sgd" },
		"data": func(p *progress) { p.Data = "y" }, "model": func(p *progress) { p.Model = "n" }, "objective": func(p *progress) { p.Objective = "sft" },
		"lora": func(p *progress) { p.LoRA = "{2}" },
	} {
		now := s.progress
		change(&now)
		if err := s.fits(now, 4); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field "+field) {
			t.Errorf("another %s: error %v", field, err)
		}
	}
	if err := s.fits(s.progress, 3); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "piece 3") {
		t.Errorf("error %v of a position behind the data", err)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\x50\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"hotpath_train\":\"{\\\"format\\\":1,\\\"step\\\":1,\\\"seq_len\\\":1}\"}}   "))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseState("f", data)
		if err != nil && !errors.Is(err, ErrCheckpoint) {
			t.Errorf("error %v is no ErrCheckpoint", err)
		}
		if err == nil && (s.Step < 1 || s.SeqLen < 1 || s.At.Next < 0 || s.At.Epoch < 0) {
			t.Errorf("accepted %+v", s.progress)
		}
	})
}
