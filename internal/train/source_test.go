package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// opened is a source of files, closed with the test.
func opened(t testing.TB, tok *tokenizer.Tokenizer, vocab int, spec sourceSpec) (Source, error) {
	t.Helper()
	spec.tok, spec.vocab = tok, vocab
	if spec.seqLen == 0 {
		spec.seqLen = 1 << 20
	}
	if spec.pairs == nil {
		spec.pairs = func() (*model.Pairs, error) { return nil, errors.New("no pairs") }
	}
	if spec.tokPrint == nil {
		spec.tokPrint = func() (string, error) { return "tokenizer", nil }
	}
	s, free, err := openSource(t.Context(), spec)
	if err == nil {
		t.Cleanup(func() { must(t, free()) })
	}
	return s, err
}

// examplesOf are copies of all examples.
func examplesOf(t testing.TB, s Source) []Example {
	t.Helper()
	list := make([]Example, s.Stats().Examples)
	var e Example
	for i := range list {
		must(t, s.Example(i, &e))
		must(t, s.Kind().check(&e))
		list[i] = Example{Label: e.Label, Score: e.Score}
		for _, q := range e.Seqs {
			list[i].Seqs = append(list[i].Seqs, Sequence{IDs: slices.Clone(q.IDs), Segments: slices.Clone(q.Segments), Learn: slices.Clone(q.Learn)})
		}
	}
	return list
}

// learnt is the text of the tokens that are targets, and of the others.
func learnt(tok *tokenizer.Tokenizer, q Sequence) (yes, no string) {
	var a, b []int32
	for i, id := range q.IDs {
		if q.Learn[i] {
			a = append(a, id)
		} else {
			b = append(b, id)
		}
	}
	return tok.Decode(a, false), tok.Decode(b, false)
}

func TestTextSource(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	eos, ok := tok.EOS()
	if !ok {
		t.Fatal("the fixture has no EOS")
	}
	dir := t.TempDir()
	write(t, dir, "b.txt", "second file")
	write(t, dir, "a.txt", "first file\nof two lines")
	write(t, dir, "sub/c.jsonl", "{\"text\":\"a line\",\"id\":1}\n\n{\"text\":\"\"}\n{\"text\":\"another\"}")
	write(t, dir, "ignored.md", "no text of ours")
	s, err := opened(t, tok, vocab, sourceSpec{paths: []string{dir}, next: true})
	must(t, err)
	var want [][]int32
	for _, text := range []string{"first file\nof two lines", "second file", "a line", "another"} {
		want = append(want, append(tok.Encode(nil, text, tokenizer.Options{Special: true}, nil), eos))
	}
	got := examplesOf(t, s)
	if s.Kind() != Text || len(got) != len(want) {
		t.Fatalf("%d examples of kind %s, expected %d", len(got), s.Kind(), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i].Seqs[0].IDs, want[i]) {
			t.Errorf("document %d: %v, expected %v", i, got[i].Seqs[0].IDs, want[i])
		}
	}
	moved, err := opened(t, tok, vocab, sourceSpec{paths: []string{write(t, dir, "x/one.txt", "first file\nof two linessecond file")}})
	must(t, err)
	if moved.Fingerprint() == s.Fingerprint() {
		t.Error("fingerprints do not tell data apart")
	}
	if _, err := opened(t, tok, 3, sourceSpec{paths: []string{dir + "/a.txt"}}); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "below 3") {
		t.Errorf("ids beyond the vocabulary: error %v", err)
	}
}

