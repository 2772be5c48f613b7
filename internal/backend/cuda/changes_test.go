package cuda

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// counting keeps what each replay was of and what crossed in it. Replays wait until
// begin is closed.
type counting struct {
	*fake
	begin chan struct{}
	steps []step
}

type step struct {
	of      list
	sizes   tensor.Bind
	carried [2]int64
}

func (c *counting) replay(l list) error {
	<-c.begin
	err := c.fake.replay(l)
	c.steps = append(c.steps, step{l, c.sizes, c.carried})
	return err
}

// A decode step of 64 sequences with contexts of 4096 tokens carries less than 4 KiB in
// both directions together, whether tokens are the best or drawn, also where all
// sequences get a new block.
func TestDecodeStepCarriesLittle(t *testing.T) {
	const seqs, prompt, tokens, least = 64, 8, 130, 4096
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields["max_position_embeddings"] = 4096
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]sample.Params{"greedy": {}, "sampled": {Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.05, Seed: 3}} {
		t.Run(name, func(t *testing.T) {
			drv := &counting{fake: newFake(), begin: make(chan struct{})}
			be, err := newBackend(Options{}, drv)
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			st, err := weights.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			m, err := model.Open(st)
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.Open(m, be, engine.Options{MaxSeqs: seqs, KVBlocks: seqs * 4, KVType: tensor.F16})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if got := e.Options().Ctx; got != 4096 {
				t.Fatalf("a context of %d tokens, expected 4096", got)
			}
			var streams []*engine.Stream
			for i := range seqs {
				ids := make([]int32, prompt)
				ids[0] = int32(i)
				s, err := e.Generate(t.Context(), engine.Request{Prompt: ids, MaxTokens: tokens, Sample: how})
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, s)
			}
			close(drv.begin) // all sequences are there, however slow the machine is
			for _, s := range streams {
				for _, ok := s.Next(); ok; _, ok = s.Next() {
				}
				if s.Err() != nil {
					t.Fatal(s.Err())
				}
			}
			whole, most, met := 0, int64(0), map[list]bool{}
			for _, s := range drv.steps {
				if s.sizes.T != seqs || s.carried[1] != 4*seqs {
					continue // prompts, or sequences that end
				}
				if !met[s.of] {
					met[s.of] = true
					continue // a slot gets to know the sequences
				}
				whole++
				most = max(most, s.carried[0]+s.carried[1])
			}
			t.Logf("%d steps of %d sequences, at most %d bytes", whole, seqs, most)
			if whole < tokens/2 || most >= least {
				t.Errorf("%d steps of %d sequences carry up to %d bytes, expected less than %d", whole, seqs, most, least)
			}
			if drv.torn > 0 || len(drv.broken) > 0 {
				t.Errorf("%d inputs are not what the host has; %v", drv.torn, drv.broken)
			}
		})
	}
}

// Whatever changes between runs, and however many rows they have, the card has what
// the host has.
func TestChangesAreWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const rows, row = 9, 32
	c := &changes{sent: make([]byte, rows*row), list: make([]byte, 4+rows*row)}
	host, card := make([]byte, rows*row), make([]byte, rows*row)
	whole, listed := 0, 0
	for i := range 2000 {
		if i%97 == 50 { // a run failed
			c.known = 0
			for k := range card {
				card[k] = byte(rng.Uint32())
			}
		}
		n := row * rng.IntN(rows+1)
		for range rng.IntN(6) {
			host[rng.IntN(len(host))] = byte(rng.Uint32())
		}
		got := c.prepare(host[:n], row)
		var count int32
		if count = int32(uint32(c.list[0]) | uint32(c.list[1])<<8 | uint32(c.list[2])<<16 | uint32(c.list[3])<<24); count < 0 {
			copy(card, host[:n])
			whole++
		} else {
			for k := range int(count) {
				at := int(c.list[4+8*k]) | int(c.list[5+8*k])<<8
				copy(card[4*at:4*at+4], c.list[8+8*k:])
			}
			listed++
		}
		if string(card[:n]) != string(host[:n]) {
			t.Fatalf("run %d: the card has other bytes than the host", i)
		}
		if got > int64(n)+4 {
			t.Fatalf("run %d: %d bytes travel, the input has %d", i, got, n)
		}
	}
	if whole < 20 || listed < 20 {
		t.Errorf("%d runs with all bytes and %d with changes: the test shows too little", whole, listed)
	}
}

// An input that stays as it was does not travel again, until a run fails: nobody knows
// what the card has then. Profiles show what travelled.
func TestFailedRunsCarryAllAgain(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	const sizes, count, rows = sizesBytes, 4, 3 * 8 * 4
	var sum int64
	for i, want := range []int64{sizes + count + rows, sizes + count, sizes + count, sizes + count + rows, sizes + count} {
		if i == 2 {
			f.failSync = failure("cuStreamSynchronize", 719, "")
		}
		err := s.Run(t.Context(), tensor.Bind{T: 3, S: 1, R: 1})
		if (err != nil) != (i == 2) {
			t.Fatalf("run %d: %v", i, err)
		}
		if f.carried[0] != want {
			t.Errorf("run %d: %d bytes went to the card, expected %d", i, f.carried[0], want)
		}
		if err == nil {
			sum += want
		}
	}
	var shown int64
	for _, p := range rec.Snapshot().Plans {
		for i, s := range p.Steps {
			if s.Name == "inputs" {
				shown += p.Stats[i].Bytes
			}
		}
	}
	if shown != sum {
		t.Errorf("the profile has %d bytes of inputs, expected %d", shown, sum)
	}
}

// Weights of single rows are streamed, codes multiplied on integers, at the default
// precision; in f32 where that is asked for.
func TestSingleRowsStream(t *testing.T) {
	for _, c := range []struct {
		o    Options
		k    int
		want string
	}{{Options{}, 512, "streamed"}, {Options{F32: true}, 512, "k_one_"}, {Options{OldCodes: true}, 512, "k_one_"}, {Options{}, 64, "k_one_"}, {Options{}, 1 << 16, "k_one_"}} {
		for _, d := range []tensor.DType{tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K} {
			if c.k%d.Info().BlockLen != 0 {
				continue
			}
			f := newFake()
			bindOne(t, f, c.o, d, c.k)
			want := c.want
			switch {
			case want == "streamed" && d == tensor.BF16:
				want = "k_stream_"
			case want == "streamed":
				want = "k_codes_"
			}
			found := false
			for _, launches := range f.lists {
				for _, l := range launches {
					if strings.HasPrefix(l.kernel, want) {
						found = true
					}
				}
			}
			if !found {
				t.Errorf("%+v, %s, %d values: no %s", c.o, d, c.k, want)
			}
		}
	}
}
