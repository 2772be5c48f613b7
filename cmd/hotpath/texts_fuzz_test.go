package main

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// FuzzTexts: whatever a .jsonl file holds, an error names its line, memory is
// bounded by its size, and what is carried makes a line of JSON again.
func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		`{"text":"a"}`, `{"id":7,"text":"a\nb","deep":{"z":[1,2]}}`, `{"text":null}`, `{"text":7}`, `{"text":"a"} {}`, `{"te`, "", "\xef\xbb\xbf{\"text\":\"\"}",
		`{"text":"\ud800"}`, "{\"text\":\"a\",\"\xff\":\"\xfe\"}", `{"text":"a","text":"b"}`, `{"ids":[1,2],"ids":3}`, `{"a":` + strings.Repeat("[", 300), `{"":0,"":1}`,
		"{\"text\":\"a\"}\r\n\r\n[1]\n{\"x\":1}\r", strings.Repeat(`{"text":"a"}`+"\n", 50),
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, ids bool) {
		key := map[bool]string{false: "text", true: "ids"}[ids]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		flags := textFlags{file: "-", input: "jsonl", ids: ids}
		in, err := flags.open(t.Context(), nil, streams{in: bytes.NewReader(data)}, "index")
		if err != nil {
			t.Fatal(err)
		}
		defer in.close()
		var all []text
		for one := range in.each(t.Context()) {
			all = append(all, one)
		}
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+1024*len(data)); got > most {
			t.Errorf("%d bytes are read with %d bytes of memory, expected at most %d", len(data), got, most)
		}
		if err := in.ended(); err != nil {
			t.Errorf("%v, expected errors beside their texts", err)
		}
		for i, one := range all {
			if one.index != i || !strings.HasPrefix(one.where, "standard input:") {
				t.Errorf("text %d is %d, at %q", i, one.index, one.where)
			}
			if one.err != nil {
				if s := one.err.Error(); !strings.Contains(s, key) && !strings.Contains(s, "JSON object") || len(s) > 500 {
					t.Errorf("%v, expected the field or that it is no object", one.err)
				}
				continue
			}
			line := appendCarried([]byte(`{"index":0}`), one.carry)
			if !json.Valid(line) || bytes.IndexByte(line, '\n') >= 0 {
				t.Errorf("%q, expected a line of JSON", line)
			}
		}
	})
}

// countingReader counts what was read of an endless input of long lines.
type countingReader struct {
	line []byte
	read int
}

func (r *countingReader) Read(b []byte) (int, error) {
	n := copy(b, r.line[r.read%len(r.line):])
	r.read += n
	return n, nil
}

// What is read before anybody asks for it is bounded in bytes, not only in
// lines.
func TestTextsReadAheadIsBounded(t *testing.T) { synctest.Test(t, readAhead) }

func readAhead(t *testing.T) {
	const long = 1 << 20
	source := &countingReader{line: append(bytes.Repeat([]byte("x"), long-1), '\n')}
	flags := textFlags{file: "-", input: "lines"}
	in, err := flags.open(t.Context(), nil, streams{in: source}, "index")
	if err != nil {
		t.Fatal(err)
	}
	for taken := range 20 {
		synctest.Wait() // the reader waits for somebody to ask
		if most := (taken+3)*long + maxAhead; source.read > most {
			t.Fatalf("%d bytes were read for %d, expected at most %d", source.read, taken*long, most)
		}
		one, ok, err := in.take(t.Context(), false)
		if err != nil || !ok || len(one.body) != long-1 || one.index != taken {
			t.Fatalf("text %d: %d bytes, %t, %v", taken, len(one.body), ok, err)
		}
	}
	in.close()
	// A line of more than maxAhead comes through.
	in, err = flags.open(t.Context(), nil, streams{in: io.LimitReader(&countingReader{line: bytes.Repeat([]byte("y"), 1<<16)}, maxAhead+1)}, "index")
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	if one, ok, err := in.take(t.Context(), false); err != nil || !ok || len(one.body) != maxAhead+1 {
		t.Errorf("%d bytes, %t, %v", len(one.body), ok, err)
	}
}
