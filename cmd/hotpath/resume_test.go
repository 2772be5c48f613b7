package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hotpath/internal/atomicfile"
	"hotpath/internal/testmodels"
)

// manyObjects are n lines of jsonl, some of which no format but jsonl can answer.
func manyObjects(t *testing.T, n int, bad bool) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		line, err := json.Marshal(map[string]any{"text": fmt.Sprintf("text %d%s", i, strings.Repeat(" of rain", i%9)), "id": i})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(line) + "\n"
		if bad && i%50 == 7 {
			out[i] = "{\"text\":\n"
		}
	}
	return out
}

// TestResumeAfterKill: whatever moment SIGKILL comes at, going on leaves what
// one run would have left, byte for byte.
func TestResumeAfterKill(t *testing.T) {
	random := rand.New(rand.NewPCG(5, uint64(os.Getpid())))
	for _, c := range []struct {
		format string
		args   []string
		bad    bool
	}{
		{"jsonl", nil, true},
		{"csv", []string{"--quantize", "int8"}, false},
		{"npy", []string{"--dim", "12"}, false},
		{"bin", []string{"--quantize", "binary"}, false},
	} {
		t.Run(c.format, func(t *testing.T) {
			dir := t.TempDir()
			input := manyObjects(t, 2000, c.bad)
			common := append([]string{"embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "--input", "jsonl", "--format", c.format}, c.args...)
			whole := hotpathWith(t, strings.Join(input, ""), common...)
			if want := map[bool]int{false: exitDone, true: exitFailed}[c.bad]; whole.status != want {
				t.Fatalf("exit %d: %s", whole.status, whole.err)
			}
			out := filepath.Join(dir, "out")
			args := append(common, "-o", out, "--resume")
			kills, size := 6, int64(0)
			if testing.Short() {
				kills = 2
			}
			for kill := range kills {
				// The child gets a part of the input and no end, so that it dies at work.
				upto := len(input) * (kill + 1) / (kills + 1)
				size = killAfter(t, args, strings.Join(input[:upto], ""), out, size+int64(random.IntN(len(whole.out)/kills/2)))
				torn, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				if head := findFormat(c.format).header; len(torn) > head && !strings.HasPrefix(whole.out[head:], string(torn[head:])) {
					t.Fatalf("after kill %d the output is not the beginning of the whole", kill)
				}
			}
			r := hotpathWith(t, strings.Join(input, ""), args...)
			if r.status != whole.status {
				t.Fatalf("exit %d: %s", r.status, r.err)
			}
			same(t, out, whole.out)
			// A run that is complete stays as it is.
			if r := hotpathWith(t, strings.Join(input, ""), args...); r.status != whole.status {
				t.Errorf("once more: exit %d: %s", r.status, r.err)
			}
			same(t, out, whole.out)
		})
	}
}

func same(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("%d bytes, expected the %d of one run", len(got), len(want))
	}
}

// killAfter runs a command on input without an end, kills it once the output
// has the size, or has not grown for a while, and returns its size then.
func killAfter(t *testing.T, args []string, input, out string, size int64) int64 {
	t.Helper()
	cmd := process(t, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go io.WriteString(in, input) // until the pipe breaks
	now, still := int64(-1), 0
	for now < size && still < 50 {
		time.Sleep(5 * time.Millisecond)
		still++
		if info, err := os.Stat(out); err == nil && info.Size() != now {
			now, still = info.Size(), 0
		} else if err != nil {
			still = 0
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("ended before it was killed: %v, %s", err, errs.String())
	}
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestResumeTellsWhatDiffers(t *testing.T) {
	bert, dir := testmodels.Dir(t, "bert"), t.TempDir()
	texts := write(t, "texts.txt", "one\ntwo\nthree\n")
	out := filepath.Join(dir, "out.jsonl")
	args := func(more ...string) []string {
		return append([]string{"embed", "-m", bert, "-f", texts, "-o", out, "--resume"}, more...)
	}
	ok(t, args()...)
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	// A torn line and lines that are missing are made good.
	for _, left := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(out, whole[:left], 0o600); err != nil {
			t.Fatal(err)
		}
		rewind(t, out)
		ok(t, args()...)
		same(t, out, string(whole))
	}
	fails(t, exitFailed, args("--pooling", "cls"), out, "options")
	fails(t, exitFailed, args("--format", "csv"), out, "format")
	fails(t, exitFailed, args("--quantize", "int8"), out, "--quantize")
	other := append([]string{"embed", "-m", testmodels.Dir(t, "bert-odd")}, args()[3:]...)
	fails(t, exitFailed, other, out, "model")
	// Texts that changed under finished records, that went away, that were added.
	for content, words := range map[string]string{"one\nzwei\nthree\n": "other texts", "one\n": "1 texts"} {
		if err := os.WriteFile(texts, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, exitFailed, args(), out, words)
	}
	same(t, out, string(whole))
	if err := os.WriteFile(texts, []byte("one\ntwo\nthree\nfour\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, args()...)
	if longer, err := os.ReadFile(out); err != nil || !bytes.HasPrefix(longer, whole) || bytes.Count(longer, []byte("\n")) != 4 {
		t.Errorf("a text was added: %q, %v", longer, err)
	}
	if err := os.Truncate(out, 3); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, args(), out, "3 bytes")
	if err := os.WriteFile(out+".resume", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, args(), "out.jsonl.resume")
	if err := os.Remove(out + ".resume"); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, args(), "without --resume")
}

// TestResumeKnowsTheModel: a model whose files were replaced meanwhile is
// another one, however small the difference is.
func TestResumeKnowsTheModel(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.npy")
	args := []string{"embed", "-m", model, "one", "two", "-o", out, "--resume"}
	ok(t, args...)
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		// The lowest bit of one weight.
		"model.safetensors": func(b []byte) []byte { b[len(b)-4] ^= 1; return b },
		"config.json": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"layer_norm_eps": 1e-12`), []byte(`"layer_norm_eps": 2e-12`), 1)
		},
		"tokenizer.json": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"lowercase": true`), []byte(`"lowercase": false`), 1)
		},
	} {
		path := filepath.Join(model, name)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other := change(bytes.Clone(was))
		if bytes.Equal(other, was) {
			t.Fatalf("%s was not changed", name)
		}
		// As a new version arrives: under another name, then in its place.
		if err := errors.Join(os.WriteFile(path+".new", other, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		fails(t, exitFailed, args, out, "another model, or other weights")
		same(t, out, string(whole))
		if err := errors.Join(os.WriteFile(path+".new", was, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		ok(t, args...)
	}
	// Every option that changes vectors counts.
	for _, more := range []string{"--pooling cls", "--dim 8", "--normalize=false", "--precision f32", "--prompt abc", "--chunk", "--truncate=false"} {
		r := run(t, append(args[:len(args):len(args)], strings.Fields(more)...)...)
		if r.status != exitFailed || !strings.Contains(r.err, "was begun with") {
			t.Errorf("%s: exit %d: %s", more, r.status, r.err)
		}
	}
	// A copy under another path is the same model.
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	r := run(t, append([]string{"embed", "-m", copied}, args[3:]...)...)
	if r.status != exitDone {
		t.Errorf("a copy: exit %d: %s", r.status, r.err)
	}
	// A state that knew the model by a vector is not trusted.
	editState(t, out, func(s *resumeState) { s.Version, s.Content = 2, "" })
	fails(t, exitFailed, args, out+".resume: an older hotpath wrote it", "begin anew")
}

// TestResumeAfterTampering: what nothing vouches for is made again, and what was
// vouched for and is not there any more is an error.
func TestResumeAfterTampering(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	for _, format := range []string{"jsonl", "csv", "npy", "bin"} {
		dir := t.TempDir()
		texts, out := filepath.Join(dir, "texts.txt"), filepath.Join(dir, "out."+format)
		input := func(lines string) {
			t.Helper()
			if err := os.WriteFile(texts, []byte(lines), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"embed", "-m", bert, "-f", texts, "-o", out, "--resume"}
		whole := func(lines string) (state, content []byte) {
			t.Helper()
			input(lines)
			os.Remove(out)
			os.Remove(out + ".resume")
			ok(t, args...)
			content, err := os.ReadFile(out)
			if err == nil {
				state, err = os.ReadFile(out + ".resume")
			}
			if err != nil {
				t.Fatal(err)
			}
			return state, content
		}
		_, other := whole("one\ntwo\nzwei\nfour\n")
		_, three := whole("one\ntwo\nthree\n")
		state, two := whole("one\ntwo\n")
		half := len(two)
		restore := func(content []byte) {
			t.Helper()
			if err := errors.Join(os.WriteFile(out, content, 0o600), os.WriteFile(out+".resume", state, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		// The process died after two records were certain, and the third text was replaced since.
		restore(append(three[:len(three):len(three)], "torn"...))
		editState(t, out, func(s *resumeState) { s.Done = false })
		input("one\ntwo\nzwei\nfour\n")
		ok(t, args...)
		same(t, out, string(other))
		// Bytes that were certain and are others, and some behind a complete run.
		changed := bytes.Clone(two)
		changed[half-2] ^= 1
		restore(changed)
		fails(t, exitFailed, args, out, "not those that were written")
		same(t, out, string(changed))
		restore(append(bytes.Clone(two), "9,9\n"...))
		fails(t, exitFailed, args, out, "of a complete run")
		// A run that ends with an error keeps what it has, and its state says so.
		if format == "jsonl" {
			continue
		}
		os.Remove(out)
		os.Remove(out + ".resume")
		input("one\ntwo\n" + strings.Repeat("long ", 600) + "\n")
		fails(t, exitFailed, append(args, "--truncate=false"), "texts.txt:3")
		editState(t, out, func(s *resumeState) {
			if s.Records != 2 || s.Bytes != int64(half) {
				t.Errorf("%s: %d records in %d bytes are kept, expected 2 in %d", format, s.Records, s.Bytes, half)
			}
		})
	}
}

// rewind makes the state one of before the first record.
func rewind(t *testing.T, out string) {
	t.Helper()
	editState(t, out, func(s *resumeState) {
		s.Records, s.Bytes, s.Failed, s.Digest, s.Tail, s.Done = 0, 0, 0, "", "", false
	})
}

func editState(t *testing.T, out string, change func(*resumeState)) {
	t.Helper()
	data, err := os.ReadFile(out + ".resume")
	if err != nil {
		t.Fatal(err)
	}
	var s resumeState
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	change(&s)
	if data, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out+".resume", data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	now := resumeState{Format: "csv", Dim: 3}
	first, err := openResume(out, now, findFormat("csv"), 12)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openResume(out, now, findFormat("csv"), 12); err == nil {
		t.Error("two processes may write one file")
	}
	if err := first.file.Close(); err != nil {
		t.Fatal(err)
	}
}

// An output that was removed does not come back empty, and what to do is said
// each time.
func TestResumeWithoutItsOutput(t *testing.T) {
	bert, dir := testmodels.Dir(t, "bert"), t.TempDir()
	out := filepath.Join(dir, "out.csv")
	args := []string{"embed", "-m", bert, "one", "-o", out, "--resume"}
	ok(t, args...)
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		fails(t, exitFailed, args, out+": no such file", "remove "+out+".resume to begin anew")
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%v, expected no output", err)
		}
	}
	// A process that died before its first record, with a state or without one.
	rewind(t, out)
	ok(t, args...)
	same(t, out, string(whole))
	if err := errors.Join(os.Remove(out+".resume"), os.Truncate(out, 0)); err != nil {
		t.Fatal(err)
	}
	ok(t, args...)
	same(t, out, string(whole))
	for version, words := range map[int]string{1: "an older hotpath wrote it", resumeVersion + 1: "a newer hotpath wrote it"} {
		editState(t, out, func(s *resumeState) { s.Version = version })
		fails(t, exitFailed, args, out+".resume: "+words, "begin anew")
	}
}

// What is wrong with a state is said by its field.
func TestResumeStateNamesTheField(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	for state, field := range map[string]string{
		`{"version":3,"records":-1}`:                      "field records: -1",
		`{"version":3,"records":2,"bytes":1}`:             "field records: 2",
		`{"version":3,"bytes":-7}`:                        "field bytes: -7",
		`{"version":3,"records":1,"bytes":9,"failed":2}`:  "field failed: 2",
		`{"version":3,"records":1,"bytes":9,"failed":-2}`: "field failed: -2",
		`{"version":0}`:                                   "field version: 0",
		`{"version":3,"records":"many"}`:                  "records",
		`{"version":3,"content":7}`:                       "content",
	} {
		if err := os.WriteFile(out+".resume", []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openResume(out, resumeState{}, findFormat("csv"), 4); err == nil || !strings.HasPrefix(err.Error(), out+".resume: ") || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, expected the file and %q", state, err, field)
		}
	}
}

// What another process may still write is looked at once it is locked.
func TestResumeLocksBeforeItDecides(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	lock, err := atomicfile.Lock(out)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	now := resumeState{Format: "csv", Dim: 3}
	if _, err := openResume(out, now, findFormat("csv"), 12); err == nil || !strings.Contains(err.Error(), "another process writes it") || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("%v, expected that this process writes it", err)
	}
	if _, err := os.Stat(out + ".resume"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: a state was written without the lock", err)
	}
}

func FuzzResumeState(f *testing.F) {
	f.Add([]byte(`{"version":3,"records":1,"bytes":2}`), []byte("1,2\n3"))
	f.Add([]byte(`{"version":3,"records":-1}`), []byte(""))
	f.Add([]byte(`{"version":3,"bytes":9223372036854775807}`), []byte("\n"))
	f.Add([]byte(`{"version":3,"records":"1"}`), []byte("\n"))
	f.Add([]byte(`{"version":3,"records":4611686018427387904}`), []byte("\n"))
	f.Add(bytes.Repeat([]byte(" "), maxState+1), []byte("\n"))
	f.Fuzz(func(t *testing.T, state, content []byte) {
		out := filepath.Join(t.TempDir(), "out")
		for name, data := range map[string][]byte{out: content, out + ".resume": state} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := openResume(out, resumeState{}, findFormat("csv"), 4)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16*maxState {
			t.Errorf("a state of %d bytes and an output of %d are read with %d bytes of memory", len(state), len(content), got)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), out) {
				t.Errorf("%v, expected an error of %s or its state", err, out)
			}
			return
		}
		defer r.file.Close()
		if info, err := r.file.Stat(); err != nil || info.Size() > int64(len(content)) || r.skip < 0 {
			t.Errorf("%d records in %d bytes, %v", r.skip, info.Size(), err)
		}
	})
}

// replacing is an input of which the second read comes after somebody else has
// replaced the output.
type replacing struct {
	lines  []string
	before func()
}

func (r *replacing) Read(b []byte) (int, error) {
	if len(r.lines) == 0 {
		return 0, io.EOF
	}
	if len(r.lines) == 1 {
		r.before()
	}
	n := copy(b, r.lines[0])
	r.lines = r.lines[1:]
	return n, nil
}

// A run whose output is replaced must not say that it is done: what it wrote is
// gone.
func TestResumeFindsThatItsOutputWasReplaced(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "-o", out, "--resume"}
	in := &replacing{[]string{"one\n", "two\n"}, func() {
		for range 1000 { // until the run has begun
			if _, err := os.Stat(out + ".resume"); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := atomicfile.WriteFile(out, []byte("another's\n")); err != nil {
			t.Error(err)
		}
	}}
	var stdout, errs bytes.Buffer
	status := execute(t.Context(), args, streams{in, &stdout, &errs})
	if status != exitFailed || !strings.Contains(errs.String(), "another process replaced it") {
		t.Errorf("status %d, %q, expected that the output was replaced", status, errs.String())
	}
	if now, err := os.ReadFile(out); err != nil || string(now) != "another's\n" {
		t.Errorf("%q, %v, expected the other's file", now, err)
	}
	state, err := os.ReadFile(out + ".resume")
	if err != nil || strings.Contains(string(state), `"done":true`) {
		t.Errorf("%s, %v: the state says that all is done", state, err)
	}
}

// What a killed run left of its state is gone after the next one.
func TestResumeSweepsItsState(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	left := filepath.Join(filepath.Dir(out), ".out.jsonl.resume.tmp-0123456789abcdef")
	if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if status := execute(t.Context(), []string{"embed", "-m", testmodels.Dir(t, "bert"), "text", "-o", out, "--resume"}, streams{nil, io.Discard, &errs}); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", left, err)
	}
}
