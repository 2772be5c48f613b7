package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"hotpath"
)

func writeVectors(t *testing.T, format, quantize string, vectors [][]float32) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := newVectorOutput(&out, nil, findFormat(format), findElement(quantize), len(vectors[0]))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		if err := w.write(text{index: i, body: "a text"}, hotpath.Embedding{Tokens: 5 + i, Vector: v}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.end(), w.close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Quantized vectors are those of sentence-transformers' quantize_embeddings
// where they are bits, and scaled to the largest element where they are int8.
func TestQuantizedFormats(t *testing.T) {
	vectors := [][]float32{{0.5, -1, 0.25, 0, 1e-9, -1e-9, 0.125, -0.5, 0.75}}
	for _, c := range []struct{ format, quantize, want string }{
		{"csv", "int8", "64,-127,32,0,0,0,16,-64,95\n"},
		{"csv", "binary", "42,0\n"},
		{"csv", "ubinary", "170,128\n"},
		{"bin", "int8", "\x40\x81\x20\x00\x00\x00\x10\xc0\x5f"},
		{"bin", "binary", "\x2a\x00"},
		{"bin", "ubinary", "\xaa\x80"},
		{"jsonl", "int8", `{"index":0,"tokens":5,"scale":0.007874016,"embedding":[64,-127,32,0,0,0,16,-64,95]}` + "\n"},
		{"jsonl", "binary", `{"index":0,"tokens":5,"embedding":[42,0]}` + "\n"},
		{"text", "int8", "0: 64 -127 32 0 … (9 dimensions, 5 tokens) a text\n"},
	} {
		if got := string(writeVectors(t, c.format, c.quantize, vectors)); got != c.want {
			t.Errorf("%s of %s: %q, expected %q", c.format, c.quantize, got, c.want)
		}
	}
	for quantize, words := range map[string]string{
		"int8": "'descr': '|i1', 'fortran_order': False, 'shape': (1, 9)", "binary": "'|i1', 'fortran_order': False, 'shape': (1, 2)", "ubinary": "'|u1'",
	} {
		if npy := string(writeVectors(t, "npy", quantize, vectors)); !strings.Contains(npy[:npyHead], words) || npy[npyHead:] != string(writeVectors(t, "bin", quantize, vectors)) {
			t.Errorf("npy of %s: %q", quantize, npy)
		}
	}
}

func TestVectorFormats(t *testing.T) {
	vectors := [][]float32{{0.1, -2, 1e-9}, {3, 4, math.MaxFloat32}}
	written := func(format string) []byte { return writeVectors(t, format, "", vectors) }
	check := func(format string, got []float32) {
		t.Helper()
		for i, x := range got {
			if want := vectors[i/3][i%3]; x != want || len(got) != 6 {
				t.Errorf("%s: value %d of %d is %v, expected %v", format, i, len(got), x, want)
			}
		}
	}
	raw := func(b []byte) []float32 {
		out := make([]float32, len(b)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return out
	}
	check("bin", raw(written("bin")))

	npy := written("npy")
	if !bytes.HasPrefix(npy, []byte("\x93NUMPY\x01\x00")) {
		t.Fatalf("npy begins with %q", npy[:8])
	}
	data := 10 + int(binary.LittleEndian.Uint16(npy[8:]))
	if header := string(npy[10:data]); data%64 != 0 || !strings.Contains(header, "'shape': (2, 3)") || !strings.HasSuffix(header, "\n") {
		t.Errorf("npy header of %d bytes: %q", data, header)
	}
	check("npy", raw(npy[data:]))

	var csv []float32
	for line := range strings.Lines(string(written("csv"))) {
		var row []float32
		if err := json.Unmarshal([]byte("["+strings.TrimSpace(line)+"]"), &row); err != nil {
			t.Fatal(err)
		}
		csv = append(csv, row...)
	}
	check("csv", csv)

	type record struct {
		Index, Tokens int
		Embedding     []float32
	}
	var document []record
	if err := json.Unmarshal(written("json"), &document); err != nil {
		t.Fatal(err)
	}
	for i, r := range lines[record](t, string(written("jsonl"))) {
		check("jsonl", append(append([]float32{}, vectors[0][:3*i]...), append(r.Embedding, vectors[1][3*i:]...)...))
		if r.Index != i || r.Tokens != 5+i || document[i].Index != i || len(document[i].Embedding) != 3 {
			t.Errorf("record %d: %+v, in the document %+v", i, r, document[i])
		}
	}
}

func TestVectorsThatAreNoNumbers(t *testing.T) {
	for _, format := range []string{"json", "jsonl", "csv"} {
		w, err := newVectorOutput(&bytes.Buffer{}, nil, findFormat(format), findElement(""), 2)
		if err != nil {
			t.Fatal(err)
		}
		nan := float32(math.NaN())
		err = w.write(text{where: "texts:3"}, hotpath.Embedding{Vector: []float32{0, nan}})
		if err = errors.Join(err, w.failures()); err == nil || !strings.Contains(err.Error(), "texts:3") {
			t.Errorf("%s: error %v", format, err)
		}
	}
}

func TestEmptyDocument(t *testing.T) {
	var out bytes.Buffer
	if err := newRecords(&out, "json").end(); err != nil {
		t.Fatal(err)
	}
	var list []any
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list) != 0 {
		t.Errorf("%q: %v", out.String(), err)
	}
}
