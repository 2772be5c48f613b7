package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/export"
)

// objects writes texts as jsonl with a field that has to come back.
func objects(t testing.TB, texts []string) string {
	t.Helper()
	var b strings.Builder
	for i, body := range texts {
		line, err := json.Marshal(map[string]any{"text": body, "id": 100 + i})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return write(t, "texts.jsonl", b.String())
}

func caseTexts(r testmodels.Reference) []string {
	var out []string
	for _, c := range r.Cases {
		out = append(out, c.Text)
	}
	return out
}

func TestTokenizeAgainstReference(t *testing.T) {
	for _, name := range testmodels.All(t) {
		ref := testmodels.Load(t, name)
		out := ok(t, "tokenize", "-m", testmodels.Dir(t, name), "-f", objects(t, caseTexts(ref)), "--format", "jsonl")
		type row struct {
			Index, ID int
			IDs       []int
			Tokens    []string
		}
		rows := lines[row](t, out)
		if len(rows) != len(ref.Cases) {
			t.Fatalf("%s: %d answers for %d texts", name, len(rows), len(ref.Cases))
		}
		for i, r := range rows {
			want := ref.Cases[i].IDs
			if full := ref.Cases[i].FullIDs; full != nil {
				want = full
			}
			if r.Index != i || r.ID != 100+i || !slices.Equal(r.IDs, want) || len(r.Tokens) != len(r.IDs) {
				t.Errorf("%s: text %d: %+v, expected ids %v", name, i, r, want)
			}
		}
	}
}

func TestTokenizeThereAndBack(t *testing.T) {
	llama := testmodels.Dir(t, "llama")
	const body = "There and back, 北京 🙂"
	encoded := ok(t, "tokenize", "-m", llama, body)
	r := hotpathWith(t, encoded, "tokenize", "-m", llama, "--decode", "-f", "-")
	if r.status != exitDone || r.out != body+"\n" {
		t.Errorf("%q came back as %q (%s)", body, r.out, r.err)
	}
	bert := testmodels.Dir(t, "bert")
	with := lines[tokenized](t, ok(t, "tokenize", "-m", bert, "a b", "--format", "jsonl"))[0].IDs
	without := lines[tokenized](t, ok(t, "tokenize", "-m", bert, "a b", "--format", "jsonl", "--special=false"))[0].IDs
	if len(with) != len(without)+2 || !slices.Equal(with[1:len(with)-1], without) {
		t.Errorf("with special tokens %v, without %v", with, without)
	}
	ids := strings.Trim(fmt.Sprint(with), "[]")
	shown, hidden := ok(t, "tokenize", "-m", bert, "--decode", ids), ok(t, "tokenize", "-m", bert, "--decode", ids, "--special=false")
	if !strings.Contains(shown, "[CLS]") || strings.TrimSpace(hidden) != "a b" {
		t.Errorf("decoded with special tokens %q, without %q", shown, hidden)
	}
	empty := ok(t, "tokenize", "-m", llama, "", "--format", "jsonl")
	if empty != `{"index":0,"ids":[],"tokens":[]}`+"\n" {
		t.Errorf("an empty text gives %s", empty)
	}
	decoded := hotpathWith(t, `{"ids":[74,71],"k":[1]}`+"\n", "tokenize", "-m", llama, "--decode", "-f", "-", "--input", "jsonl", "--format", "jsonl")
	if want := `{"index":0,"ids":[74,71],"text":"he","k":[1]}` + "\n"; decoded.out != want {
		t.Errorf("decoded %s (%s), expected %s", decoded.out, decoded.err, want)
	}
}

func TestEmbedAgainstReference(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Encoders(t)) {
		ref := testmodels.Load(t, name)
		type row struct {
			Index, ID, Tokens int
			Embedding         []float32
		}
		rows := lines[row](t, ok(t, "embed", "-m", testmodels.Dir(t, name), "-f", objects(t, caseTexts(ref)), "--format", "jsonl", "--precision", "f32"))
		if len(rows) != len(ref.Cases) {
			t.Fatalf("%s: %d answers for %d texts", name, len(rows), len(ref.Cases))
		}
		for i, r := range rows {
			want := ref.Cases[i]
			if c := cosine(r.Embedding, want.Embedding); c < 0.9999 || r.Index != i || r.ID != 100+i || r.Tokens != len(want.IDs) {
				t.Errorf("%s: text %d: cosine %v, index %d, id %d, %d tokens of %d", name, i, c, r.Index, r.ID, r.Tokens, len(want.IDs))
			}
		}
	}
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range min(len(a), len(b)) {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}

func TestEmbedFlags(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	norm := func(args ...string) float64 {
		t.Helper()
		out := ok(t, append([]string{"embed", "-m", bert, "some words", "--format", "jsonl"}, args...)...)
		v := lines[struct{ Embedding []float32 }](t, out)[0].Embedding
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		return math.Sqrt(sum)
	}
	if n := norm(); math.Abs(n-1) > 1e-3 {
		t.Errorf("length %v, expected 1", n)
	}
	if n := norm("--normalize=false"); math.Abs(n-1) > 1e-3 {
		t.Errorf("length %v although the directory ends with a module for unit length", n)
	}
	if n := norm("--normalize=false", "-m", testmodels.Dir(t, "gguf/bert-f16.gguf")); math.Abs(n-1) < 1e-3 {
		t.Errorf("length %v although --normalize=false", n)
	}
	mean, cls := ok(t, "embed", "-m", bert, "some words", "--format", "csv"), ok(t, "embed", "-m", bert, "some words", "--format", "csv", "--pooling", "cls")
	if mean == cls {
		t.Error("--pooling cls changes nothing")
	}
	for _, parallel := range []string{"fine", "coarse"} {
		if fine, coarse := schedule(t, "embed", "-m", bert, "a", "b c", "--parallel", parallel, "--batch-tokens", "64", "--threads", "2", "--invariant"); (fine > 0) != (parallel == "fine") || (coarse > 0) != (parallel == "coarse") {
			t.Errorf("--parallel %s: %d fine and %d coarse runs", parallel, fine, coarse)
		}
	}
	if fine, coarse := schedule(t, "embed", "-m", bert, "a", "b c", "--parallel", "auto", "--threads", "2"); fine+coarse == 0 {
		t.Error("--parallel auto: nothing ran")
	}
	long := strings.Repeat("word ", 500)
	if r := run(t, "embed", "-m", bert, long); r.status != exitDone || !strings.Contains(r.err, "1 texts were too long") {
		t.Errorf("a long text: exit %d, %q", r.status, r.err)
	}
	// What comes before the text that is too long is answered.
	r := run(t, "embed", "-m", bert, "--truncate=false", "--format", "csv", "short", long)
	if r.status != exitFailed || strings.Count(r.out, "\n") != 1 || !strings.Contains(r.err, "argument 2: text is too long") {
		t.Errorf("--truncate=false: exit %d, %q, %q", r.status, r.out, r.err)
	}
}

// schedule counts the runs that a command recorded: those that all workers
// shared, and those that each had for itself.
func schedule(t *testing.T, args ...string) (fine, coarse int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.json")
	ok(t, append(args, "--profile="+file)...)
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Plans {
		switch runs := int(p.Plans[i].Ledger.Runs); len(p.Plans[i].Lanes) {
		case 1:
			coarse += runs
		default:
			fine += runs
		}
	}
	return fine, coarse
}

func TestScoreAgainstReference(t *testing.T) {
	ref := testmodels.Load(t, "llama")
	rows := lines[struct {
		Index, ID int
		IDs       []int
		NLL       []float64
		PPL       *float64
	}](t, ok(t, "score", "-m", testmodels.Dir(t, "llama"), "-f", objects(t, caseTexts(ref)), "--format", "jsonl", "--precision", "f32"))
	if len(rows) != len(ref.Cases) {
		t.Fatalf("%d answers for %d texts", len(rows), len(ref.Cases))
	}
	for i, r := range rows {
		want := ref.Cases[i]
		if !slices.Equal(r.IDs, want.IDs) || r.ID != 100+i || len(r.NLL) != len(want.NLL) || (r.PPL == nil) != (len(want.NLL) == 0) {
			t.Errorf("text %d: %+v", i, r)
			continue
		}
		for k, x := range r.NLL {
			if math.Abs(x-want.NLL[k]) > 2e-3*max(1, want.NLL[k]) {
				t.Errorf("text %d: nll[%d] is %v, expected %v", i, k, x, want.NLL[k])
			}
		}
	}
}

func TestRunAgainstReference(t *testing.T) {
	ref, llama := testmodels.Load(t, "llama"), testmodels.Dir(t, "llama")
	for _, c := range ref.Cases[:3] {
		out := ok(t, "run", "-m", llama, "-p", c.Text, "-n", "12", "--temp", "0", "--raw", "--ignore-eos", "--precision", "f32", "--format", "json")
		var got struct {
			Text             *string
			IDs              []int
			PromptTokens     int    `json:"prompt_tokens"`
			CompletionTokens int    `json:"completion_tokens"`
			FinishReason     string `json:"finish_reason"`
			Timing           map[string]float64
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Text == nil || got.PromptTokens != len(c.IDs) || got.CompletionTokens != 12 || got.FinishReason != "length" {
			t.Errorf("%.20q: %+v", c.Text, got)
		}
		for i, id := range c.Greedy[:min(12, len(c.Greedy))] {
			if c.Margins[i] < 1e-3 {
				break
			}
			if got.IDs[i] != id {
				t.Fatalf("%.20q: ids %v, expected %v", c.Text, got.IDs, c.Greedy)
			}
		}
		for _, k := range []string{"load_ms", "prefill_ms", "decode_ms", "prefill_tok_s", "decode_tok_s"} {
			if got.Timing[k] <= 0 {
				t.Errorf("timing.%s is %v", k, got.Timing[k])
			}
		}
	}
}

func TestRunFormats(t *testing.T) {
	args := []string{"run", "-m", testmodels.Dir(t, "llama"), "--raw", "-n", "5", "--seed", "3", "--ignore-eos"}
	one := run(t, append(args, "-p", "hello")...)
	two := run(t, append(args, "hello")...)
	if one.status != exitDone || one.out != two.out || !strings.HasSuffix(one.out, "\n") {
		t.Errorf("the same seed gives %q and %q (%s)", one.out, two.out, one.err)
	}
	file := write(t, "prompts.jsonl", `{"text":"hello","id":"x"}`+"\n"+`{"text":"other"}`+"\n")
	rows := lines[struct {
		Index int
		ID    string
		Text  string
	}](t, ok(t, append(args, "-f", file, "--format", "jsonl")...))
	if len(rows) != 2 || rows[0].ID != "x" || rows[1].Index != 1 || rows[0].Text+"\n" != one.out {
		t.Errorf("rows %+v, streamed %q", rows, one.out)
	}
	var document []completion
	if err := json.Unmarshal([]byte(ok(t, append(args, "a", "b", "--format", "json")...)), &document); err != nil || len(document) != 2 {
		t.Errorf("%d answers in the document: %v", len(document), err)
	}
	stopped := ok(t, append(args, "-p", "hello", "--format", "json", "--stop", string([]rune(rows[0].Text)[1:2]))...)
	if !strings.Contains(stopped, `"finish_reason":"stop"`) {
		t.Errorf("--stop: %s", stopped)
	}
}

func TestInfo(t *testing.T) {
	var m machine
	if err := json.Unmarshal([]byte(ok(t, "info", "--format", "json", "--threads", "1")), &m); err != nil {
		t.Fatal(err)
	}
	if m.CPU == "" || m.Cores < 1 || m.Threads != 1 || m.FLOPs <= 0 || m.Bandwidth <= 0 || !slices.Contains(m.Tiers, m.Tier) {
		t.Errorf("%+v", m)
	}
}

// TestInfoCalibration: what info measured is kept and shown again, a file that
// is damaged is measured anew, and a folder that cannot be written is no error.
// What the figures are is the machine's affair: where it is busy there are none.
func TestInfoCalibration(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOTPATH_CACHE", dir)
	t.Setenv(calib.Env, "")
	info := func(args ...string) *parallel {
		t.Helper()
		var m machine
		if err := json.Unmarshal([]byte(ok(t, append([]string{"info", "--format", "json", "--threads", "2"}, args...)...)), &m); err != nil {
			t.Fatal(err)
		}
		p := m.Parallel
		if p == nil || p.Workers != 2 || p.Fine <= 0 || len(p.Thresholds) != len(examples) || len(p.Thresholds[0].CoarseFrom) != len(lengths) {
			t.Fatalf("%+v", p)
		}
		return p
	}
	if p := info(); p.From == calib.FromDefault && p.Note == "" || p.From == calib.FromCache {
		t.Errorf("first: %+v", p)
	}
	key := calib.KeyOf(2)
	kept := calib.Default(2, key.Parallel())
	kept.Measured, kept.Barrier = true, 7e-6
	folder, err := calib.Dir()
	if err != nil {
		t.Fatal(err)
	}
	if err := calib.Store(folder, key, kept); err != nil {
		t.Fatal(err)
	}
	p := info()
	if p.From != calib.FromCache || p.Costs != kept || p.File == "" {
		t.Errorf("kept figures: %+v", p)
	}
	out := ok(t, "info", "--threads", "2")
	for _, want := range []string{"a barrier 7.00 us", calib.FromCache + ", kept in " + p.File, "threads pay from ", "coarse from "} {
		if !strings.Contains(out, want) {
			t.Errorf("info does not say %q:\n%s", want, out)
		}
	}
	if p := info("--calibrate"); p.Costs == kept || p.From == calib.FromCache {
		t.Errorf("measured again: %+v", p)
	}
	if err := os.WriteFile(p.File, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p := info(); p.From == calib.FromCache {
		t.Errorf("a damaged file: %+v", p)
	}
	t.Setenv("HOTPATH_CACHE", filepath.Join(p.File, "no folder"))
	if p := info(); p.File != "" || p.Note == "" {
		t.Errorf("no folder: %+v", p)
	}
	t.Setenv(calib.Env, calib.Off)
	if p := info(); p.From != calib.FromDefault {
		t.Errorf("off: %+v", p)
	}
}

func TestInspect(t *testing.T) {
	var in inspection
	if err := json.Unmarshal([]byte(ok(t, "inspect", testmodels.Dir(t, "gguf/llama-q8_0.gguf"), "--format", "json")), &in); err != nil {
		t.Fatal(err)
	}
	if in.Config == nil || in.Config.Arch != "llama" || in.Config.Layers != 2 || in.Config.Cost.FLOPs <= 0 || in.Types[0].Type != "Q8_0" || len(in.Tensors) != 21 {
		t.Errorf("%+v", in)
	}
	out := ok(t, "inspect", testmodels.Dir(t, "bert"), "--tensors")
	for _, want := range []string{"architecture   bert", "mean pooling", "embeddings.word_embeddings.weight", "hidden_size"} {
		if !strings.Contains(out, want) {
			t.Errorf("inspect does not say %q:\n%s", want, out)
		}
	}
}

func TestProfile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.json")
	ok(t, "embed", "-m", testmodels.Dir(t, "bert"), "a text", "--profile="+file)
	empty := filepath.Join(dir, "empty.json")
	if err := profile.NewRecorder(profile.Options{}).Snapshot().WriteFile(empty); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"profile", "show", empty, "--by", "uneven"}, "does not have the lanes of single calls", "nothing to rank by uneven")
	if out := ok(t, "profile", "show", file, "--top", "2", "--by", "uneven"); !strings.Contains(out, "top 2 by uneven") {
		t.Errorf("profile show --by uneven printed %s", out)
	}
	if out := ok(t, "profile", "show", file, "--top", "2", "--by", "lost"); !strings.Contains(out, "LEDGER") || !strings.Contains(out, "top 2 by lost") {
		t.Errorf("report:\n%s", out)
	}
	if out := ok(t, "profile", "show", file); !regexp.MustCompile(`(?m)^ +embed[a-z.]* T≤[0-9]+ +embed +cpu `).MatchString(out) {
		t.Errorf("the report does not tell which size of the program ran:\n%s", out)
	}
	for _, format := range []string{"json", "csv", "md"} {
		if out := ok(t, "profile", "show", file, "--format", format); len(out) < 100 {
			t.Errorf("--format %s: %q", format, out)
		}
	}
	columns := func(args ...string) (names []string, out string) {
		out = ok(t, append([]string{"profile", "show", file, "--format", "csv"}, args...)...)
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Index(rows[0], "name")
		for _, row := range rows[1:] {
			names = append(names, row[at])
		}
		return names, out
	}
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []profile.StepResult
	}{
		{nil, p.Where(func(profile.StepResult) bool { return true })},
		{[]string{"--top", "3"}, p.Top(3, profile.ByTime)},
		{[]string{"--by", "alloc"}, p.Top(-1, profile.ByAlloc)},
		{[]string{"--by", "lost", "--top", "2"}, p.Top(2, profile.ByLost)},
		{[]string{"--by", "lost", "--top", "-1"}, p.Top(-1, profile.ByLost)},
	} {
		var want []string
		for _, s := range c.want {
			want = append(want, s.Step.Name)
		}
		if got, out := columns(c.args...); !slices.Equal(got, want) {
			t.Errorf("csv %v has %q, expected %q:\n%s", c.args, got, want, out)
		}
	}
	if whole := ok(t, "profile", "show", file, "--format", "json"); ok(t, "profile", "show", file, "--format", "json", "--top", "1", "--by", "lost") != whole {
		t.Error("--top and --by change the JSON, which is the whole profile")
	}
	for _, exporter := range export.Exporters() {
		ending := exporter.Ending
		out := filepath.Join(dir, "out"+ending)
		ok(t, "profile", "export", file, "-o", out)
		if info, err := os.Stat(out); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", ending, err)
		}
	}
	if r := run(t, "score", "-m", testmodels.Dir(t, "llama"), "some words", "--profile"); r.status != exitDone || !strings.Contains(r.err, "LEDGER") || strings.Contains(r.out, "LEDGER") {
		t.Errorf("--profile: exit %d, %q", r.status, r.err)
	}
	fails(t, exitFailed, []string{"profile", "show", write(t, "bad.json", `{"format":"other"}`)}, "bad.json")
}
