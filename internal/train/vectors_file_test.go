package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// npy is a file of f32 rows as `hotpath embed` writes it.
func npy(t *testing.T, rows [][]float32) string {
	t.Helper()
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", len(rows), len(rows[0]))
	head += strings.Repeat(" ", 118-1-len(head)) + "\n"
	data := append([]byte(npyMagic), 1, 0, byte(len(head)), 0)
	data = append(data, head...)
	for _, row := range rows {
		for _, v := range row {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	path := filepath.Join(t.TempDir(), "vectors.npy")
	must(t, os.WriteFile(path, data, 0o644))
	return path
}

func distilling(t *testing.T, texts []string) Config {
	t.Helper()
	var lines strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&lines, "{\"text\":%q}\n", text)
	}
	c := fixture(t, "nomic-bert")
	c.Data, c.Steps, c.Warmup, c.BatchTokens, c.SeqLen = []string{write(t, t.TempDir(), "a.jsonl", lines.String())}, 6, 0, 24, 24
	c.Objective = ObjectiveConfig{Type: "distill_embedding", Cosine: true}
	return c
}

// Vectors of a file teach what the teacher that made them teaches, whatever
// batches its texts come in.
func TestDistillFromFile(t *testing.T) {
	texts := []string{"one", "two words", "a third text", "some words of a text", "the end"}
	o := Options{Backend: cpuBackend(t, 1)}
	teacher := testmodels.Dir(t, "bert")
	var rows [][]float32
	for _, text := range texts {
		c := distilling(t, []string{text})
		c.Objective.Teacher = teacher
		tr, err := New(t.Context(), c, o)
		must(t, err)
		_, err = tr.Step(t.Context())
		must(t, err)
		d := tr.obj.(*distillEmbedding)
		rows = append(rows, append([]float32{}, d.to[:d.vectors.Shape.RowLen()]...))
		must(t, tr.Close())
	}
	losses := func(set func(*Config)) (out []float32) {
		c := distilling(t, texts)
		set(&c)
		o.OnStep = func(s Step) error { out = append(out, s.Loss); return nil }
		_, err := Run(t.Context(), c, o)
		must(t, err)
		return out
	}
	file := npy(t, rows)
	want := losses(func(c *Config) { c.Objective.Teacher = teacher })
	got := losses(func(c *Config) { c.Objective.Vectors = file })
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); d > 1e-5 {
			t.Errorf("step %d: loss %g, want %g", i+1, got[i], want[i])
		}
	}
	held := losses(func(c *Config) {
		c.Objective.Vectors, c.Validation.Share, c.Validation.Every = file, 0.2, 2
	})
	if len(held) != len(want) {
		t.Errorf("%d steps with a share for validation, want %d", len(held), len(want))
	}
}

// Files of vectors that do not belong to the data are refused by name.
func TestDistillFromWrongFile(t *testing.T) {
	const width = 32
	rows := func(n, width int) [][]float32 {
		out := make([][]float32, n)
		for i := range out {
			out[i] = make([]float32, width)
			out[i][0] = 1
		}
		return out
	}
	short := write(t, t.TempDir(), "short.npy", npyMagic+"\x01\x00\x40\x00{}")
	for _, c := range []struct {
		want string
		kind error
		set  func(*Config)
	}{
		{"has 3 rows, expected 2, one per text of data", ErrData, func(c *Config) { c.Objective.Vectors = npy(t, rows(3, width)) }},
		{"has vectors of 8 elements, expected the 32", ErrConfig, func(c *Config) { c.Objective.Vectors = npy(t, rows(2, 8)) }},
		{"expected it or teacher, found both", ErrConfig, func(c *Config) { c.Objective.Vectors, c.Objective.Teacher = short, "x" }},
		{"a header of 64 bytes, but the file has 12", ErrData, func(c *Config) { c.Objective.Vectors = short }},
		{"expected a .npy file", ErrData, func(c *Config) { c.Objective.Vectors = c.Data[0] }},
		{"expected validation.share", ErrConfig, func(c *Config) {
			c.Objective.Vectors, c.Validation.Data, c.Validation.Every = short, c.Data, 1
		}},
		{"text 1 has more tokens than seq_len", ErrData, func(c *Config) {
			c.Objective.Vectors, c.SeqLen = npy(t, rows(2, width)), 4
		}},
	} {
		cfg := distilling(t, []string{"one", "two words and some more of them"})
		c.set(&cfg)
		if _, err := Run(t.Context(), cfg, Options{Backend: cpuBackend(t, 1)}); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