// Pieces of a document overlap by the token that one predicts and the next one
// reads, and without targets do not overlap.
func TestPieces(t *testing.T) {
	var c shard
	for i := range 10 {
		c.ids = append(c.ids, int32(i))
	}
	c.seqs, c.examples, c.values = []int64{10}, []int64{1}, []float32{0}
	for _, next := range []bool{true, false} {
		s := newTexts(newFileSource(&sourceSpec{kind: Text, vocab: 10}, []*shard{&c}, ""), 4, next)
		var got [][]int32
		for _, e := range examplesOf(t, s) {
			got = append(got, e.Seqs[0].IDs)
		}
		want := "[[0 1 2 3 4] [4 5 6 7 8] [8 9]]"
		if !next {
			want = "[[0 1 2 3] [4 5 6 7] [8 9]]"
		}
		stats := s.Stats()
		if fmt.Sprint(got) != want || stats.Tokens != map[bool]int64{true: 12, false: 10}[next] || stats.Longest != len(got[0]) {
			t.Errorf("pieces %v, %+v, expected %s", got, stats, want)
		}
	}
}

// chatTokenizer is the fixture's with a template that marks turns.
func chatTokenizer(t testing.TB) (*tokenizer.Tokenizer, int) {
	tok, vocab := fixtureTokenizer(t)
	return tok.WithChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}</end>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"), vocab
}

