package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"hotpath/internal/atomicfile"
)

// Step is what one optimizer step did.
type Step struct {
	Step      int           // from 1
	Steps     int           // of the whole run
	Epoch     int           // passes over the data that were complete before the step
	Loss      float32       // mean over the step's tokens, natural logarithm, before the update
	GradNorm  float32       // before clipping
	LR        float64       //
	Tokens    int           // that the model read
	Sequences int           //
	Skipped   bool          // an outlier, which changed no weight
	Eval      Evaluation    // after the step, where it was due
	Elapsed   time.Duration // of this step
	Left      time.Duration // that the rest of the run will take, by its steps so far
	MFU       float64       // share of Options.Peak that the model's FLOPs make use of; 0: unknown
}

// TokensPerSecond is the speed of the step.
func (s Step) TokensPerSecond() float64 { return float64(s.Tokens) / max(s.Elapsed.Seconds(), 1e-9) }

// String is a line for people.
func (s Step) String() string {
	line := fmt.Sprintf("step %d/%d  loss %.4f  norm %.3f  lr %.2e  %.0f tok/s", s.Step, s.Steps, s.Loss, s.GradNorm, s.LR, s.TokensPerSecond())
	if s.MFU > 0 {
		line += fmt.Sprintf("  mfu %.0f%%", 100*s.MFU)
	}
	if s.Step < s.Steps {
		line += "  left " + s.Left.Round(time.Second).String()
	}
	if s.Skipped {
		line += "  skipped: an outlier"
	}
	if s.Eval.Done {
		line += "\n" + s.Eval.String()
	}
	return line
}

// column is a field of the logs.
type column struct {
	name string
	put  func(b []byte, s *Step) []byte
}

// columns are the fields of the logs, in order. Losses are written so that
// reading them back gives the same bits. A column that writes nothing has no
// value in this step.
var columns = []column{
	{"step", func(b []byte, s *Step) []byte { return strconv.AppendInt(b, int64(s.Step), 10) }},
	{"epoch", func(b []byte, s *Step) []byte { return strconv.AppendInt(b, int64(s.Epoch), 10) }},
	{"loss", func(b []byte, s *Step) []byte { return strconv.AppendFloat(b, float64(s.Loss), 'g', -1, 32) }},
	{"grad_norm", func(b []byte, s *Step) []byte { return strconv.AppendFloat(b, float64(s.GradNorm), 'g', -1, 32) }},
	{"lr", func(b []byte, s *Step) []byte { return strconv.AppendFloat(b, s.LR, 'g', -1, 64) }},
	{"tokens", func(b []byte, s *Step) []byte { return strconv.AppendInt(b, int64(s.Tokens), 10) }},
	{"skipped", func(b []byte, s *Step) []byte {
		if s.Skipped {
			return append(b, '1')
		}
		return append(b, '0')
	}},
	{"ms", func(b []byte, s *Step) []byte { return strconv.AppendFloat(b, s.Elapsed.Seconds()*1e3, 'f', 3, 64) }},
	evaluated("val_loss"),
	evaluated("val_ppl"),
	evaluated("val_bpb"),
	{"mfu", func(b []byte, s *Step) []byte {
		if s.MFU == 0 {
			return b
		}
		return strconv.AppendFloat(b, s.MFU, 'f', 4, 64)
	}},
	{"tok_s", func(b []byte, s *Step) []byte { return strconv.AppendFloat(b, s.TokensPerSecond(), 'f', 1, 64) }},
	evaluated("val_spearman"),
	evaluated("val_pearson"),
	evaluated("val_mrr"),
	evaluated("val_ndcg10"),
}

// evaluated is a figure of the step's evaluation. It is empty if there was no
// evaluation, or if the figure is NaN or infinite, which JSON cannot write.
func evaluated(name string) column {
	i := slices.IndexFunc(figures, func(f figure) bool { return f.column == name })
	return column{name, func(b []byte, s *Step) []byte {
		if !s.Eval.Done || !figures[i].has(&s.Eval) {
			return b
		}
		v := figures[i].of(&s.Eval)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return b
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}}
}

