package convert

// defaults are what a missing field of config.json means.
type defaults struct {
	rms, layer float64 // epsilon of norms, of one kind or the other
	theta      float64 // of the rope; 0 for 10000
	positions  int     // 0 for 2048
	head       int     // size of a head; 0 for what the width gives
	window     int
}

// missing has the defaults by model_type, as transformers has them.
var missing = map[string]defaults{
	"llama":       {rms: 1e-6},
	"mistral":     {rms: 1e-6, positions: 131072, window: 4096},
	"mixtral":     {rms: 1e-5, positions: 131072, theta: 1e6},
	"smollm3":     {rms: 1e-6, positions: 32768, theta: 2e6},
	"granite":     {rms: 1e-6},
	"qwen2":       {rms: 1e-6, positions: 32768, window: 4096},
	"qwen3":       {rms: 1e-6, positions: 32768, window: 4096, head: 128},
	"qwen2_moe":   {rms: 1e-6, positions: 32768, window: 4096},
	"qwen3_moe":   {rms: 1e-6, positions: 32768, window: 4096},
	"olmo2":       {rms: 1e-5},
	"olmo3":       {rms: 1e-5, theta: 500000, window: 4096},
	"gemma":       {rms: 1e-6, positions: 8192, head: 256},
	"gemma2":      {rms: 1e-6, positions: 8192, head: 256, window: 4096},
	"gemma3_text": {rms: 1e-6, positions: 131072, theta: 1e6, head: 256, window: 4096},
	"phi3":        {rms: 1e-5, positions: 4096},
	"phi":         {layer: 1e-5},
	"stablelm":    {layer: 1e-5, positions: 4096},
	"starcoder2":  {layer: 1e-5, positions: 4096},
	"cohere":      {layer: 1e-5, positions: 8192, theta: 500000},
	"gpt2":        {layer: 1e-5, positions: 1024},
	"gpt_neox":    {layer: 1e-5},
	"falcon":      {layer: 1e-5},
	"bert":        {layer: 1e-12, positions: 512},
	"roberta":     {layer: 1e-12, positions: 512},
	"xlm-roberta": {layer: 1e-12, positions: 512},
	"camembert":   {layer: 1e-12, positions: 512},
	"distilbert":  {layer: 1e-12, positions: 512}, // no field has it
	"nomic_bert":  {layer: 1e-12, theta: 1000},
	"modernbert":  {layer: 1e-5, positions: 8192, theta: 160000},
}

// theta is the base of a rope that config.json does not say.
func (j *job) theta() float64 {
	t := missing[j.kind].theta
	if j.kind == "nomic_bert" && j.config.c.Has("n_embd") { // the model's own code
		t = 10000
	}
	if t == 0 {
		t = 10000
	}
	return t
}

// norms sets the epsilon of norms.
func (j *job) norms() {
	d := missing[j.kind]
	if d.rms > 0 {
		j.set("attention.layer_norm_rms_epsilon", float32(j.config.floatOr(d.rms, "rms_norm_eps")))
	} else {
		j.set("attention.layer_norm_epsilon", float32(j.config.floatOr(d.layer, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")))
	}
}