func TestAnswers(t *testing.T) {
	plain, vocab := fixtureTokenizer(t)
	chat, _ := chatTokenizer(t)
	for _, c := range []struct {
		name, line string
		tok        *tokenizer.Tokenizer
		yes, no    []string
	}{
		{"chat", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Bye"},{"role":"assistant","content":"So long"}]}`, chat,
			[]string{"Hello.</end>\nSo long</end>\n"}, []string{"<user>Hi</end>\n<assistant><user>Bye</end>\n<assistant>"}},
		{"instruction by template", `{"instruction":"Add","input":"1 2","output":"3"}`, chat, []string{"3</end>\n"}, []string{"<user>Add\n\n1 2</end>\n<assistant>"}},
		{"instruction", `{"instruction":"Add","output":"3"}`, plain, []string{"3"}, []string{fmt.Sprintf(alpacaPlain, "Add")}},
		{"completion", `{"prompt":"Once upon ","completion":"a time"}`, plain, []string{"a time"}, []string{"Once upon "}},
		{"preference", `{"prompt":"Hi","chosen":"Good day","rejected":"What"}`, chat, []string{"Good day</end>\n", "What</end>\n"}, []string{"<user>Hi</end>\n<assistant>", "<user>Hi</end>\n<assistant>"}},
		{"preference of messages", `{"chosen":[{"role":"user","content":"A"},{"role":"assistant","content":"B"}],"rejected":[{"role":"user","content":"A"},{"role":"assistant","content":"C"}]}`, chat,
			[]string{"B</end>\n", "C</end>\n"}, []string{"<user>A</end>\n<assistant>", "<user>A</end>\n<assistant>"}},
		{"preference without prompt", `{"chosen":"Q: one two A: three","rejected":"Q: one two A: four"}`, plain, []string{"three", "four"}, []string{"Q: one two A: ", "Q: one two A: "}},
	} {
		s, err := opened(t, c.tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", c.line+"\n")}, next: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		e := examplesOf(t, s)
		if len(e) != 1 || len(e[0].Seqs) != len(c.yes) {
			t.Errorf("%s: %d examples: %+v", c.name, len(e), e)
			continue
		}
		for i, q := range e[0].Seqs {
			yes, no := learnt(c.tok, q)
			if eos, _ := c.tok.EOS(); q.IDs[len(q.IDs)-1] == eos && q.Learn[len(q.Learn)-1] {
				yes = strings.TrimSuffix(yes, func() string { s, _ := c.tok.Token(eos); return s }())
			}
			if strings.TrimSpace(yes) != strings.TrimSpace(c.yes[i]) || strings.TrimSpace(no) != strings.TrimSpace(c.no[i]) {
				t.Errorf("%s: sequence %d learns %q of %q, expected %q of %q", c.name, i, yes, no, c.yes[i], c.no[i])
			}
		}
	}
}

// A template that rewrites earlier turns lets the last answer be learnt.
func TestRewritingTemplate(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	tok = tok.WithChatTemplate("{% for m in messages %}[{{ m.role }}{{ loop.revindex }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant1]{% endif %}")
	line := `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."}]}`
	_, err := opened(t, tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", line)}, next: true})
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "writes no answer of the assistant after its prompt") {
		t.Errorf("error %v", err)
	}
}

func TestColumns(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	ids := func(text string) []int32 { return tok.Encode(nil, text, tokenizer.Options{Special: true}, nil) }
	for _, c := range []struct {
		line  string
		kind  Kind
		texts []string
		label int32
		score float32
		plain bool
	}{
		{`{"anchor":"one","positive":"two"}`, Pairs, []string{"one", "two"}, 0, 0, false},
		{`{"query":"one","pos":"two","neg":["three","four"]}`, Pairs, []string{"one", "two", "three", "four"}, 0, 0, false},
		{`{"id":7,"sentence1":"one","sentence2":"two","score":0.25}`, Scored, []string{"one", "two"}, 0, 0.25, false},
		{`{"text":"one","label":3}`, Labelled, []string{"one"}, 3, 0, false},
		{`{"text":"one","score":-2}`, Scored, []string{"one"}, 0, -2, false},
		{`{"text":"one","label":3}`, Text, nil, 0, 0, true},
	} {
		s, err := opened(t, tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", c.line)}, plain: c.plain})
		must(t, err)
		e := examplesOf(t, s)
		if s.Kind() != c.kind || len(e) != 1 {
			t.Errorf("%s: %d examples of kind %s, expected %s", c.line, len(e), s.Kind(), c.kind)
			continue
		}
		for i, text := range c.texts {
			if i >= len(e[0].Seqs) || !slices.Equal(e[0].Seqs[i].IDs, ids(text)) {
				t.Errorf("%s: sequence %d of %+v, expected %q", c.line, i, e[0].Seqs, text)
			}
		}
		if e[0].Label != c.label || e[0].Score != c.score {
			t.Errorf("%s: label %d, score %v", c.line, e[0].Label, e[0].Score)
		}
	}
}

// A labelled pair is one sequence, as the model's own tokenizer joins two texts.
func TestLabelledPair(t *testing.T) {
	st, err := weights.Open(testmodels.Dir(t, "bert"))
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	tok, err := m.Tokenizer()
	must(t, err)
	pairs, err := m.Pairs()
	must(t, err)
	wantIDs, wantParts, _ := pairs.Append(nil, nil, "a question", "its answer", &model.PairScratch{})
	line := `{"sentence1":"a question","sentence2":"its answer","label":1}`
	s, err := opened(t, tok, m.Config().Vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", line)}, pairs: m.Pairs, seqLen: m.Config().MaxSeq})
	must(t, err)
	e := examplesOf(t, s)
	if s.Kind() != Labelled || len(e) != 1 || len(e[0].Seqs) != 1 || e[0].Label != 1 || !slices.Equal(e[0].Seqs[0].IDs, wantIDs) || !slices.Equal(e[0].Seqs[0].Segments, wantParts) {
		t.Errorf("kind %s: %+v, expected ids %v, segments %v", s.Kind(), e, wantIDs, wantParts)
	}
}

// Each mistake is one line that names file, line and column, before any
// training.
func TestWrongData(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	chat, _ := chatTokenizer(t)
	for _, c := range []struct {
		text, want string
		tok        *tokenizer.Tokenizer
	}{
		{"{\"text\":\"a\"}\nplain\n", `a.jsonl: line 2, column 1: not JSON: expected a JSON value, found "plain"`, tok},
		{"{\"text\":\"é\", \"x\":}\n", `line 1, column 18: not JSON`, tok},
		{"[1]\n", `line 1, column 1: expected an object, found an array`, tok},
		{"{\"text\":3}\n", `line 1, column 9: field "text": expected a string, found a number`, tok},
		{"{\"txt\":\"a\"}\n", `fields "txt": expected "text", "messages"`, tok},
		{"{\"txt\":\"a\"}\n", `(did you mean "text" for "txt"?)`, tok},
		{"{\"conversations\":[]}\n", `(did you mean "messages" for "conversations"?)`, tok},
		{"{\"instuction\":\"a\",\"output\":\"b\"}\n", `(did you mean "instruction" for "instuction"?)`, tok},
		{"{\"prompt\":\"a\",\"chosen\":\"b\"}\n", `"chosen" and "rejected"`, tok},
		{"{\"text\":\"a\"}\n{\"txet\":\"a\"}\n", `line 2, column 1: fields "txet": expected "text", as the objects before it have (text) (did you mean "text" for "txet"?)`, tok},
		{"{}\n", `fields none`, tok},
		{"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}\n", `the model has no chat template`, tok},
		{"{\"messages\":\"hi\"}\n", `column 13: field "messages": expected a list of messages, found a string`, chat},
		{"{\"messages\":[{\"from\":\"human\",\"value\":\"a\"}]}\n", `column 14: field "messages": expected objects with "role" and "content" (did you mean "role" for "from"?)`, chat},
		{"{\"messages\":[{\"role\":\"user\"}]}\n", `a message of role "user", expected "content"`, chat},
		{"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n", `no message of role "assistant"`, chat},
		{"{\"text\":\"a\",\"label\":\"yes\"}\n", `column 21: field "label": expected a class, a whole number from 0`, tok},
		{"{\"text\":\"a\",\"label\":-1}\n", `field "label"`, tok},
		{"{\"a\":\"a\",\"b\":\"b\",\"score\":\"high\"}\n", `field "score": expected a number`, tok},
		{"{\"a\":\"a\",\"b\":\"b\",\"score\":1}\n{\"a\":\"a\",\"b\":\"b\"}\n", `line 2, column 1: field "score": expected a number`, tok},
		{"{\"a\":\"a\",\"b\":\"b\",\"score\":1e300}\n", `column 26: field "score": expected a number that fits 32 bits, found 1e300`, tok},
		{"{\"a\":\"a\",\"b\":\"b\",\"c\":\"c\",\"score\":1}\n", `3 columns of text beside "score", expected 1 or 2`, tok},
		{"{\"text\":\"a\",\"label\":true}\n", `field "label": expected a class, a whole number from 0`, tok},
		{"{\"text\":\"a\",\"label\":1e400}\n", `field "label": expected a class, a whole number from 0`, tok},
		{"{\"text\":\"a\"}\n\x00\x00\n", `line 2, column 1: not JSON: expected a JSON value, found "\x00\x00"`, tok},
		{"[\n {\"text\":\"a\"}\n]\n", `line 1, column 2: not JSON: expected a JSON value, found the end of the line`, tok},
		{"{\"text\":\"a b c d\"}\n{\"text\":\"a b", `line 2, column 13: not JSON: expected the end of the string, found the end of the line`, tok},
		{"{\"text\":null}\n", `line 1, column 9: field "text": expected a string, found null`, tok},
		{"{\"a\":\"a\",\"b\":\"b\"}\n{\"a\":\"a\"}\n", `line 2, column 1: fields "a": 1 columns of text, expected 2 to 64`, tok},
		{"{\"a\":\"one two three four five six seven eight nine ten\",\"b\":\"b\"}\n", `tokens, expected at most 8 (field seq_len)`, tok},
		{"{\"prompt\":\"one two three four five six seven eight nine ten\",\"completion\":\"b\"}\n", `tokens, expected at most 8 (field seq_len)`, tok},
		{"{\"prompt\":\"a\",\"completion\":\"\"}\n{\"prompt\":\"a\",\"completion\":4}\n", `column 28: field "completion": expected a string, found a number`, tok},
	} {
		_, err := opened(t, c.tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", c.text)}, seqLen: 8})
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.jsonl: line ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, expected %q", c.text, err, c.want)
		}
	}
	dir := t.TempDir()
	write(t, dir, "a.jsonl", `{"a":"x","b":"y"}`)
	write(t, dir, "b.txt", "text")
	for want, path := range map[string]string{"b.txt: a text file among data of kind pairs": dir, "no .txt and no .jsonl": t.TempDir()} {
		if _, err := opened(t, tok, vocab, sourceSpec{paths: []string{path}}); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	line := `{"a":"one two three four five six seven eight nine ten","b":"b"}`
	s, err := opened(t, tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", line)}, seqLen: 8, truncate: true})
	must(t, err)
	if e := examplesOf(t, s); len(e[0].Seqs[0].IDs) != 8 {
		t.Errorf("%d tokens, expected 8", len(e[0].Seqs[0].IDs))
	}
	line = `{"prompt":"one two three four five six seven eight nine ten","completion":"b"}`
	_, err = opened(t, tok, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "a.jsonl", line)}, seqLen: 8, truncate: true})
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "the answer lies behind the first 8 tokens") {
		t.Errorf("error %v of an answer that is cut off", err)
	}
}

// FuzzRecords reads hostile lines of every form.
func FuzzRecords(f *testing.F) {
	for _, line := range []string{
		`{"text":"a"}`, `{"text":"a","label":1}`, `{"text":"a","score":1e300}`, `{"a":"x","b":"y","c":["z",1]}`,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, `{"prompt":"a","completion":"b"}`,
		`{"instruction":"a","input":null,"output":"b"}`, `{"prompt":[],"chosen":"b","rejected":"c"}`, `{"chosen":[],"rejected":[{}]}`, `{"prompt":3,"chosen":"b","rejected":"c"}`,
	} {
		f.Add([]byte(line), true)
		f.Add([]byte(line+"\n"+line), false)
	}
	tok, vocab := fixtureTokenizer(f)
	chat, _ := chatTokenizer(f)
	f.Fuzz(func(t *testing.T, data []byte, template bool) {
		use := tok
		if template {
			use = chat
		}
		s, err := opened(t, use, vocab, sourceSpec{paths: []string{write(t, t.TempDir(), "f.jsonl", string(data))}, workers: 1, seqLen: 64, next: true})
		if err != nil {
			if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "f.jsonl: line ") {
				t.Errorf("error %v", err)
			}
			return
		}
		examplesOf(t, s)
	})
}

