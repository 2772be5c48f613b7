package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// Work is something that all engines of a group do.
type Work struct {
	Name    string
	Op      string // embed, prefill, decode, train, or start, whole, peak or steady of commands
	Texts   int
	Lengths []int   // in tokens; the texts take them in turn
	Steps   int     // of decode and whole: tokens per text
	Cores   bool    // the calls of a turn have a core each: its rate is the mean of theirs
	Reps    int     // timed batches of one turn
	Seconds float64 // of turns in a round, where runners are paired; 0 for one turn
	Skip    int     // tokens of each sequence, or reads of all memory, that are not timed
}

func (w Work) tokens() int {
	if w.Op == "decode" || w.Op == "whole" {
		return w.Texts * w.Steps
	}
	n := 0
	for i := range w.Texts {
		n += w.Lengths[i%len(w.Lengths)]
	}
	return n
}

// Runner is an engine with its model: one process, one row for each Work.
type Runner struct {
	Name  string
	Argv  []string
	Env   []string
	Op    string  // instead of the Work's own
	Unit  string  // tok/s, where it is ""
	Peer  bool    // another engine, though hotpath's own worker runs it
	Limit float64 // answers are wrong below this worst cosine, or above this worst lead
	// Base is the runner that this one is set against; "" sets the group's
	// Lead against this one.
	Base string
	// Way is how a hotpath worker runs batches. Runners that differ in it alone
	// are one process, which goes from way to way call by call.
	Way string
}

// Group is one table.
type Group struct {
	Name, Title, Note string
	Lead              string // whose ratio to the others is given
	Runners           []Runner
	Reference         Runner // whose answers are right; none where Argv is nil
	Works             []Work
	Inputs            inputs
	Paired            bool // all runners are ways of one process
	Gains             []Gain
	Curve             *Curve       // shown in place of the runners' rows
	Asked             bool         // measured only where it is asked for by its name
	Make              func() error // makes the models that it needs; nil: they are there
}

// Gain sets what one runner gains on its base against what another does, in a
// row of its own: of paired runners.
type Gain struct{ Name, Of, Over string }

// What answers are held to. A bf16 engine has to keep what hotpath promises
// for auto; quantized ones lose what their format loses. Leads are in logits:
// how much better f32 holds its own choice to be than the token that was
// taken. The mean is the test of a text, as the worst grows with the number of
// tokens: llama.cpp, which rounds activations to 8 bits, was seen 0.6 off at one
// of 512 with a mean under 0.005, and it answers the same in a batch and alone.
const (
	floorF32  = 0.9999
	floorBF16 = 0.999
	floorQ8   = 0.997
	floorINT8 = 0.95
	meanLead  = 0.05
	worstLead = 0.5 // of hotpath
	peerLead  = 2.0
)

func embed(texts, tokens, reps int) Work {
	return Work{Name: fmt.Sprintf("%d x %d", texts, tokens), Op: "embed", Texts: texts, Lengths: []int{tokens}, Reps: reps}
}

// hotpath is this engine; the flags are those of runWorker.
func (p place) hotpath(name, model string, limit float64, flags ...string) Runner {
	argv := []string{selfPath, "worker", "--model", model, "--threads", strconv.Itoa(p.threads)}
	return Runner{Name: name, Argv: append(argv, flags...), Limit: limit}
}

// peer is a worker under scripts/peers.
func (p place) peer(name, venv, script, model string, limit float64, args ...string) Runner {
	argv := []string{filepath.Join(p.cache, venv, "bin", "python"), filepath.Join("scripts", "peers", script), model, strconv.Itoa(p.threads)}
	return Runner{Name: name, Argv: append(argv, args...), Limit: limit}
}

func (p place) reference(model string) Runner {
	return p.peer("reference", "venv", "pytorch_peer.py", model, 0, "f32")
}

