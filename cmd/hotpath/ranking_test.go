package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

func TestRankingKeepsTheBest(t *testing.T) {
	r := ranking{top: 3}
	for i, s := range []float32{0.1, 0.9, 0.5, 0.9, 0.2, 0.5, -1} {
		r.addScore(text{index: i}, s)
	}
	slices.SortFunc(r.best, rankedText.compare)
	var got []int
	for _, t := range r.best {
		got = append(got, t.index)
	}
	if want := []int{1, 3, 2}; !slices.Equal(got, want) || r.n != 7 {
		t.Errorf("%v of %d, expected %v", got, r.n, want)
	}
}

// A query whose vector is no number is what the error names, not a text.
func TestSimilarSaysThatTheQueryIsWrong(t *testing.T) {
	bert := t.TempDir()
	if err := os.CopyFS(bert, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	tokens := lines[struct{ IDs []int }](t, ok(t, "tokenize", "-m", bert, "--special=false", "stitch", "rain", "--format", "jsonl"))
	file := filepath.Join(bert, "model.safetensors")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := 8 + int(binary.LittleEndian.Uint64(data))
	var header map[string]struct {
		DType   string
		Shape   []int
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:at], &header); err != nil {
		t.Fatal(err)
	}
	for name, h := range header {
		if !strings.HasSuffix(name, "word_embeddings.weight") {
			continue
		}
		if h.DType != "F32" {
			t.Fatalf("%s is %s, expected F32", name, h.DType)
		}
		id := slices.IndexFunc(tokens[0].IDs, func(id int) bool { return !slices.Contains(tokens[1].IDs, id) })
		at += h.Offsets[0] + 4*h.Shape[1]*tokens[0].IDs[id]
		binary.LittleEndian.PutUint32(data[at:], math.Float32bits(float32(math.NaN())))
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"similar", "-m", bert, "stitch", "rain"}, "hotpath: query: the model's answer is not a finite number")
	fails(t, exitFailed, []string{"similar", "-m", bert, "rain", "rain", "stitch"}, "hotpath: argument 2: ")
}

func TestSimilar(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	texts := make([]string, 500)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %d of rain", i)
	}
	texts[321] = "a stitch in time"
	file := objects(t, texts)
	type row struct {
		Index, ID int
		Score     float64
		Text      string
	}
	rows := lines[row](t, ok(t, "similar", "-m", bert, "a stitch in time", "-f", file, "--top", "4", "--format", "jsonl", "--precision", "f32"))
	if len(rows) != 4 || rows[0].Index != 321 || rows[0].ID != 421 || rows[0].Text != texts[321] || math.Abs(rows[0].Score-1) > 1e-5 {
		t.Fatalf("%+v", rows)
	}
	// All of them, ranked here.
	m, err := hotpath.Open(bert, hotpath.Options{Precision: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	vs, err := m.Embed(context.Background(), append(texts, "a stitch in time"), hotpath.EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	query := vs[len(texts)]
	for _, r := range rows {
		if want := cosine(query, vs[r.Index]); math.Abs(want-r.Score) > 1e-5 {
			t.Errorf("text %d has %v, expected %v", r.Index, r.Score, want)
		}
	}
	for i := range texts {
		if c := cosine(query, vs[i]); c > rows[3].Score+1e-5 && !slices.ContainsFunc(rows, func(r row) bool { return r.Index == i }) {
			t.Errorf("text %d with %v is missing", i, c)
		}
	}
	shown := ok(t, "similar", "-m", bert, "rain", "it pours", "the sun is out")
	if strings.Count(shown, "\n") != 2 || !strings.Contains(shown, "argument 2") {
		t.Errorf("%q", shown)
	}
	// Queries and documents get the model's prompts.
	model := promptedModel(t)
	with := ok(t, "similar", "-m", model, "rain", "it pours", "--format", "json")
	if plain := ok(t, "similar", "-m", model, "rain", "it pours", "--format", "json", "--prompts=false"); plain == with {
		t.Error("--prompts=false changes nothing")
	}
	if same := ok(t, "similar", "-m", model, "search: rain", "text: it pours", "--format", "json", "--prompts=false"); scoreOf(t, same) != scoreOf(t, with) {
		t.Errorf("%s is not %s", same, with)
	}
	fails(t, exitUsage, []string{"similar", "-m", bert}, "no query")
	fails(t, exitUsage, []string{"similar", "-m", bert, "rain", "x", "--top", "0"}, "--top")
	fails(t, exitUsage, []string{"similar", "-m", bert, "rain", "x", "--dim", "0"}, "--dim")
	fails(t, exitFailed, []string{"similar", "-m", bert, "rain", "x", "--dim", "99999"}, "--dim 99999, expected 1 to")
}

func scoreOf(t *testing.T, out string) float64 {
	t.Helper()
	var rows []struct{ Score float64 }
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%s: %v", out, err)
	}
	return rows[0].Score
}

func TestRerank(t *testing.T) {
	dir := filepath.Join(repositoryRoot(t), "internal", "model", "testdata", "encoders", "rerank-bert")
	data, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Cases []struct {
			Query, Doc string
			Scores     []float64
		}
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, c := range want.Cases {
		if got := scoreOf(t, ok(t, "rerank", "-m", dir, c.Query, c.Doc, "--format", "json", "--precision", "f32")); math.Abs(got-c.Scores[0]) > 1e-4 {
			t.Errorf("%.30q: %v, expected %v", c.Doc, got, c.Scores[0])
		}
	}
	docs := make([]string, 3*rerankBatch/2)
	for i := range docs {
		docs[i] = fmt.Sprintf("document %d%s", i, strings.Repeat(" of rain", i%5))
	}
	rows := lines[rankedRecord](t, ok(t, "rerank", "-m", dir, "rain", "-f", objects(t, docs), "--top", "1000", "--format", "jsonl"))
	if len(rows) != len(docs) {
		t.Fatalf("%d of %d documents", len(rows), len(docs))
	}
	for i, r := range rows {
		if i > 0 && r.Score > rows[i-1].Score || r.Text != docs[r.Index] {
			t.Errorf("row %d: %+v after %+v", i, r, rows[max(i-1, 0)])
		}
	}
	fails(t, exitFailed, []string{"rerank", "-m", testmodels.Dir(t, "bert"), "rain", "x"}, "bert")

	long := strings.Repeat("rain ", 5000)
	if r := run(t, "rerank", "-m", dir, "rain", "short", long, long); r.status != exitDone || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "2 documents were too long") || !strings.Contains(r.err, "argument 2") {
		t.Errorf("exit %d: %s", r.status, r.err)
	}
	fails(t, exitFailed, []string{"rerank", "-m", dir, "--truncate=false", "rain", "short", long}, "too long", "tokens with the query")
	if out := ok(t, "rerank", "-m", dir, "--truncate=false", "rain", "short"); !strings.Contains(out, "short") {
		t.Errorf("%q", out)
	}
}
