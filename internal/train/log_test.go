package train

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The records are those that TensorBoard's own code writes.
func TestEventsAreTensorBoards(t *testing.T) {
	want, err := os.ReadFile("testdata/events.tfevents")
	must(t, err)
	path := filepath.Join(t.TempDir(), eventLog)
	f, err := openEvents(path, 0)
	must(t, err)
	f.now = func() time.Time { return time.Unix(1, 5e8) }
	must(t, f.addStep(&Step{Step: 1, Loss: 2.5, GradNorm: 0.25, LR: 1e-3, Tokens: 100, Elapsed: time.Second}))
	must(t, f.addStep(&Step{Step: 300, Loss: 1.5, GradNorm: 0.5, LR: 2e-3, Tokens: 200, Elapsed: time.Second, MFU: 0.5, Eval: Evaluation{Done: true, TokenLoss: true, BitsPerByte: 2}}))
	must(t, f.Close())
	got, err := os.ReadFile(path)
	must(t, err)
	// The first record has the time at which the log was opened.
	var a, b [][]byte
	for r := range records(got) {
		a = append(a, r)
	}
	for r := range records(want) {
		b = append(b, r)
	}
	if len(a) != 3 || len(b) != 3 || len(a[0]) != len(b[0]) || !bytes.Equal(a[1], b[1]) || !bytes.Equal(a[2], b[2]) {
		t.Errorf("records\n%q, TensorBoard's\n%q", a, b)
	}
}

// A log that a killed run left goes on behind the last whole step that counts.
func TestEventsGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), eventLog)
	f, err := openEvents(path, 0)
	must(t, err)
	for i := range 5 {
		must(t, f.addStep(&Step{Step: i + 1}))
	}
	must(t, f.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	for cut := range len(data) {
		must(t, os.WriteFile(path, data[:cut], 0o600))
		f, err := openEvents(path, 3)
		must(t, err)
		must(t, f.addStep(&Step{Step: 4}))
		must(t, f.Close())
		now, err := os.ReadFile(path)
		must(t, err)
		size, last := 0, -1
		for r, step := range records(now) {
			if step > 0 && step <= last {
				t.Fatalf("cut at %d: step %d after %d", cut, step, last)
			}
			size, last = size+len(r), step
		}
		if size != len(now) || last != 4 {
			t.Fatalf("cut at %d: %d of %d bytes are records, the last of step %d", cut, size, len(now), last)
		}
	}
}

func TestLogsHaveAllColumns(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.Validation.Share, c.Validation.Every = 4, 0.2, 2
	var seen losses
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: seen.add, Peak: 1e12})
	must(t, err)
	f, err := os.Open(filepath.Join(c.Out, csvLog))
	must(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must(t, err)
	data, err := os.ReadFile(filepath.Join(c.Out, jsonLog))
	must(t, err)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(rows) != 5 || len(lines) != 4 || len(rows[0]) != len(columns) {
		t.Fatalf("%d rows of %d columns, %d lines", len(rows), len(rows[0]), len(lines))
	}
	for i, line := range lines {
		var s struct {
			Step int
			Loss float32
			Val  *float64 `json:"val_loss"`
			MFU  float64
		}
		must(t, json.Unmarshal(line, &s))
		if s.Step != i+1 || s.Loss != seen[i].Loss || (s.Val != nil) != (i%2 == 1) || s.MFU <= 0 {
			t.Errorf("line %s, want step %d with loss %g", line, i+1, seen[i].Loss)
		}
		if s.Val != nil && *s.Val != seen[i].Eval.Loss {
			t.Errorf("validation loss %g, want %g", *s.Val, seen[i].Eval.Loss)
		}
	}
	path, err := Plot(c.Out)
	must(t, err)
	picture, err := os.ReadFile(path)
	must(t, err)
	d, curves := xml.NewDecoder(bytes.NewReader(picture)), 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "polyline" {
			curves++
		}
	}
	if curves != 3 || !strings.Contains(string(picture), "validation loss") || strings.Contains(string(picture), "NaN") {
		t.Errorf("%d curves in\n%s", curves, picture)
	}
	if _, err := Plot(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a folder without a log", err)
	}
}

func TestStepLine(t *testing.T) {
	s := Step{Step: 3, Steps: 10, Loss: 2.5, GradNorm: 1.25, LR: 1e-3, Tokens: 500, Elapsed: time.Second, Left: 90 * time.Second, MFU: 0.31, Skipped: true,
		Eval: Evaluation{Done: true, TokenLoss: true, Loss: 0, BitsPerByte: 1.5, Best: true}}
	want := "step 3/10  loss 2.5000  norm 1.250  lr 1.00e-03  500 tok/s  mfu 31%  left 1m30s  skipped: an outlier\n" +
		"validation loss 0.0000  perplexity 1.00  bits per byte 1.5000  (best so far)"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