// groups is everything that is measured.
func groups(p place) []Group {
	minilm, onnx := p.real("all-MiniLM-L6-v2"), p.made("minilm-f32.onnx")
	q8, f16 := p.made("minilm-q8_0.gguf"), p.made("minilm-f16.gguf")
	gemma := p.made("embeddinggemma-q8_0.gguf")
	english := inputs{Model: minilm}
	one := p
	one.threads = 1
	openvino := func(p place, name, precision string, limit float64) Runner {
		return p.peer(name, "venv", "openvino_peer.py", onnx, limit, precision)
	}
	based := func(r Runner, base string) Runner {
		r.Base = base
		return r
	}
	way := func(r Runner, name string) Runner {
		r.Way = name
		return r
	}
	reads := func(p place, name, base string) Runner {
		return Runner{Name: name, Argv: []string{selfPath, "worker", "--threads", strconv.Itoa(p.threads)}, Op: "read", Unit: "GB/s", Base: base}
	}
	return slices.Concat([]Group{
		{
			Name: "minilm", Title: "all-MiniLM-L6-v2, default precision", Lead: "hotpath",
			Note:      "Texts x tokens of one call; one text of 16 tokens is the latency of a query. Tokenizing is not measured.",
			Reference: p.reference(minilm), Inputs: english,
			Works: []Work{embed(1, 16, 40), embed(8, 64, 6), embed(32, 128, 1), embed(4, 256, 3)},
			Runners: []Runner{
				p.hotpath("hotpath", minilm, floorBF16),
				openvino(p, "OpenVINO bf16", "bf16", floorBF16),
				openvino(p, "OpenVINO f32", "f32", floorF32),
				p.peer("PyTorch bf16", "venv", "pytorch_peer.py", minilm, floorBF16, "bf16"),
				p.peer("ONNX Runtime int8", "venv", "onnxruntime_peer.py", p.made("minilm-int8.onnx"), floorINT8),
				p.peer("ONNX Runtime f32", "venv", "onnxruntime_peer.py", onnx, floorF32),
			},
		},
		{
			Name: "minilm-gguf", Title: "all-MiniLM-L6-v2 Q8_0, the same GGUF file", Lead: "hotpath",
			Reference: p.reference(minilm), Inputs: english,
			Works:   []Work{embed(1, 16, 20), embed(1, 128, 8), embed(1, 256, 4)},
			Runners: []Runner{p.hotpath("hotpath", q8, floorQ8), p.llama("", q8, floorQ8)},
		},
		{
			Name: "embeddinggemma", Title: "EmbeddingGemma-300M Q8_0, real shape and random weights", Lead: "hotpath",
			Reference: p.reference(gemma), Inputs: inputs{Model: gemma, Random: true},
			Works:   []Work{embed(1, 64, 2), embed(1, 128, 2), embed(1, 256, 1), embed(1, 512, 1)},
			Runners: []Runner{p.hotpath("hotpath", gemma, floorQ8), p.llama("", gemma, floorQ8)},
		},
	}, p.generating(), []Group{
		{
			Name: "avx2-minilm-q8_0", Title: "all-MiniLM-L6-v2 Q8_0 on AVX2 alone", Lead: "hotpath",
			Note:      "HOTPATH_CPU=avx2 against llama.cpp built for AVX2, FMA and F16C.",
			Reference: p.reference(minilm), Inputs: english,
			Works:   []Work{embed(1, 16, 10), embed(1, 128, 3), embed(1, 256, 2)},
			Runners: []Runner{tier("avx2", p.hotpath("hotpath", q8, floorQ8)), p.llama("avx2", q8, floorQ8)},
		},
		{
			Name: "avx2-minilm-f16", Title: "all-MiniLM-L6-v2 f16 on AVX2 alone", Lead: "hotpath",
			Reference: p.reference(minilm), Inputs: english,
			Works:   []Work{embed(1, 16, 10), embed(1, 128, 3), embed(1, 256, 2)},
			Runners: []Runner{tier("avx2", p.hotpath("hotpath", f16, floorBF16)), p.llama("avx2", f16, floorBF16)},
		},
		p.scaling(minilm, english),
		{
			Name: "threads-peers", Title: fmt.Sprintf("From 1 to %d threads: OpenVINO, and reads from memory", p.threads),
			Reference: p.reference(minilm), Inputs: english,
			Works: []Work{embed(32, 128, 1)},
			Runners: []Runner{
				openvino(one, "OpenVINO bf16, 1 thread", "bf16", floorBF16),
				based(openvino(p, fmt.Sprintf("OpenVINO bf16, %d threads", p.threads), "bf16", floorBF16), "OpenVINO bf16, 1 thread"),
				reads(one, "memory reads, 1 thread", ""),
				reads(p, fmt.Sprintf("memory reads, %d threads", p.threads), "memory reads, 1 thread"),
			},
		},
		{
			Name: "parallel", Title: "How threads share a batch: auto against fine and coarse", Lead: "auto",
			Note: "all-MiniLM-L6-v2. Fine: all threads work on one text's products; coarse: each has texts of its own; auto, the default, picks, and its row says how its calls ran. " +
				"One process goes from way to way call by call; the ratio is the median of those of its turns, each of which is the time of all its calls, what auto tries out included. Fine is there twice: what it is against itself is the noise.",
			Reference: p.reference(minilm), Inputs: english,
			Works: parallelWorks(), Paired: true,
			Runners: []Runner{
				way(p.hotpath("auto", minilm, floorBF16), "auto"),
				way(p.hotpath("fine", minilm, floorBF16), "fine"),
				way(p.hotpath("coarse", minilm, floorBF16), "coarse"),
				based(way(p.hotpath("fine, again", minilm, floorBF16), "fine"), "fine"),
			},
		},
	}, p.curves())
}

// parallelTokens are about as many as a way has in a turn, parallelCalls the
// most calls: enough that what auto tries out is in most turns.
const parallelTokens, parallelCalls = 8192, 24

// parallelSeconds are what a round has for works from so many tokens on: long
// calls are few, and the machine is not the same for two of them.
var parallelSeconds = []struct {
	tokens  int
	seconds float64
}{{0, 1}, {256, 2}, {1024, 3}, {4096, 4}, {16384, 5}, {32768, 6}}

func parallelWorks() []Work {
	var out []Work
	for _, mix := range []struct {
		name    string
		lengths []int
	}{{"5, 15 and 40 tokens", []int{5, 15, 40}}, {"12 tokens", []int{12}}, {"256 tokens", []int{256}}} {
		for _, texts := range []int{1, 8, 16, 32, 64, 128} {
			w := Work{Name: fmt.Sprintf("%d of %s", texts, mix.name), Op: "embed", Texts: texts, Lengths: mix.lengths}
			w.Reps = max(1, min(parallelCalls, parallelTokens/w.tokens()))
			for _, p := range parallelSeconds {
				if w.tokens() >= p.tokens {
					w.Seconds = p.seconds
				}
			}
			out = append(out, w)
		}
	}
	return out
}
