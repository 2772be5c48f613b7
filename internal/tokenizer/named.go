package tokenizer

import "slices"

// role is what a special token is for.
type role int

const (
	roleBOS role = iota
	roleEOS
	rolePAD
	roleUNK
	roleSEP
	roleCLS
	roleMASK
	roleEOT
	roleEOM
	roleCount
)

// roleNames holds, for each role, the key of tokenizer_config.json, the key of GGUF, and the spellings
// that stand for the role when neither says.
var roleNames = [roleCount]struct {
	config, gguf string
	guess        []string
}{
	roleBOS:  {"bos_token", "tokenizer.ggml.bos_token_id", []string{"<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"}},
	roleEOS:  {"eos_token", "tokenizer.ggml.eos_token_id", []string{"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"}},
	rolePAD:  {"pad_token", "tokenizer.ggml.padding_token_id", []string{"[PAD]", "<pad>"}},
	roleUNK:  {"unk_token", "tokenizer.ggml.unknown_token_id", []string{"[UNK]", "<unk>"}},
	roleSEP:  {"sep_token", "tokenizer.ggml.seperator_token_id", []string{"[SEP]"}},
	roleCLS:  {"cls_token", "tokenizer.ggml.cls_token_id", []string{"[CLS]"}},
	roleMASK: {"mask_token", "tokenizer.ggml.mask_token_id", []string{"[MASK]", "<mask>"}},
	roleEOT:  {"", "tokenizer.ggml.eot_token_id", []string{"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}},
	roleEOM:  {"", "tokenizer.ggml.eom_token_id", nil},
}

// namedIDs holds each role's id plus one, so that the zero value means none.
type namedIDs [roleCount]int32

func (n *namedIDs) set(r role, id int32) { n[r] = id + 1 }

func (n *namedIDs) get(r role) (int32, bool) { return n[r] - 1, n[r] > 0 }

// guess fills the roles that are still empty from the usual spellings.
func (n *namedIDs) guess(v *vocab, roles ...role) {
	for _, r := range roles {
		for _, name := range roleNames[r].guess {
			if id, ok := v.id(name); ok && n[r] == 0 {
				n.set(r, id)
			}
		}
	}
}

// BOS is the token that begins a text.
func (t *Tokenizer) BOS() (int32, bool) { return t.named.get(roleBOS) }

// EOS is the token that ends a text.
func (t *Tokenizer) EOS() (int32, bool) { return t.named.get(roleEOS) }

// EOT is the token that ends a turn of a conversation.
func (t *Tokenizer) EOT() (int32, bool) { return t.named.get(roleEOT) }

// PAD is the token that fills a batch.
func (t *Tokenizer) PAD() (int32, bool) { return t.named.get(rolePAD) }

// UNK stands for what the vocabulary lacks.
func (t *Tokenizer) UNK() (int32, bool) { return t.named.get(roleUNK) }

// SEP separates the two texts of a pair.
func (t *Tokenizer) SEP() (int32, bool) { return t.named.get(roleSEP) }

// CLS begins an encoder's input.
func (t *Tokenizer) CLS() (int32, bool) { return t.named.get(roleCLS) }

// MASK stands for a word to be guessed.
func (t *Tokenizer) MASK() (int32, bool) { return t.named.get(roleMASK) }

// IsEnd tells whether generation stops at the id: one of those that the model's
// files name, or else EOS or the end of a turn or message.
func (t *Tokenizer) IsEnd(id int32) bool {
	if t.ends != nil {
		_, ok := slices.BinarySearch(t.ends, id)
		return ok
	}
	return id >= 0 && (id == t.named[roleEOS]-1 || id == t.named[roleEOT]-1 || id == t.named[roleEOM]-1)
}

// Ends are the ids at which generation stops, sorted.
func (t *Tokenizer) Ends() []int32 {
	if t.ends != nil {
		return slices.Clone(t.ends)
	}
	var ids []int32
	for _, r := range []role{roleEOS, roleEOT, roleEOM} {
		if id, ok := t.named.get(r); ok {
			ids = append(ids, id)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}
