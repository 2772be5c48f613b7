package model

// RoBERTa and XLM-RoBERTa: BERT whose positions count from the padding's id
// plus one, and whose classifier has a dense layer of its own. GGUF files hold
// them as bert, without the rows that no position uses.

func init() {
	register(&architecture{
		name: "roberta", hf: []string{"roberta", "xlm-roberta", "camembert"}, readHF: robertaHF,
	})
}

func robertaHF(r *fields) description {
	d := bertFields(r)
	d.segments = r.natural("type_vocab_size", maxVocab, 2)
	d.prefixes = []string{"", "roberta."}
	d.table = append(bertNames, nameRow{key: "cls", file: "classifier.dense"}, nameRow{key: "cls.output", file: "classifier.out_proj"})
	d.offset(r, r.natural("pad_token_id", maxVocab, 1))
	d.complete(r, "num_attention_heads")
	return d
}

// offset leaves out the rows of the position table before the padding's, from
// which positions count.
func (d *bert) offset(r *fields, pad int) {
	if pad+1 >= d.positions {
		r.invalid("max_position_embeddings", "expected more than %d, because positions begin after the padding's id, found %d", pad+1, d.positions)
		return
	}
	d.pad = pad
	d.positions -= pad
	d.table = withTransform(d.table, "position_embd", transform{height: pad + d.positions, first: pad, count: d.positions})
}

// withTransform is a table with one row's transform set.
func withTransform(table []nameRow, key string, how transform) []nameRow {
	out := append([]nameRow(nil), table...)
	for i := range out {
		if out[i].key == key {
			out[i].how = how
		}
	}
	return out
}
