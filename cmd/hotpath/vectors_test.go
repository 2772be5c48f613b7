package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestVectorFormats(t *testing.T) {
	vectors := [][]float32{{0.1, -2, 1e-9}, {3, 4, math.MaxFloat32}}
	written := func(format string) []byte {
		t.Helper()
		var out bytes.Buffer
		w, err := newVectorWriter(&out, format)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range vectors {
			if err := w.write(text{index: i, body: "a text"}, 5+i, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
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
		w, err := newVectorWriter(&bytes.Buffer{}, format)
		if err != nil {
			t.Fatal(err)
		}
		nan := float32(math.NaN())
		if err := w.write(text{where: "texts:3"}, 1, []float32{0, nan}); err == nil || !strings.Contains(err.Error(), "texts:3") {
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