// An interrupt ends reading, with shards and without.
func TestSourceIsInterrupted(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir := t.TempDir()
	bigCorpus(t, dir)
	stop := errors.New("stop")
	for _, cache := range []string{"", t.TempDir()} {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, _, err := openSource(ctx, sourceSpec{
			paths: []string{dir}, tok: tok, vocab: vocab, seqLen: 64, workers: 2, cache: cache, tokPrint: func() (string, error) { return "", nil },
			pairs: func() (*model.Pairs, error) { return nil, nil }, progress: func(int64, int64) { cancel(stop) },
		})
		if !errors.Is(err, stop) {
			t.Errorf("cache %q: %v, expected the cause of the interrupt", cache, err)
		}
	}
}

// An interrupt ends reading where no document comes for a long time: blank lines,
// one large text, a folder of other files.
func TestReadingIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "other/notes.md", "no text of ours")
	tok, vocab := fixtureTokenizer(t)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for _, path := range []string{
		write(t, dir, "blank.jsonl", strings.Repeat("\n", 1000)),
		write(t, dir, "large.txt", strings.Repeat("words ", 1000)),
		dir + "/other",
	} {
		_, _, err := openSource(ctx, sourceSpec{paths: []string{path}, tok: tok, vocab: vocab, seqLen: 8, pairs: func() (*model.Pairs, error) { return nil, nil }})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v, expected the cause of the interrupt", path, err)
		}
	}
}
