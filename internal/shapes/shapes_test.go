package shapes

import (
	"os"
	"path/filepath"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

var small = Shape{dim: 64, ffn: 96, layers: 2, heads: 4, kv: 2, vocab: 130, dtype: tensor.BF16, llama: true}

func TestGGUF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := small.WriteGGUF(path, tensor.Q4_0); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		dtype tensor.DType
		bytes int
	}{
		{"token_embd.weight", tensor.Q4_0, 130 * 2 * 18}, {"output_norm.weight", tensor.F32, 64 * 4},
		{"blk.1.attn_k.weight", tensor.Q4_0, 32 * 2 * 18}, {"blk.0.ffn_down.weight", tensor.Q4_0, 64 * 3 * 18}, {"blk.1.ffn_norm.weight", tensor.F32, 64 * 4},
	} {
		if d, got, err := f.Data(c.name); err != nil || d != c.dtype || len(got) != c.bytes {
			t.Errorf("%s: %s, %d bytes, %v, expected %s, %d bytes", c.name, d, len(got), err, c.dtype, c.bytes)
		}
	}
	if n := len(f.Tensors()); n != 2+2*9 {
		t.Errorf("%d tensors, expected 20", n)
	}
	if err := Known["minilm"].WriteGGUF(path, tensor.Q4_0); err == nil {
		t.Error("a BERT was written as GGUF")
	}
}
