package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// inputs are the files that command lines read.
func inputs(s *settings, work string) map[string]string {
	var objects, many strings.Builder
	for i := range 400 {
		fmt.Fprintf(&objects, "{\"id\":%d,\"text\":\"text %d%s\"}\n", i, i, strings.Repeat(" of rain", i%9))
		fmt.Fprintf(&many, "line %d%s\n", i, strings.Repeat(" of words", i%5))
	}
	config := func(model, data string) string {
		return fmt.Sprintf(`{"model":%q,"data":%q,"out":%q,"steps":6,"batch_tokens":64,"seq_len":16,"checkpoint_every":2}`, model, data, filepath.Join(work, "out", "trained"))
	}
	return map[string]string{
		"texts.jsonl":   objects.String(),
		"texts.txt":     many.String(),
		"corpus.txt":    strings.Repeat("a longer text, made of the same words again and again. ", 60),
		"bad.jsonl":     "{\"text\":\"one\"}\n{\"text\":\n{\"text\":\"three\"}\n",
		"garbage.json":  "{\"format\":\"hotpath-profile\",\"version\":1,\"plans\":[{}]",
		"garbage.gguf":  "GGUF\x03\x00\x00\x00" + strings.Repeat("\xff", 64),
		"prompts.jsonl": "{\"text\":\"once\"}\n{\"text\":\"twice upon\"}\n",
		"train.json":    config(filepath.Join(s.root, "internal/testmodels/testdata/llama"), filepath.Join(work, "in", "corpus.txt")),
		"no-data.json":  config(filepath.Join(s.root, "internal/testmodels/testdata/llama"), filepath.Join(work, "in", "none.txt")),
		"broken.json":   `{"model":7}`,
	}
}

