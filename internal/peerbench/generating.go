package main

import (
	"fmt"
	"path/filepath"
)

// decodePrompt and decodeSteps are long enough for a step's cost to show and short
// enough for many rounds.
const (
	decodePrompt = 32
	decodeSteps  = 32
	longPrompt   = 4096 // tokens of a long context
	longContext  = 4352 // that is reserved for it
)

func prefill(tokens, reps int) Work {
	return Work{Name: fmt.Sprintf("prefill %d", tokens), Op: "prefill", Texts: 1, Lengths: []int{tokens}, Reps: reps}
}

func decode(seqs int) Work {
	name := "decode"
	if seqs > 1 {
		name = fmt.Sprintf("decode, %d at once", seqs)
	}
	return Work{Name: name, Op: "decode", Texts: seqs, Lengths: []int{decodePrompt}, Steps: decodeSteps, Reps: 1}
}

// llama is llama.cpp, built for a kind of machine: "" for this one.
func (p place) llama(build, model string, limit float64, args ...string) Runner {
	r := p.peer("llama.cpp", "venv", "llamacpp_peer.py", model, limit, args...)
	if build != "" {
		r.Env = append(r.Env, "LLAMA_CPP_LIB_PATH="+filepath.Join(p.cache, "llama-"+build))
	}
	return r
}

// tier is a runner of hotpath that takes the instructions of a tier alone.
func tier(name string, r Runner) Runner {
	r.Env = append(r.Env, "HOTPATH_CPU="+name)
	return r
}

// generating are the groups of generated text.
func (p place) generating() []Group {
	smollm2 := p.real("SmolLM2-135M-Instruct.Q4_1.gguf")
	english := inputs{Model: smollm2}
	long := decode(1)
	long.Name, long.Lengths = fmt.Sprintf("decode after %d tokens", longPrompt), []int{longPrompt}
	context := fmt.Sprint(longContext)
	plain := p.llama("", smollm2, peerLead, context, "plain")
	plain.Name = "llama.cpp, no flash attention"
	const smollm2Title = "SmolLM2-135M-Instruct Q4_1"
	out := []Group{
		{
			Name: "smollm2", Title: smollm2Title, Lead: "hotpath",
			Note:      "hotpath's decode includes choosing the token, llama.cpp's does not. Tokens of all sequences together.",
			Reference: p.reference(smollm2), Inputs: english,
			Works:   []Work{prefill(128, 3), prefill(512, 1), decode(1), decode(4), decode(8), decode(16)},
			Runners: []Runner{p.hotpath("hotpath", smollm2, worstLead), p.llama("", smollm2, peerLead)},
		},
		{
			Name: "smollm2-long", Title: smollm2Title + ", a long context", Lead: "hotpath",
			Note:      "KV in f16 for both.",
			Reference: p.reference(smollm2), Inputs: english,
			Works:   []Work{long},
			Runners: []Runner{p.hotpath("hotpath", smollm2, worstLead, "--context", context), p.llama("", smollm2, peerLead, context), plain},
		},
		p.sampling(smollm2, english),
		p.manyPrompts(smollm2Title, english),
	}
	for _, t := range []struct{ file, name string }{{"q4_0", "Q4_0"}, {"q4_k_m", "Q4_K_M"}, {"q8_0", "Q8_0"}} {
		model := p.made("llama-1b-" + t.file + ".gguf")
		out = append(out, Group{
			Name: "llama1b-" + t.file, Title: "Llama 1B " + t.name + ", real shape and random weights", Lead: "hotpath",
			Reference: p.reference(model), Inputs: inputs{Model: model, Random: true},
			Works:   []Work{decode(1)},
			Runners: []Runner{p.hotpath("hotpath", model, worstLead), p.llama("", model, peerLead)},
		})
	}
	q4, q8 := p.made("llama-1b-q4_0.gguf"), p.made("llama-1b-q8_0.gguf")
	out = append(out, p.bandwidth("smollm2", smollm2Title, english),
		p.bandwidth("llama1b", "Llama 1B Q4_0", inputs{Model: q4, Random: true}),
		p.starting("smollm2", smollm2Title, smollm2), p.starting("llama1b", "Llama 1B Q4_0", q4),
		p.memory("smollm2", smollm2Title, smollm2), p.memory("llama1b-q4_0", "Llama 1B Q4_0", q4), p.memory("llama1b-q8_0", "Llama 1B Q8_0", q8))
	minilm := inputs{Model: p.real("all-MiniLM-L6-v2")}
	out = append(out, p.besideBusy("smollm2", smollm2Title, english, decode(1), worstLead)...)
	out = append(out, p.besideBusy("minilm", "all-MiniLM-L6-v2, 8 x 64,", minilm, embed(8, 64, 4), floorBF16)...)
	for _, t := range []struct{ name, note string }{
		{"avx2", "HOTPATH_CPU=avx2 against llama.cpp built for AVX2, FMA and F16C."},
		{"vnni", "HOTPATH_CPU=vnni against llama.cpp built for AVX-512 and its VNNI, without tiles."},
	} {
		out = append(out, Group{
			Name: t.name + "-smollm2", Title: smollm2Title + " on " + t.name + " alone", Lead: "hotpath", Note: t.note,
			Reference: p.reference(smollm2), Inputs: english,
			Works:   []Work{prefill(128, 1), prefill(512, 1), decode(1), decode(8)},
			Runners: []Runner{tier(t.name, p.hotpath("hotpath", smollm2, worstLead)), p.llama(t.name, smollm2, peerLead)},
		})
	}
	return out
}

