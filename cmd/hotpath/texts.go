package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// maxLine bounds one line of input: a file without line ends must not fill the
// memory before anybody looks at it.
const maxLine = 64 << 20

// text is one input.
type text struct {
	index int
	where string // for errors: "FILE:12", "argument 1"
	body  string
	carry []field // other fields of its object, for the output
}

// field is one field of a JSON object, in the order of the file.
type field struct {
	key   string
	value json.RawMessage
}

// textFlags say where texts come from.
type textFlags struct {
	file, input string
	ids         bool // inputs are token ids: numbers on a line, or "ids" of an object
}

func (f *textFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "read texts from `FILE`, - for standard input")
	cmd.Flags().StringVar(&f.input, "input", "auto", "`lines|jsonl|auto`: FILE holds one text a line, or objects with \"text\", or its ending says")
}

// inputKinds are the values of --input: whether objects are expected of a file.
var inputKinds = map[string]func(file string) bool{
	"auto":  func(file string) bool { return strings.HasSuffix(file, ".jsonl") },
	"lines": func(string) bool { return false },
	"jsonl": func(string) bool { return true },
}

// texts reads inputs ahead of whoever asks for batches.
type texts struct {
	queue chan text
	err   error // valid once queue is closed
	// eager says that batches end where no further input waits: another
	// program may be waiting for the answer before it writes on.
	eager    bool
	several  bool // more than one text may come
	progress *progress
	file     *os.File // nil for arguments and standard input
}

// open begins to read. Fields that the output has itself are not carried.
func (f *textFlags) open(args []string, std streams, output ...string) (*texts, error) {
	objects := inputKinds[f.input]
	switch {
	case objects == nil:
		return nil, usagef("--input %q, expected auto, lines or jsonl", f.input)
	case f.file != "" && len(args) > 0:
		return nil, usagef("texts come from arguments or from -f %s, not from both", f.file)
	case f.file == "" && len(args) == 0:
		return nil, usagef("no text: give texts as arguments, or -f FILE, or -f - for standard input")
	case f.file == "":
		t := &texts{queue: make(chan text, len(args)), several: len(args) > 1}
		for i, arg := range args {
			t.queue <- text{index: i, where: fmt.Sprintf("argument %d", i+1), body: arg}
		}
		close(t.queue)
		return t, nil
	}
	parse := parseLine
	if objects(f.file) {
		parse = parseText
		if f.ids {
			parse = parseIDs
		}
	}
	t := &texts{queue: make(chan text, 256), several: true}
	name, from := f.file, std.in
	if f.file == "-" {
		name = "standard input"
		t.eager = !isRegular(from)
	} else {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.IsDir() {
			file.Close()
			return nil, fmt.Errorf("%s: is a directory, expected a file of texts", f.file)
		}
		t.file, from = file, file
		t.eager = !isRegular(file)
	}
	t.progress = newProgress(from, std)
	go t.read(name, t.progress.reader(from), parse, output)
	return t, nil
}

// isRegular reports whether all of the input is there already.
func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// read runs on its own goroutine until the input ends.
func (t *texts) read(name string, from io.Reader, parse func([]byte, *text) error, output []string) {
	defer close(t.queue)
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for number, index := 1, 0; ; number++ {
		var err error
		line, err = readLine(r, line[:0])
		if err == io.EOF {
			return
		}
		in := text{index: index, where: fmt.Sprintf("%s:%d", name, number)}
		if err == nil {
			if number == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			err = parse(line, &in)
		}
		if err == errBlank {
			continue
		}
		if err != nil {
			t.err = fmt.Errorf("%s: %w", in.where, err)
			return
		}
		in.carry = slices.DeleteFunc(in.carry, func(f field) bool { return slices.Contains(output, f.key) })
		t.queue <- in
		index++
	}
}

// readLine appends one line without its end. io.EOF means that there is none.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return line, fmt.Errorf("line is longer than %d MiB", maxLine>>20)
		case err == nil:
			line = line[:len(line)-1]
			return bytes.TrimSuffix(line, []byte("\r")), nil
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err != bufio.ErrBufferFull:
			return line, err
		}
	}
}

// errBlank is a line that holds no input.
var errBlank = errors.New("blank line")

func parseLine(line []byte, t *text) error {
	t.body = string(line)
	return nil
}

func parseText(line []byte, t *text) error {
	value, err := parseObject(line, t, "text")
	if err == nil && (json.Unmarshal(value, &t.body) != nil || string(value) == "null") {
		err = errors.New(`field "text": expected a string`)
	}
	return err
}

func parseIDs(line []byte, t *text) error {
	value, err := parseObject(line, t, "ids")
	t.body = string(value)
	return err
}

// parseObject reads {"key": value, ...}: it returns the value of key and
// carries the other fields.
func parseObject(line []byte, t *text, key string) (json.RawMessage, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errBlank
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("expected a JSON object with %q", key)
	}
	var found json.RawMessage
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		if name == key {
			found = value
			continue
		}
		t.carry = append(t.carry, field{name.(string), value})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("expected one JSON object a line")
	}
	if found == nil {
		return nil, fmt.Errorf("field %q is missing", key)
	}
	return found, nil
}

// next gives the next batch of at most n texts and about size bytes; none at
// the end. What was read before an error is given before it.
func (t *texts) next(ctx context.Context, batch []text, n, size int) ([]text, error) {
	for got := 0; len(batch) < n && got < size; {
		var in text
		var ok bool
		if t.eager && len(batch) > 0 {
			select {
			case in, ok = <-t.queue:
			default:
				return batch, nil
			}
		} else {
			select {
			case in, ok = <-t.queue:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if !ok {
			if len(batch) == 0 && t.err != nil {
				return nil, t.err
			}
			break
		}
		batch = append(batch, in)
		got += len(in.body)
	}
	return batch, nil
}

// close ends the progress bar and lets go of the file.
func (t *texts) close() {
	t.progress.finish()
	if t.file != nil {
		t.file.Close()
	}
}
