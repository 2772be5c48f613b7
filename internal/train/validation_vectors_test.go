package train

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// vectorGolden is testdata/evaluation.json: data, and what the evaluators of
// sentence-transformers say about the fixture bert (scripts/goldens_metrics.py).
type vectorGolden struct {
	STS, Retrieval                 []json.RawMessage
	Pearson, Spearman, MRR, NDCG10 float64
}

func readVectorGolden(t *testing.T) (g vectorGolden, sts, pairs string) {
	t.Helper()
	data, err := os.ReadFile("testdata/evaluation.json")
	must(t, err)
	must(t, json.Unmarshal(data, &g))
	jsonl := func(name string, rows []json.RawMessage) string {
		var b strings.Builder
		for _, row := range rows {
			b.Write(append(row, '\n'))
		}
		return write(t, t.TempDir(), name, b.String())
	}
	return g, jsonl("sts.jsonl", g.STS), jsonl("pairs.jsonl", g.Retrieval)
}

// still is a run that changes next to nothing, so that evaluations are of the model
// as its files have it.
func still(t *testing.T, model, objective, data string) Config {
	c := fixture(t, model)
	c.Data, c.Objective.Type = List{data}, objective
	c.Steps, c.Warmup, c.LR, c.BatchTokens, c.SeqLen = 2, 0, 1e-30, 512, 32
	return c
}

func TestEvaluationsMatchSentenceTransformers(t *testing.T) {
	g, sts, pairs := readVectorGolden(t)
	for name, change := range map[string]func(c *Config){
		"contrastive":    func(c *Config) { c.Validation.Data, c.Validation.STS = List{pairs}, List{sts} },
		"gradient cache": func(c *Config) { c.Validation.Data, c.Validation.STS, c.MicroTokens = List{pairs}, List{sts}, 64 },
		"regress":        func(c *Config) { c.Data, c.Validation.Data, c.Validation.Retrieval = List{sts}, List{sts}, List{pairs} },
		"distill_embedding": func(c *Config) {
			c.Validation.Data, c.Validation.STS, c.Objective.Teacher = List{pairs}, List{sts}, c.Model
		},
		"mlm": func(c *Config) {
			text := List{testmodels.Dir(t, "shakespeare.txt")}
			c.Data, c.Validation.Data, c.Validation.STS, c.Validation.Retrieval = text, text, List{sts}, List{pairs}
		},
	} {
		t.Run(name, func(t *testing.T) {
			objective := name
			if name == "gradient cache" {
				objective = "contrastive"
			}
			var first losses
			for _, workers := range []int{1, 2, 4} {
				c := still(t, "bert", objective, pairs)
				change(&c)
				var seen losses
				_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, workers), OnStep: seen.add})
				must(t, err)
				if seen[0].Eval.Done || !seen[1].Eval.Done {
					t.Fatalf("evaluations %v, expected one at the end", seen)
				}
				e := seen[1].Eval
				for what, d := range map[string]float64{"Pearson": e.Pearson - g.Pearson, "Spearman": e.Spearman - g.Spearman, "MRR": e.MRR - g.MRR, "NDCG@10": e.NDCG10 - g.NDCG10} {
					if !e.STS || !e.Retrieval || math.Abs(d) > 1e-5 {
						t.Errorf("%s differs by %g: %+v, sentence-transformers says %+v", what, d, e, g)
					}
				}
				checkEvaluationLogs(t, c.Out, &e)
				if first == nil {
					first = seen
				} else if !slices.Equal(first, seen) {
					t.Errorf("%d workers: %v, expected %v as with 1", workers, seen, first)
				}
			}
		})
	}
}