// sampling sets drawing tokens against taking the best ones, in one process.
func (p place) sampling(model string, in inputs) Group {
	greedy := p.hotpath("greedy", model, worstLead)
	greedy.Way = greedy.Name
	runners := []Runner{greedy}
	for _, name := range []string{"temperature 0.8, top-k 40", "temperature 0.8", "top-p 0.9", "min-p 0.05", "penalties, top-k 40"} {
		drawn := p.hotpath(name, model, 0)
		drawn.Way, drawn.Op, drawn.Base = name, "decode", greedy.Name // nothing to hold against the reference
		runners = append(runners, drawn)
	}
	works := []Work{decode(1), decode(16)}
	for i := range works {
		works[i].Reps, works[i].Seconds = 2, samplingSeconds
	}
	return Group{
		Name: "sampling", Title: "Drawing tokens against taking the best ones",
		Note:      "SmolLM2-135M-Instruct Q4_1. One process goes from one to the other call by call. Without a temperature in the name it is 0.8.",
		Reference: p.reference(model), Inputs: in, Paired: true, Works: works, Runners: runners,
	}
}

// samplingSeconds are some calls of both.
const samplingSeconds = 3

// starting sets the whole command against llama.cpp's: from its start until the
// first token is written.
func (p place) starting(name, title string, model string) Group {
	return Group{
		Name: "start-" + name, Title: "From the start of the command to the first token, " + title, Lead: "hotpath run",
		Note:    "A prompt of some words, a file that is in memory; until the first byte of the answer is there.",
		Inputs:  inputs{Model: model, Random: true},
		Works:   []Work{{Name: "first token", Op: "start", Texts: 1, Lengths: []int{1}, Reps: 1}},
		Runners: p.commands(model, "per s", 1, 0),
	}
}

