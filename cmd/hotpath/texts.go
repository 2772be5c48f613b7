package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"hotpath/internal/atomicfile"
	"hotpath/internal/engine"
)

// maxLine bounds one line of input: a file without line ends must not fill the
// memory before anybody looks at it.
const maxLine = 64 << 20

// maxAhead bounds the texts that were read before anybody asked, in bytes: one
// may be longer.
const maxAhead = 8 << 20

// text is one input.
type text struct {
	index int
	where string // for errors: "FILE:12", "argument 1"
	body  string
	carry []field // other fields of its object, for the output
	size  int     // of the input that it was, for the progress
	err   error   // it could not be read; those behind it can
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

func (f *textFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().VarP(fileFlag(&f.file), "file", "f", "read texts from `FILE`, - for standard input, or from the files of a folder")
	cmd.Flags().StringVar(&f.input, "input", "auto", "`lines|jsonl|auto`: FILE has one text per line, or objects with \"text\", or its ending says")
}

// inputKinds are the values of --input: whether objects are expected of a file.
var inputKinds = map[string]func(file string) bool{
	"auto":  func(file string) bool { return strings.HasSuffix(file, ".jsonl") },
	"lines": func(string) bool { return false },
	"jsonl": func(string) bool { return true },
}

// texts reads inputs ahead of whoever asks for them.
type texts struct {
	queue chan text
	ahead atomic.Int64  // bytes of the texts in queue
	room  chan struct{} // hears that a text left queue
	left  chan struct{} // closed when nobody asks any more
	err   error         // what ended the input; valid once queue is closed
	// eager says that batches end where no further input waits: another
	// program may be waiting for the answer before it writes on.
	eager    bool
	several  bool // more than one text may come
	name     string
	progress *progress
	given    int      // size of the last batch
	count    int      // of arguments
	bytes    int64    // of all texts; 0: unknown
	file     *os.File // nil for arguments, folders and standard input

	parse  func([]byte, *text) error
	output []string // fields that the output has itself
	index  int      // of the next text
}

// open begins to read; ctx ends the wait for the writer of a FIFO. Fields that the output has itself are not carried.
func (f *textFlags) open(ctx context.Context, args []string, std streams, output ...string) (*texts, error) {
	objects := inputKinds[f.input]
	switch {
	case objects == nil:
		return nil, usagef("--input %q, expected auto, lines or jsonl", f.input)
	case f.file != "" && len(args) > 0:
		return nil, usagef("texts come from arguments or from -f %s, not from both", f.file)
	case f.file == "" && len(args) == 0:
		return nil, usagef("no text: give texts as arguments, or -f FILE, or -f - for standard input")
	}
	t := &texts{queue: make(chan text, 256), room: make(chan struct{}, 1), left: make(chan struct{}), several: true, name: f.file, output: output, parse: f.parser(objects(f.file))}
	if f.file == "" {
		t.name, t.several, t.count = "arguments", len(args) > 1, len(args)
		for _, a := range args {
			t.bytes += int64(len(a))
		}
		t.start(func() error { return t.arguments(args) })
		return t, nil
	}
	from := std.in
	if f.file == "-" {
		t.name = "standard input"
	} else {
		file, err := openFile(ctx, f.file)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.IsDir() {
			file.Close()
			return t, t.folder(f, std)
		}
		t.file, from = file, file
	}
	t.eager = !isRegular(from)
	if t.file != nil && !t.eager {
		if info, err := t.file.Stat(); err == nil {
			t.bytes = info.Size()
		}
	}
	t.progress = newProgress(from, std)
	t.start(func() error { return t.lines(t.name, from, t.parse, nil) })
	return t, nil
}

// realPath is a path from the root, without links.
func realPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// apart refuses an output that is the input, or lies in the folder of the input
// and would be read as a text the next time.
func (t *texts) apart(out string) error {
	from, err := os.Stat(t.name)
	if out == "" || err != nil {
		return nil
	}
	if from.IsDir() {
		folder, err := realPath(t.name)
		if err != nil {
			return err
		}
		dir, err := atomicfile.Followed(out)
		if err == nil {
			dir, err = realPath(filepath.Dir(dir))
		}
		if err != nil {
			return nil // opening it says why
		}
		inside, err := filepath.Rel(folder, dir)
		if err == nil && filepath.IsLocal(inside) && isText(out) {
			return usagef("-o %s: is inside the input %s, expected a file outside", out, t.name)
		}
		return nil
	}
	if to, err := os.Stat(out); err == nil && from.Mode().IsRegular() && os.SameFile(from, to) {
		return usagef("-o %s: is the input file, expected another file", out)
	}
	return nil
}

// start runs a reader on a goroutine of its own.
func (t *texts) start(read func() error) {
	go func() {
		defer close(t.queue)
		defer engine.Guard(&t.err)
		t.err = read()
	}()
}

// send hands a text over, with its index, and reports false when nobody wants
// it.
func (t *texts) send(in text) bool {
	in.index = t.index
	t.index++
	for t.ahead.Load() > maxAhead {
		select {
		case <-t.room:
		case <-t.left:
			return false
		}
	}
	t.ahead.Add(in.weight())
	select {
	case t.queue <- in:
		return true
	case <-t.left:
		return false
	}
}

// weight is how many bytes a text that waits takes.
func (in *text) weight() int64 {
	n := len(in.body)
	for _, f := range in.carry {
		n += len(f.key) + len(f.value)
	}
	return int64(n)
}

// taken makes room for the texts behind one that left the queue.
func (t *texts) taken(in text) {
	t.ahead.Add(-in.weight())
	select {
	case t.room <- struct{}{}:
	default:
	}
}

func (t *texts) arguments(args []string) error {
	for i, arg := range args {
		if !t.send(text{where: fmt.Sprintf("argument %d", i+1), body: arg}) {
			break
		}
	}
	return nil
}

// isRegular reports whether a stream is a regular file: of an input, whether
// all of it is there already.
func isRegular(stream any) bool {
	f := fileOf(stream)
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// lines reads one text a line; carry goes with each of them.
func (t *texts) lines(name string, from io.Reader, parse func([]byte, *text) error, carry []field) error {
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for number := 1; ; number++ {
		var err error
		line, err = readLine(r, line[:0])
		if err == io.EOF {
			return nil
		}
		in := text{where: fmt.Sprintf("%s:%d", name, number), size: len(line) + 1}
		if err != nil {
			return fmt.Errorf("%s: %w", in.where, err)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if err := parse(line, &in); err == errBlank {
			continue
		} else if err != nil {
			in = text{where: in.where, size: in.size, err: err}
		}
		if carry != nil {
			in.carry, in.size = append(in.carry, carry...), 0 // of a folder, files are counted
		}
		in.carry = slices.DeleteFunc(in.carry, func(f field) bool { return slices.Contains(t.output, f.key) })
		if !t.send(in) {
			return nil
		}
	}
}

// each gives every text, those that could not be read included, until the
// input or ctx ends; t.err says why it did.
func (t *texts) each(ctx context.Context) iter.Seq[text] {
	return func(yield func(text) bool) {
		for {
			select {
			case in, ok := <-t.queue:
				t.taken(in)
				if !ok || !yield(in) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// next gives the next batch of at most n texts and about size bytes, those that
// could not be read included; none at the end. What was read before an error is
// given before it. The batch before is done when the next is asked for.
func (t *texts) next(ctx context.Context, batch []text, n, size int) ([]text, error) {
	if t.given > 0 {
		t.progress.addDone(t.given, 0)
		t.progress.show()
	}
	t.given = 0
	for got := 0; len(batch) < n && got < size; {
		in, ok, err := t.take(ctx, t.eager && len(batch) > 0)
		switch {
		case err != nil:
			return nil, err
		case !ok && len(batch) == 0:
			return nil, t.ended()
		case !ok:
			return batch, nil
		}
		batch = append(batch, in)
		got += len(in.body)
		t.given += in.size
	}
	return batch, nil
}

// take gets one text. There is none at the end, or where nothing waits and
// only what waits is wanted.
func (t *texts) take(ctx context.Context, waiting bool) (in text, ok bool, err error) {
	if waiting {
		select {
		case in, ok = <-t.queue:
			t.taken(in)
		default:
		}
		return in, ok, nil
	}
	select {
	case in, ok = <-t.queue:
		t.taken(in)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return in, ok, err
}

// ended is what ended the input, where that was not its end.
func (t *texts) ended() error {
	for in := range t.queue { // closed, or about to be
		t.taken(in)
	}
	return t.err
}

// close ends the progress bar and the reading.
func (t *texts) close() {
	close(t.left)
	t.progress.finish()
	if t.file != nil {
		t.file.Close()
	}
}