const (
	jsonLog = "log.jsonl"
	csvLog  = "log.csv"
)

// logs are all logs: one line or record per step, written at once.
type logs struct {
	jsonl, csv *logFile
	events     *eventFile
	line       []byte
}

// logFile is a log that ends with a complete line, also after a failed write.
type logFile struct {
	*os.File
	size int64 // bytes of whole lines
}

// addLine writes a line.
func (l *logFile) addLine(line []byte) error {
	if _, err := l.Write(line); err != nil {
		l.cut()
		return atomicfile.Named(l.Name(), err)
	}
	l.size += int64(len(line))
	return nil
}

// cut removes what follows the last complete line.
func (l *logFile) cut() { _ = l.Truncate(l.size) } // a run that resumes truncates again

// openLogs opens the logs of a run that continues after a step. It removes lines of
// later steps, which a killed run left.
func openLogs(dir string, after int) (*logs, error) {
	l := &logs{}
	var err error
	if l.jsonl, err = openLog(filepath.Join(dir, jsonLog), nil, after, jsonStep); err != nil {
		return nil, err
	}
	head := []byte("step")
	for _, c := range columns[1:] {
		head = append(append(head, ','), c.name...)
	}
	if l.csv, err = openLog(filepath.Join(dir, csvLog), append(head, '\n'), after, csvStep); err != nil {
		return nil, errors.Join(err, l.jsonl.Close())
	}
	if l.events, err = openEvents(filepath.Join(dir, eventLog), after); err != nil {
		return nil, errors.Join(err, l.jsonl.Close(), l.csv.Close())
	}
	return l, nil
}

func jsonStep(line []byte) int {
	var s struct{ Step int }
	if json.Unmarshal(line, &s) != nil {
		return 0
	}
	return s.Step
}

func csvStep(line []byte) int {
	first, _, _ := bytes.Cut(line, []byte(","))
	n, _ := strconv.Atoi(string(first)) // 0 for the header and for what is none of ours
	return n
}

// openLog rewrites a log with its head and the lines of steps 1 to after, and
// leaves it open for more.
func openLog(path string, head []byte, after int, step func(line []byte) int) (*logFile, error) {
	kept := bytes.NewBuffer(append([]byte{}, head...))
	if after > 0 {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
			return nil, fmt.Errorf("%s: expected a regular file", path)
		}
		old, err := os.Open(path)
		if err == nil {
			err = keepLines(kept, old, func(line []byte) bool { n := step(line); return n >= 1 && n <= after })
			err = errors.Join(err, old.Close())
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := atomicfile.Replace(path, kept.Bytes()); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return &logFile{File: f, size: int64(kept.Len())}, nil
}

func keepLines(to io.Writer, from io.Reader, keep func(line []byte) bool) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if !keep(lines.Bytes()) {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s\n", lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// addStep writes a step to all logs.
func (l *logs) addStep(s *Step) error {
	b := l.line[:0]
	for i, c := range columns {
		b = append(append(append(b, `,"`...), c.name...), `":`...)
		if i == 0 {
			b[0] = '{'
		}
		n := len(b)
		if b = c.put(b, s); len(b) == n {
			b = append(b, "null"...)
		}
	}
	b = append(b, "}\n"...)
	whole := l.jsonl.size
	if err := l.jsonl.addLine(b); err != nil {
		return err
	}
	b = b[:0]
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.put(b, s)
	}
	l.line = append(b, '\n')
	lines := l.csv.size
	err := l.csv.addLine(l.line)
	if err == nil {
		if err = l.events.addStep(s); err != nil {
			l.csv.size = lines
			l.csv.cut()
		}
	}
	if err != nil {
		l.jsonl.size = whole // all logs have the same steps
		l.jsonl.cut()
	}
	return err
}

func (l *logs) close() error { return errors.Join(l.jsonl.Close(), l.csv.Close(), l.events.Close()) }
