package train

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"time"

	"hotpath/internal/atomicfile"
)

// eventLog is what TensorBoard reads: it looks for "tfevents" in names.
const eventLog = "events.out.tfevents.0.hotpath"

// eventFile is a log of TensorBoard's: TFRecords, each a length and an Event of
// tensorflow/core/util/event.proto with masked checksums.
type eventFile struct {
	*logFile
	now                        func() time.Time // time.Now but in tests
	event, summary, value, buf []byte
}

// maxEvents bounds the log of a run that is resumed, because it is read into memory.
const maxEvents = 1 << 30

// openEvents opens the log of a run that goes on after a step; records of later
// steps, which a killed run left, are taken out.
func openEvents(path string, after int) (*eventFile, error) {
	f := &eventFile{now: time.Now}
	kept := f.record(nil, 0, func(b []byte) []byte { return appendBytes(b, 3, "brain.Event:2") })
	if after > 0 {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Size() > maxEvents:
			return nil, fmt.Errorf("%s: expected a regular file of at most %d bytes", path, maxEvents)
		default:
			old, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			for record, step := range records(old) {
				if step >= 1 && step <= after {
					kept = append(kept, record...)
				}
			}
		}
	}
	if err := atomicfile.Replace(path, kept); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	f.logFile = &logFile{File: file, size: int64(len(kept))}
	return f, nil
}

// addStep writes the scalars of a step.
func (f *eventFile) addStep(s *Step) error {
	f.buf = f.record(f.buf[:0], s.Step, func(event []byte) []byte {
		sum := f.summary[:0]
		sum = f.scalar(sum, "loss/train", float64(s.Loss))
		sum = f.scalar(sum, "optimizer/grad_norm", float64(s.GradNorm))
		sum = f.scalar(sum, "optimizer/lr", s.LR)
		sum = f.scalar(sum, "speed/tokens_per_second", s.TokensPerSecond())
		if s.MFU > 0 {
			sum = f.scalar(sum, "speed/mfu", s.MFU)
		}
		for _, figure := range figures {
			if s.Eval.Done && figure.has(&s.Eval) {
				sum = f.scalar(sum, figure.tag, figure.of(&s.Eval))
			}
		}
		f.summary = sum
		return appendBytes(event, 5, sum)
	})
	return f.logFile.addLine(f.buf)
}

// scalar is one more Summary.Value: tag 1, simple_value 2.
func (f *eventFile) scalar(summary []byte, tag string, v float64) []byte {
	b := appendBytes(f.value[:0], 1, tag)
	b = append(b, 2<<3|5)
	f.value = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	return appendBytes(summary, 1, f.value)
}

// record appends a TFRecord with an Event: wall_time 1, step 2, and what body
// adds.
func (f *eventFile) record(to []byte, step int, body func(event []byte) []byte) []byte {
	b := append(f.event[:0], 1<<3|1)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(f.now().UnixNano())/1e9))
	if step > 0 { // a zero is left out
		b = binary.AppendUvarint(append(b, 2<<3), uint64(step))
	}
	f.event = body(b)
	at := len(to)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(f.event)))
	to = binary.LittleEndian.AppendUint32(to, masked(to[at:at+8]))
	to = append(to, f.event...)
	return binary.LittleEndian.AppendUint32(to, masked(f.event))
}

// appendBytes appends a field of protobuf whose value has a length.
func appendBytes[T string | []byte](to []byte, field int, value T) []byte {
	to = append(to, byte(field<<3|2))
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a TFRecord.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// records are the whole records of a log with their steps, up to the first that
// is broken.
func records(log []byte) func(yield func(record []byte, step int) bool) {
	return func(yield func([]byte, int) bool) {
		for len(log) >= 16 {
			n := binary.LittleEndian.Uint64(log)
			if binary.LittleEndian.Uint32(log[8:]) != masked(log[:8]) || n > uint64(len(log)-16) {
				return
			}
			event := log[12 : 12+n]
			if binary.LittleEndian.Uint32(log[12+n:]) != masked(event) {
				return
			}
			step := uint64(0)
			if head := []byte{1<<3 | 1}; bytes.HasPrefix(event, head) && len(event) > 10 && event[9] == 2<<3 {
				step, _ = binary.Uvarint(event[10:])
			}
			if !yield(log[:16+n], int(step)) {
				return
			}
			log = log[16+n:]
		}
	}
}