// commandLines are all commands, right and wrong.
func commandLines(s *settings, in string) []line {
	replace := strings.NewReplacer(
		"BERT", filepath.Join(s.root, "internal/testmodels/testdata/bert"),
		"LLAMA", filepath.Join(s.root, "internal/testmodels/testdata/llama"),
		"GGUF", filepath.Join(s.root, "internal/testmodels/testdata/gguf/llama-f32.gguf"),
		"RERANKER", filepath.Join(s.root, "internal/model/testdata/encoders/rerank-bert"),
		"IN", in,
	)
	lines := []line{
		{args: "info", status: 0},
		{args: "list"},
		{args: "--version", same: true},
		{args: "help embed", same: true},
		{args: "inspect BERT"},
		{args: "inspect GGUF --format json"},
		{args: "tokenize -m BERT -f IN/texts.txt --format jsonl", same: true},
		{args: "tokenize -m LLAMA -f -", stdin: "one\ntwo\n", same: true},
		{args: "tokenize -m BERT --decode 1 2 3", same: true},
		{args: "embed -m BERT --invariant -f IN/texts.jsonl --format jsonl", same: true},
		{args: "embed -m BERT --invariant -f IN/texts.jsonl -o OUT/v.npy", same: true},
		{args: "embed -m BERT --invariant -f IN/texts.jsonl --format npy", same: true},
		{args: "embed -m BERT --invariant -f - --input jsonl -o OUT/w.csv", stdin: strings.Repeat("{\"text\":\"a\",\"n\":1}\n", 50), same: true},
		{args: "embed -m BERT -f IN/texts.jsonl -o OUT/r.jsonl --resume", same: true, resumes: true},
		{args: "embed -m BERT -f IN/texts.txt -o OUT/r.npy --resume --quantize int8", same: true, resumes: true},
		{args: "embed -m BERT a b --profile=OUT/p.json"},
		{args: "embed -m BERT a b --profile=OUT/p.html --profile-mem"},
		{args: "embed -m BERT a b --pprof OUT/pprof"},
		{args: "similar -m BERT --invariant rain -f IN/texts.txt --top 3", same: true},
		{args: "rerank -m RERANKER --invariant rain -f IN/texts.txt --top 3 --format jsonl", same: true},
		{args: "run -m LLAMA -p once -n 12 --seed 7 --invariant", same: true},
		{args: "run -m LLAMA -f IN/prompts.jsonl -n 8 --temp 0 --format jsonl"},
		{args: "score -m LLAMA --invariant -f IN/texts.txt --format jsonl", same: true},
		{args: "perplexity -m LLAMA --invariant --ctx 32 -f IN/corpus.txt --format json", same: true},
		{args: "convert LLAMA -o OUT/c.gguf --format json", same: true},
		{args: "convert BERT -o OUT/b.gguf --type q8_0 --format json", same: true},
		{args: "quantize GGUF OUT/q.gguf Q8_0 --format json", same: true},
		{args: "quantize GGUF OUT/k.gguf Q4_K_M --format json", same: true},
		{args: "train IN/train.json --validate", same: true},
		{args: "train IN/train.json --dry-run"},
		{args: "train IN/train.json --resume auto", resumes: true},
		{args: "bench rope --filter heads=9/.*len=1-1$ --count 1 --time 1ms"},
		{args: "bench embed -m BERT --list"},
		{args: "profile run -m BERT --iterations 1 --tokens 4 -o OUT/report.md"},
		{args: "profile run -m LLAMA --work generate --iterations 1 --tokens 4"},
		{args: "study cache --quick -o OUT/study"},
		// Mistakes.
		{args: "nonsense", status: 2, same: true},
		{args: "embed --nonsense", status: 2, same: true},
		{args: "embed text", status: 2, same: true},
		{args: "embed -m BERT", status: 2, same: true},
		{args: "embed -m BERT text --profile p.json", status: 2, same: true},
		{args: "embed -m BERT text --format nonsense", status: 2, same: true},
		{args: "embed -m BERT text --dim 100000", status: 1, same: true},
		{args: "embed -m BERT text --pooling nonsense", status: 2, same: true},
		{args: "embed -m none text", status: 1, same: true},
		{args: "embed -m IN/garbage.gguf text", status: 1, same: true},
		{args: "embed -m BERT -f IN/none.txt", status: 1, same: true},
		{args: "embed -m BERT -f IN/bad.jsonl -o OUT/bad.npy", status: 1, same: true},
		{args: "embed -m BERT --invariant -f IN/bad.jsonl --format jsonl", status: 1, same: true},
		{args: "embed -m BERT text -o OUT/none/x.npy", status: 1, same: true},
		{args: "embed -m BERT -f IN/texts.txt -o OUT/wrong.npy --resume --pooling nonsense", status: 2, same: true},
		{args: "run -m BERT -p text", status: 1, same: true},
		{args: "score -m BERT text", status: 1, same: true},
		{args: "rerank -m LLAMA a b", status: 1, same: true},
		{args: "convert IN -o OUT/n.gguf", status: 1, same: true},
		{args: "quantize GGUF OUT/q.gguf Q9", status: 2, same: true},
		{args: "quantize IN/garbage.gguf OUT/q.gguf Q8_0", status: 1, same: true},
		{args: "train IN/broken.json", status: 1, same: true},
		{args: "train IN/no-data.json", status: 1},
		{args: "profile show IN/garbage.json", status: 1, same: true},
		{args: "profile export IN/garbage.json -o OUT/x.html", status: 1, same: true},
		{args: "profile show IN/none.json", status: 1, same: true},
		{args: "profile compare IN/garbage.json IN/garbage.json", status: 1, same: true},
		{args: "bench nonsense", status: 2, same: true},
		{args: "study nonsense", status: 2, same: true},
		{args: "pull owner/none", status: 1},
		{args: "rm none --yes", status: 1, same: true},
	}
	for i := range lines {
		lines[i].args = replace.Replace(lines[i].args)
	}
	return lines
}
