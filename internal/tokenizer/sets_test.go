package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The sets hold every family to the reference on 10,000 awkward texts (scripts/goldens_tokenizer_sets.py).

// setsFolder is testdata/sets, or what make tokenizers has made: other texts.
func setsFolder() string {
	if dir := os.Getenv("HOTPATH_TOKENIZER_SETS"); dir != "" {
		return dir
	}
	return filepath.Join("testdata", "sets")
}

func readSet(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(setsFolder(), name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func setTexts(t testing.TB) (texts []string) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(readSet(t, "texts.gz")))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for len(data) >= 4 {
		n := binary.LittleEndian.Uint32(data)
		texts = append(texts, string(data[4:4+n]))
		data = data[4+n:]
	}
	if len(texts) < 10000 {
		t.Fatalf("%d texts, expected 10000 or more", len(texts))
	}
	return texts
}

// family is a tokenizer of the sets: changes to a base, or a file beside the project.
type family struct {
	Name, Base, Pre, File string
	Change                map[string]json.RawMessage
}

func setFamilies(t testing.TB) (list []family) {
	t.Helper()
	if err := json.Unmarshal(readSet(t, "families.json"), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// file is the family's tokenizer.json, as the script assembles it.
func (f family) file(t testing.TB) []byte {
	t.Helper()
	var file, model map[string]json.RawMessage
	base := filepath.Join("testdata", f.Base+".json")
	if f.Base == "spm" || f.Base == "unigram" {
		base = filepath.Join(setsFolder(), f.Base+".json")
	}
	data, err := os.ReadFile(base)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(json.Unmarshal(data, &file))
	must(json.Unmarshal(file["model"], &model))
	for key, value := range f.Change {
		switch key {
		case "model":
			must(json.Unmarshal(value, &model))
			file["model"], err = json.Marshal(model)
			must(err)
		case "added":
			var old, more []map[string]any
			must(json.Unmarshal(file["added_tokens"], &old))
			must(json.Unmarshal(value, &more))
			file["added_tokens"], err = json.Marshal(append(old, more...))
			must(err)
		default:
			file[key] = value
		}
	}
	out, err := json.Marshal(file)
	must(err)
	if bytes.Contains(out, []byte("@charsmap")) {
		out = bytes.ReplaceAll(out, []byte("@charsmap"), readSet(t, "charsmap.txt"))
	}
	return out
}

func (f family) open(t testing.TB) *Tokenizer {
	t.Helper()
	var tok *Tokenizer
	var err error
	if f.File != "" {
		tok, err = FromGGUF(sharedVocab(t, f.File))
	} else {
		tok, err = FromJSON(f.Name, f.file(t), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// digest is one number of everything that a tokenizer says about a text.
func digest(special, unparsed []int32, decoded, skipped string) uint16 {
	var b []byte
	for i, ids := range [][]int32{special, unparsed} {
		if i > 0 {
			b = append(b, 0)
		}
		for n, id := range ids {
			if n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
	}
	if len(special) > 0 && len(unparsed) > 0 {
		b = append(append(append(append(b, 0), decoded...), 0), skipped...)
	}
	c := crc32.ChecksumIEEE(b)
	return uint16(c ^ c>>16)
}

func TestSets(t *testing.T) {
	texts := setTexts(t)
	for _, f := range setFamilies(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			want := readSet(t, strings.ReplaceAll(f.Name, " ", "_")+".crc")
			tok := f.open(t)
			if len(want) != 2*len(texts) {
				t.Fatalf("%d answers for %d texts", len(want)/2, len(texts))
			}
			var s Scratch
			var special, unparsed []int32
			bad := 0
			for i, text := range texts {
				if testing.Short() && i%8 != 0 {
					continue
				}
				special = tok.Encode(special[:0], text, Options{Special: true, ParseSpecial: true}, &s)
				unparsed = tok.Encode(unparsed[:0], text, Options{}, &s)
				decoded, skipped := tok.Decode(special, false), tok.Decode(unparsed, true)
				if digest(special, unparsed, decoded, skipped) != binary.LittleEndian.Uint16(want[2*i:]) {
					if bad++; bad <= 5 {
						t.Errorf("text %d %+.200q: got %.200s, %.200s, %+.200q, %+.200q", i, text, fmt.Sprint(special), fmt.Sprint(unparsed), decoded, skipped)
					}
				}
				if i%8 == 0 {
					if got := streamed(tok, special, true); got != decoded {
						t.Errorf("text %d %+.200q streams to %+.200q, decodes to %+.200q", i, text, got, decoded)
					}
				}
			}
			if bad > 5 {
				t.Errorf("and %d more", bad-5)
			}
		})
	}
}

// streamed decodes ids one at a time.
func streamed(tok *Tokenizer, ids []int32, special bool) string {
	stream := tok.NewStream()
	stream.KeepSpecial = special
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(stream.Push(id))
	}
	out.WriteString(stream.Flush())
	return out.String()
}
