package tokenizer

import "fmt"

// preRow is a pre-tokenizer of byte-level BPE, as the family's own tokenizer.json has it: where llama.cpp
// approximates an expression, the ids are those of the original.
type preRow struct {
	steps []step   // those that are written by hand,
	split []string // and after them expressions, each match of which is a piece
	more  []step   // and what comes after
	whole bool     // a piece that is a token is that token, whatever the merges say
	bos   bool     // BOS is added unless the file says otherwise
	nfc   bool     // the text is composed first
}

func (r preRow) make() ([]step, error) {
	steps := append([]step(nil), r.steps...)
	for _, expression := range r.split {
		more, err := splitter(expression, isolated, false)
		if err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.pre: %w", err)
		}
		steps = append(steps, more)
	}
	return append(steps, r.more...), nil
}

// Expressions of more than one family.
const (
	marksPattern     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	casedWords       = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%[1]s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%[1]s|%[2]s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	contractions     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	bloomPattern     = ` ?[^(\s|[.,!?…。，、।۔،])]+`
	kanaPattern      = "[一-龥\u3040-ゟ゠-ヿ]+"
	asciiWords       = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepSeekAlphabet = `\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+`
	deepSeekHan      = `[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+`
)

var (
	gpt4oPattern  = fmt.Sprintf(casedWords, contractions, `\p{N}{1,3}`)
	tekkenPattern = fmt.Sprintf(casedWords, "", `\p{N}`)
	youtuPattern  = fmt.Sprintf(casedWords, contractions, `\p{N}`)

	digitsThenGPT2 = []step{classCut{classDigit, isolated}, cutter(cutGPT2)}
)

// ggufPre holds the pre-tokenizers of byte-level BPE by tokenizer.ggml.pre.
var ggufPre = func() map[string]preRow {
	gpt2 := preRow{steps: []step{cutter(cutGPT2)}}
	neox := preRow{steps: []step{cutter(cutGPT2)}, nfc: true}
	starcoder := preRow{steps: digitsThenGPT2}
	llama3 := preRow{steps: []step{cutter(cutLlama3)}, whole: true, bos: true}
	llama3Plain := preRow{steps: []step{cutter(cutLlama3)}}
	qwen2 := preRow{steps: []step{cutter(cutQwen2)}, nfc: true}
	qwen2Plain := preRow{steps: []step{cutter(cutQwen2)}}
	deepSeek3 := preRow{split: []string{`\p{N}{1,3}`, kanaPattern, asciiWords}}
	bailing := preRow{split: []string{`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`}}
	gpt4o := preRow{split: []string{gpt4oPattern}}
	aya := preRow{split: []string{`\d{1,3}(?=(?:\d{3})*\b)`, gpt4oPattern}}
	bloom := preRow{split: []string{bloomPattern}}
	table := map[string]preRow{
		"default": {steps: []step{
			cutter(cutPunctRuns), cutter(cutGPT2), classCut{classNumber, contiguous}, cutter(cutThreeDigits),
		}},
		// Digits are looked for in the spelling of bytes, where some have digits: so does the original.
		"falcon":         {steps: []step{classCut{classPunct, contiguous}, cutter(cutGPT2), spellBytes{}, classCut{classDigit, contiguous}, cutter(cutThreeDigits)}},
		"deepseek-llm":   {split: []string{`[\r\n]`, deepSeekAlphabet, `\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+`, `\s+$`, deepSeekHan}, more: []step{classCut{classDigit, isolated}}},
		"deepseek-coder": {split: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, deepSeekHan}, more: []step{classCut{classDigit, isolated}}},
		"tekken":         {split: []string{tekkenPattern}, whole: true, bos: true},
		"youtu":          {split: []string{"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + kanaPattern, youtuPattern}, whole: true},
		"qwen35":         {split: []string{marksPattern}, nfc: true},
		"viking":         {split: []string{bloomPattern}, more: []step{classCut{classDigit, isolated}}},
		"superbpe":       {split: []string{`\p{N}+`, `(?=(\d{3})+(?!\d))`}},
		"seed-coder":     {split: []string{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`}},
		"exaone-moe":     {split: []string{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`}},
		"minicpm5":       {split: []string{`\p{N}{1,3}`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}, whole: true},
		"laguna":         {split: []string{`[^\n]+|[\n]+`, qwen2Pattern}},
		"chameleon":      {split: []string{`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`}, more: []step{classCut{classDigit, isolated}, classCut{classPunct, isolated}, cutter(cutGPT2)}, bos: true},
	}
	for _, group := range []struct {
		row   preRow
		names []string
	}{
		{gpt2, []string{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "exaone4", "jais", "trillion", "granite-docling", "jina-v1-en", "jina-v2-code", "roberta-bpe"}},
		{neox, []string{"mpt", "olmo"}},
		{starcoder, []string{"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"}},
		{preRow{steps: digitsThenGPT2, nfc: true}, []string{"command-r"}},
		{llama3, []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"}},
		{llama3Plain, []string{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}},
		{qwen2, []string{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"}},
		{qwen2Plain, []string{"stablelm2", "hunyuan", "solar-open", "grok-2"}},
		{deepSeek3, []string{"deepseek-v3", "hunyuan-dense", "joyai-llm"}},
		{bailing, []string{"bailingmoe", "bailingmoe2", "llada-moe"}},
		{gpt4o, []string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}},
		{preRow{split: gpt4o.split, whole: true}, []string{"granite-embed-multi-97m"}},
		{aya, []string{"tiny_aya", "cohere2moe"}},
		{bloom, []string{"bloom", "poro-chat", "gpt3-finnish"}},
	} {
		for _, name := range group.names {
			table[name] = group.row
		}
	}
	return table
}()

// ggufArch holds the pre-tokenizers of architectures in files that do not name one.
var ggufArch = map[string]string{
	"gpt2": "gpt-2", "gptneox": "mpt", "mpt": "mpt", "starcoder": "starcoder", "starcoder2": "starcoder",
	"falcon": "falcon", "bloom": "bloom", "refact": "refact", "codeshell": "codeshell", "olmo": "olmo",
	"command-r": "command-r", "dbrx": "dbrx",
}
