package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"
	"time"

	"hotpath/internal/atomicfile"
)

// resumeEvery is how often the state is written. What was written after it is
// made again: nothing tells which texts it was made of.
var resumeEvery = 2 * time.Second

// resumeState is OUT.resume: what OUT is made of, and how much of it is certain.
type resumeState struct {
	Version  int    `json:"version"`
	Model    string `json:"model"`   // for messages
	Content  string `json:"content"` // digest of the model's files, which says which it is
	Options  string `json:"options"` // that change vectors
	Format   string `json:"format"`
	Quantize string `json:"quantize"`
	Dim      int    `json:"dim"`

	Records int    `json:"records"` // complete ones
	Bytes   int64  `json:"bytes"`   // that they and the header take
	Failed  int    `json:"failed"`  // records that are errors
	Digest  string `json:"digest"`  // SHA-256 of the texts of these records
	Tail    string `json:"tail"`    // SHA-256 of the last tailBytes of these records
	Done    bool   `json:"done"`    // there is no further text
}

// resumeVersion is of what a state says. Version 2 knew a model by some values
// of a vector, which other weights may have too.
const resumeVersion = 3

// tailBytes of the output are looked at again, to find that something else
// changed it: all of it would take as long as reading it.
const tailBytes = 64 << 10

// maxState bounds the file: anything longer was not written by us.
const maxState = 1 << 20

// resume is a run that can be gone on with after any end.
type resume struct {
	path  string // of the state
	state resumeState
	file  *grownFile

	skip   int // records that OUT has: their texts are read and left out
	header int // bytes before the first record
	digest hash.Hash
	seen   int // texts in digest
	wrote  time.Time
}

// openResume opens OUT to go on, or begins it. now is what this run would make.
// What decides is read under the lock: another process may have been at work
// until then.
func openResume(out string, now resumeState, format *vectorFormat, row int) (*resume, error) {
	r := &resume{path: out + ".resume", header: format.header, digest: sha256.New()}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: --resume expects a regular file, which can be appended to", out)
	}
	lock, err := atomicfile.Lock(out)
	if err != nil {
		return nil, err
	}
	if err = atomicfile.Sweep(r.path); err == nil {
		r.file, err = r.open(out)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	r.file.lock = lock
	if err = r.hold(out, now); err == nil {
		err = r.position(format, row)
	}
	if err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	return r, nil
}

// open opens OUT, and creates it unless the state says that it has records.
func (r *resume) open(out string) (*grownFile, error) {
	found, err := r.read()
	if err != nil {
		return nil, err
	}
	flags := os.O_RDWR
	if !found || r.state.Bytes == 0 { // else a file that is gone would come back empty
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(out, flags, 0o666)
	if found && errors.Is(err, os.ErrNotExist) && flags&os.O_CREATE == 0 {
		return nil, fmt.Errorf("%s: no such file, but %s says that it has %d records: put it back, or remove %[2]s to begin anew", out, r.path, r.state.Records)
	}
	if err != nil {
		return nil, atomicfile.Named(out, err)
	}
	return &grownFile{File: f, path: out}, nil
}

// hold holds this run against the state, or makes one for an output that is
// empty: one that a process left which died before it had a state is too.
func (r *resume) hold(out string, now resumeState) error {
	found, err := r.read()
	if err != nil {
		return err
	}
	if found {
		return r.same(out, now)
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		return fmt.Errorf("%s: exists, but its state file %s does not: remove the output, or overwrite it without --resume", out, r.path)
	}
	now.Version, now.Bytes, now.Digest = resumeVersion, 0, r.sum()
	r.state = now
	return r.write()
}

// read reads the state, and reports whether there is one.
func (r *resume) read() (bool, error) {
	info, err := os.Stat(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait
		return false, fmt.Errorf("%s: expected the state of a run in a regular file", r.path)
	}
	f, err := os.Open(r.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return false, err
	}
	if len(data) > maxState {
		return false, fmt.Errorf("%s: more than %d bytes, expected the state of a run", r.path, maxState)
	}
	r.state = resumeState{}
	if err := json.Unmarshal(data, &r.state); err != nil {
		return false, fmt.Errorf("%s: expected the state of a run: %w", r.path, err)
	}
	s := &r.state
	if s.Version > 0 && s.Version != resumeVersion {
		age := "an older"
		if s.Version > resumeVersion {
			age = "a newer"
		}
		return false, fmt.Errorf("%s: %s hotpath wrote it, in version %d, expected %d: continue with that hotpath, or remove this file and the output to begin anew", r.path, age, s.Version, resumeVersion)
	}
	for _, f := range []struct {
		bad      bool
		name     string
		value    any
		expected string
	}{
		{s.Version != resumeVersion, "version", s.Version, strconv.Itoa(resumeVersion)},
		{s.Bytes < 0, "bytes", s.Bytes, "0 or more"},
		{s.Records < 0 || int64(s.Records) > s.Bytes, "records", s.Records, "0 to one for each of the bytes"},
		{s.Failed < 0 || s.Failed > s.Records, "failed", s.Failed, "0 to the number of records"},
	} {
		if f.bad {
			return false, fmt.Errorf("%s: field %s: %v, expected %s", r.path, f.name, f.value, f.expected)
		}
	}
	return true, nil
}

// same holds this run against the one that began.
func (r *resume) same(out string, now resumeState) error {
	was := &r.state
	if was.Content != now.Content {
		return fmt.Errorf("%s: was begun with another model, or other weights, configuration or tokenizer of it: %s of SHA-256 %.16s, now it is %s of SHA-256 %.16s",
			out, was.Model, was.Content, now.Model, now.Content)
	}
	for _, f := range []struct{ name, was, now string }{
		{"other options", was.Options, now.Options},
		{"another format", was.Format, now.Format},
		{"another --quantize", was.Quantize, now.Quantize},
		{"another number of dimensions", strconv.Itoa(was.Dim), strconv.Itoa(now.Dim)},
	} {
		if f.was != f.now {
			return fmt.Errorf("%s: was begun with %s: %q, now it is %q", out, f.name, f.was, f.now)
		}
	}
	return nil
}

// position holds the file against the state and goes behind the records that
// are certain.
func (r *resume) position(format *vectorFormat, row int) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	s := &r.state
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: something else changed it: restore it, or remove it and %s to begin anew", r.file.path, fmt.Sprintf(format, args...), r.path)
	}
	switch {
	case info.Size() < s.Bytes:
		return wrong("has %d bytes, expected at least %d", info.Size(), s.Bytes)
	case s.Done && info.Size() > s.Bytes:
		return wrong("has %d bytes, expected the %d of a complete run", info.Size(), s.Bytes)
	case format.rows && s.Records > 0 && s.Bytes-int64(format.header) != int64(s.Records)*int64(row):
		return wrong("%d bytes of %d rows, expected %d a row", s.Bytes, s.Records, row)
	}
	if s.Records > 0 {
		tail, err := r.tail(s.Bytes)
		if err != nil {
			return err
		}
		if tail != s.Tail {
			return wrong("the last of its %d records are not those that were written", s.Records)
		}
	}
	if _, err := r.file.Seek(s.Bytes, io.SeekStart); err != nil {
		return err
	}
	r.file.size, r.skip = s.Bytes, s.Records
	if !s.Done {
		return nil
	}
	s.Done = false // there may be further texts now
	return r.write()
}