// checkEvaluationLogs looks for the figures of the last step in the logs.
func checkEvaluationLogs(t *testing.T, out string, e *Evaluation) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, csvLog))
	must(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(out, jsonLog))
	must(t, err)
	events, err := os.ReadFile(filepath.Join(out, eventLog))
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var object map[string]any
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &object))
	for _, f := range figures {
		cell := rows[len(rows)-1][slices.Index(rows[0], f.column)]
		inEvents := strings.Contains(string(events), f.tag)
		inLine := strings.Contains(e.String(), f.name+" ")
		if !f.has(e) {
			if cell != "" || object[f.column] != nil || inEvents || inLine {
				t.Errorf("%s: %q, %v, %t, %t, expected none", f.column, cell, object[f.column], inEvents, inLine)
			}
			continue
		}
		if v, err := strconv.ParseFloat(cell, 64); err != nil || v != f.of(e) || object[f.column] != v || !inEvents || !inLine {
			t.Errorf("%s: %q, %v, %t, %t, expected %g", f.column, cell, object[f.column], inEvents, inLine, f.of(e))
		}
	}
}

// Only what predicts tokens has a perplexity, and only what predicts every token
// has bits per byte.
func TestPerplexityIsOfTokens(t *testing.T) {
	_, sts, _ := readVectorGolden(t)
	text := testmodels.Dir(t, "shakespeare.txt")
	for objective, c := range map[string]Config{
		"lm": still(t, "llama", "lm", text), "mlm": still(t, "bert", "mlm", text), "distill": still(t, "llama", "distill", text), "regress": still(t, "bert", "regress", sts),
	} {
		if objective == "distill" {
			c.Objective.Teacher = c.Model
		}
		c.Validation.Share = 0.3
		var seen losses
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: seen.add})
		must(t, err)
		e := seen[1].Eval
		if !e.Done || e.TokenLoss != slices.Contains([]string{"lm", "mlm"}, objective) || (e.BitsPerByte > 0) != (objective == "lm") {
			t.Errorf("%s: %+v: %s", objective, e, e)
		}
	}
}

func TestVectorTestsRefuse(t *testing.T) {
	_, sts, pairs := readVectorGolden(t)
	one := write(t, t.TempDir(), "one.jsonl", "{\"text\":\"a\",\"score\":1}\n")
	long := write(t, t.TempDir(), "long.jsonl", `{"a":"x","b":"`+strings.Repeat("king ", 50)+`"}`+"\n")
	for want, change := range map[string]func(c *Config){
		"field validation.sts: " + pairs + ": 30 examples of kind pairs, expected pairs of texts with \"score\"":               func(c *Config) { c.Validation.STS = List{pairs} },
		"field validation.sts: " + one + ": 1 examples of kind scored, expected pairs of texts with \"score\"":                 func(c *Config) { c.Validation.STS = List{one} },
		"field validation.retrieval: " + sts + ": 40 examples of kind scored, expected an anchor, its positive, and negatives": func(c *Config) { c.Validation.Retrieval = List{sts} },
		"field validation.retrieval: " + long + ": line 1, column 14: ":                                                        func(c *Config) { c.Validation.Retrieval = List{long} },
		"field validation.sts: expected none without validation.data and validation.share":                                     func(c *Config) { c.Validation.STS, c.Validation.Share = List{sts}, 0 },
		"field validation.data: " + one + ": up to 1 texts per score, expected 2, as the training data have":                   func(c *Config) { c.Validation.Data, c.Validation.Share = List{one}, 0 },
		"field validation.data: " + pairs + ": 30 examples of kind pairs, expected at least one of [scored]":                   func(c *Config) { c.Validation.Data, c.Validation.Share = List{pairs}, 0 },
	} {
		c := still(t, "bert", "regress", sts)
		c.Validation.Share = 0.5
		change(&c)
		steps := 0
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: func(Step) error { steps++; return nil }})
		if (!errors.Is(err, ErrData) && !errors.Is(err, ErrConfig)) || !strings.Contains(err.Error(), want) || steps > 0 {
			t.Errorf("error %v after %d steps, want %q", err, steps, want)
		}
	}
}