// manyPrompts sets the whole command for many prompts against llama.cpp's, and against
// its library, of which only decoding is timed.
func (p place) manyPrompts(title string, in inputs) Group {
	threads := fmt.Sprint(p.threads)
	command := func(name string, argv ...string) Runner {
		return Runner{Name: name, Argv: append([]string{selfPath, "worker", "--command"}, argv...)}
	}
	ours := command("hotpath run -f", filepath.Join("bin", "hotpath"), "run", "--threads", threads, "-m", in.Model,
		"--raw", "--temp", "0", "--ignore-eos", "-n", stepsArg, "-f", "-")
	theirs := command("llama-batched-bench", filepath.Join(p.cache, "llama-tools", "llama-batched-bench"), "-t", threads, "-m", in.Model,
		"-c", fmt.Sprint(16*(decodePrompt+manySteps)), "-npp", fmt.Sprint(decodePrompt), "-ntg", stepsArg, "-npl", textsArg)
	theirs.Peer = true
	library := p.llama("", in.Model, 0)
	library.Name, library.Op = "llama.cpp's library, decoding alone", "decode"
	var works []Work
	for _, texts := range []int{8, 16} {
		works = append(works, Work{Name: fmt.Sprintf("%d prompts", texts), Op: "whole", Texts: texts, Lengths: []int{decodePrompt}, Steps: manySteps, Reps: 1})
	}
	return Group{
		Name: "prompts", Title: "Many prompts by the command, " + title, Lead: "hotpath run -f",
		Note:   fmt.Sprintf("Prompts of about %d tokens, %d generated for each. Tokens generated per second of the whole command: start, loading, prompts and decoding. llama-batched-bench does not choose tokens.", decodePrompt, manySteps),
		Inputs: in, Works: works, Runners: []Runner{ours, theirs, library},
	}
}

// manySteps are enough for the start to be a small part.
const manySteps = 128

// memory sets what the whole command holds against llama.cpp's.
func (p place) memory(name, title string, model string) Group {
	return Group{
		Name: "memory-" + name, Title: "Resident memory, " + title, Lead: "hotpath run",
		Note:   fmt.Sprintf("MiB of the whole command, %d tokens generated in a context of %d, KV in f16: the most that it held, and the median while it wrote the answer. Less is better.", memoryTokens, memoryContext),
		Inputs: inputs{Model: model, Random: true},
		Works: []Work{
			{Name: "peak", Op: "peak", Texts: 1, Lengths: []int{1}, Reps: 1},
			{Name: "while generating", Op: "steady", Texts: 1, Lengths: []int{1}, Reps: 1},
		},
		Runners: p.commands(model, "MiB", memoryTokens, memoryContext),
	}
}

const memoryTokens, memoryContext = 16, 1024

// commands are the commands of hotpath and of llama.cpp that generate so many tokens
// in a context, 0 for that of the model.
func (p place) commands(model, unit string, tokens, context int) []Runner {
	command := func(name string, argv ...string) Runner {
		argv = append([]string{selfPath, "worker", "--command"}, argv...)
		return Runner{Name: name, Argv: append(argv, "-m", model, "--temp", "0", "--ignore-eos", "-n", fmt.Sprint(tokens), "-p", startPrompt), Unit: unit}
	}
	threads, ctx := fmt.Sprint(p.threads), fmt.Sprint(context)
	ours := command("hotpath run", filepath.Join("bin", "hotpath"), "run", "--threads", threads, "--raw", "--ctx", ctx)
	// It refuses vocabularies that want an end behind a text.
	theirs := command("llama-completion", filepath.Join(p.cache, "llama-tools", "llama-completion"), "-t", threads, "-c", ctx, "-no-cnv", "--no-display-prompt",
		"--override-kv", "tokenizer.ggml.add_eos_token=bool:false")
	theirs.Peer = true
	return []Runner{ours, theirs}
}

const startPrompt = "The first day of the week is"

// bandwidth sets the bytes that decoding reads against what memory gives at that
// byte count.
func (p place) bandwidth(name, title string, in inputs) Group {
	ours, reads := p.hotpath("hotpath", in.Model, 0), p.hotpath("memory reads", in.Model, 0)
	ours.Op, ours.Unit = "bytes", "GB/s"
	reads.Op, reads.Unit = "reads", "GB/s"
	work := decode(1)
	work.Steps = 3 * decodeSteps // reads of a small model go over its bytes about 100 times: what is in L3 then is there for both
	return Group{
		Name: "bandwidth-" + name, Title: "Bytes read per second in decode, " + title, Lead: "hotpath",
		Note:   "Weights that a token needs, against reads of as many bytes.",
		Inputs: in, Works: []Work{work}, Runners: []Runner{ours, reads},
	}
}