// tail is the digest of the last records before an offset.
func (r *resume) tail(end int64) (string, error) {
	begin := max(int64(r.header), end-tailBytes) // a header is written again at the end
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r.file.File, begin, max(0, end-begin))); err != nil {
		return "", atomicfile.Named(r.file.path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// begin cuts off what lies behind the records that are certain, once the input
// is known to be theirs: at most what resumeEvery took.
func (r *resume) begin() error {
	if err := r.missing(); err != nil {
		return err
	}
	return atomicfile.Named(r.file.path, r.file.Truncate(r.file.size))
}

// addText takes note of a text whose record is in the output, and tells what is
// wrong where it is not the text that it was.
func (r *resume) addText(in text) error {
	var size [8]byte
	for _, part := range [...]string{in.body, string(appendCarried([]byte("{}"), in.carry))} {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		r.digest.Write(size[:])
		io.WriteString(r.digest, part)
	}
	r.seen++
	if r.seen == r.skip && r.sum() != r.state.Digest {
		return fmt.Errorf("%s: its %d records are from other texts than the input, expected the same input", r.file.path, r.seen)
	}
	return nil
}

func (r *resume) sum() string { return hex.EncodeToString(r.digest.Sum(nil)) }

// missing is the error of an input that ended before the texts of all records.
func (r *resume) missing() error {
	if r.seen >= r.skip {
		return nil
	}
	return fmt.Errorf("%s: has %d records, but the input has %d texts", r.file.path, r.skip, r.seen)
}

// checkpoint saves now and then.
func (r *resume) checkpoint(records, failed int) error {
	if time.Since(r.wrote) < resumeEvery {
		return nil
	}
	return r.save(records, failed, false)
}

// save writes the state; everything before it is in the file.
func (r *resume) save(records, failed int, done bool) error {
	if err := r.file.inPlace(); err != nil {
		return err
	}
	end, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return atomicfile.Named(r.file.path, err)
	}
	s := &r.state
	s.Records, s.Bytes, s.Failed, s.Digest, s.Done = records, end, failed, r.sum(), done
	if s.Tail, err = r.tail(end); err != nil {
		return err
	}
	return r.write()
}

// write replaces the state in one step.
func (r *resume) write() error {
	data, err := json.Marshal(&r.state)
	if err != nil {
		return err
	}
	r.wrote = time.Now()
	return atomicfile.Replace(r.path, append(data, '\n'))
}
