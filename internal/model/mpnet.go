package model

import (
	"fmt"
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// MPNet: BERT without segments, with RoBERTa's positions and, on the scores of
// all layers, one bias by the distance of a key from its query.

func init() {
	register(&architecture{name: "mpnet", hf: []string{"mpnet"}, readHF: mpnetHF})
}

const (
	mpnetPad     = 1 // the id of padding, whatever the configuration says
	mpnetBuckets = 32
	mpnetReach   = 128 // distances beyond it share a bucket
)

func mpnetHF(r *fields) description {
	d := bertFields(r)
	d.relative = true
	d.prefixes = []string{"", "mpnet."}
	d.table = []nameRow{
		{key: "token_embd", file: "embeddings.word_embeddings"},
		{key: "position_embd", file: "embeddings.position_embeddings"},
		{key: "token_embd_norm", file: "embeddings.LayerNorm"},
		{"relative", "encoder.relative_attention_bias", transform{derive: mpnetBias{}}},
		{key: "relative_table", file: "encoder.relative_attention_bias"},
		{key: "blk.{}.attn_q", file: "encoder.layer.{}.attention.attn.q"},
		{key: "blk.{}.attn_k", file: "encoder.layer.{}.attention.attn.k"},
		{key: "blk.{}.attn_v", file: "encoder.layer.{}.attention.attn.v"},
		{key: "blk.{}.attn_output", file: "encoder.layer.{}.attention.attn.o"},
		{key: "blk.{}.attn_output_norm", file: "encoder.layer.{}.attention.LayerNorm"},
		{key: "blk.{}.ffn_up", file: "encoder.layer.{}.intermediate.dense"},
		{key: "blk.{}.ffn_down", file: "encoder.layer.{}.output.dense"},
		{key: "blk.{}.layer_output_norm", file: "encoder.layer.{}.output.LayerNorm"},
		{key: "cls", file: "classifier.dense"},
		{key: "cls.output", file: "classifier.out_proj"},
	}
	d.offset(r, mpnetPad)
	d.complete(r, "num_attention_heads")
	return d
}

// mpnetBias spreads a table [buckets,heads] over distances, [heads,2*reach+1].
type mpnetBias struct{}

func (mpnetBias) dims(of []int) ([]int, error) {
	if len(of) != 2 || of[0] < mpnetBuckets {
		return nil, fmt.Errorf("dimensions %v, expected at least %d buckets for each head", of, mpnetBuckets)
	}
	return []int{of[1], 2*mpnetReach + 1}, nil
}

func (mpnetBias) derive(t weights.Tensor) ([]float32, error) {
	table, err := t.F32()
	if err != nil {
		return nil, err
	}
	heads := t.Dims[1]
	out := make([]float32, 0, heads*(2*mpnetReach+1))
	for h := range heads {
		for distance := -mpnetReach; distance <= mpnetReach; distance++ {
			out = append(out, table[mpnetBucket(distance)*heads+h])
		}
	}
	return out, nil
}

// mpnetTable is the table as the file has it.
const mpnetTable = "relative_table.weight"

// trainedBias is the bias by distance as nodes of the graph, so that the table
// in the file can be trained.
func (d *bert) trainedBias(c *Context) *graph.Value {
	in, err := c.m.inspect(mpnetTable)
	if err != nil {
		c.Fail("%w", err)
		return c.QStart
	}
	of := make([]int, 0, 2*mpnetReach+1)
	for distance := -mpnetReach; distance <= mpnetReach; distance++ {
		of = append(of, mpnetBucket(distance))
	}
	return c.Buckets("relative", c.Tensor(mpnetTable, graph.RolePosition, in.dims...), of)
}

// mpnetBucket is the bucket of a key's distance from its query: half of them
// for keys behind it; half of those for one distance each, the rest for
// distances that grow by a factor.
func mpnetBucket(distance int) int {
	const half, exact = mpnetBuckets / 2, mpnetBuckets / 4
	side, n := 0, -distance
	if distance > 0 {
		side, n = half, distance
	}
	if n < exact {
		return side + n
	}
	// In single precision, which decides where a factor ends.
	steps := float32(math.Log(float64(float32(n)/exact))) / float32(math.Log(float64(mpnetReach)/exact)) * (half - exact)
	return side + min(exact+int(steps), half-1)
}
