package train

import "strings"

// synonyms are what other programs call the fields, by their names here.
var synonyms = map[string]string{
	"learning_rate": "lr", "max_lr": "lr", "min_learning_rate": "min_lr", "lr_min": "min_lr",
	"max_steps": "steps", "max_iters": "steps", "iterations": "steps", "num_steps": "steps", "epochs": "steps", "num_epochs": "steps", "num_train_epochs": "steps", "total_steps": "steps",
	"batch_size": "batch_tokens", "tokens_per_step": "batch_tokens", "total_batch_size": "batch_tokens",
	"block_size": "seq_len", "max_seq_len": "seq_len", "max_seq_length": "seq_len", "max_length": "seq_len", "sequence_length": "seq_len",
	"grad_clip": "clip", "max_grad_norm": "clip", "gradient_clipping": "clip", "max_norm": "clip",
	"warmup_steps": "warmup", "warmup_iters": "warmup", "num_warmup_steps": "warmup",
	"lr_scheduler": "schedule", "lr_scheduler_type": "schedule", "lr_schedule": "schedule", "scheduler": "schedule",
	"beta1": "betas", "beta2": "betas", "adam_beta1": "betas", "adam_beta2": "betas",
	"epsilon": "eps", "adam_epsilon": "eps", "optim": "optimizer", "wd": "weight_decay", "gradient_checkpointing": "recompute", "checkpointing": "recompute",
	"output_dir": "out", "out_dir": "out", "output": "out", "dataset": "data", "train_data": "data", "train_file": "data",
	"save_steps": "checkpoint_every", "save_every": "checkpoint_every", "save_interval": "checkpoint_every",
	"save_total_limit": "keep", "keep_last": "keep", "random_seed": "seed", "description": "about",
	"eval_interval": "every", "eval_every": "validation", "val_data": "validation", "eval": "validation",
	"hidden_size": "d_model", "n_embd": "d_model", "embedding_length": "d_model", "dim": "d_model", "width": "d_model",
	"num_layers": "n_layers", "n_layer": "n_layers", "num_hidden_layers": "n_layers", "layers": "n_layers", "depth": "n_layers",
	"n_head": "n_heads", "num_heads": "n_heads", "num_attention_heads": "n_heads", "heads": "n_heads",
	"num_key_value_heads": "n_kv_heads", "kv_heads": "n_kv_heads",
	"intermediate_size": "d_ff", "ffn": "d_ff", "hidden_dim": "d_ff", "n_inner": "d_ff", "ffn_dim": "d_ff",
	"vocab_size": "vocab", "n_vocab": "vocab", "n_ctx": "context", "context_length": "context", "max_position_embeddings": "context",
	"attention_dropout": "dropout", "attn_pdrop": "dropout", "resid_pdrop": "dropout", "embd_pdrop": "dropout", "dropout_rate": "dropout",
	"gradient_accumulation_steps": "micro_tokens", "micro_batch_size": "micro_tokens", "early_stopping": "patience",
	"arch": "architecture", "model_type": "architecture", "tie_word_embeddings": "tied",
}

// flagFields are what people look for in a configuration, and flags say.
var flagFields = map[string]string{
	"resume": "resume", "resume_from_checkpoint": "resume", "precision": "precision", "dtype": "precision", "bf16": "precision",
	"threads": "threads", "num_threads": "threads", "workers": "threads", "device": "device", "profile": "profile", "plot": "plot",
}

// maxWord is the longest word that is compared: the work grows with its square.
const maxWord = 40

// nearest is the one of names that word may have been meant for, by spelling
// or by a synonym; "" where none is near.
func nearest(word string, names []string, synonyms map[string]string) string {
	word = strings.ToLower(word)
	if len(word) == 0 || len(word) > maxWord {
		return ""
	}
	best, least := "", len(word)/3+1 // as many mistakes are allowed
	look := func(spelt, name string) {
		if d := distance(word, spelt); d <= least && (d < least || best == "" || name < best) {
			best, least = name, d
		}
	}
	for _, name := range names {
		look(name, name)
		for spelt, meant := range synonyms {
			if meant == name {
				look(spelt, name)
			}
		}
	}
	return best
}

// distance is how many letters have to be added, removed, changed or exchanged
// with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
