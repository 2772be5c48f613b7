package opencl

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"hotpath/internal/tensor"
)

//go:embed kernels/*.cl
var files embed.FS

// unit is a source file.
type unit struct{ file string }

// code is a program: units and the names that they are compiled with. Programs are
// compiled when the first kernel of them is wanted.
type code struct {
	units   []unit
	options string
	slabs   int // that kernels take; 0: one
}

// base are the kernels that every plan may need.
var base = code{units: parts("common", "act", "turn", "elementwise", "rows", "linear", "mask", "attention", "training")}

// parts are files without names of their own.
func parts(names ...string) (out []unit) {
	for _, n := range names {
		out = append(out, unit{file: n + ".cl"})
	}
	return out
}

// typed are kernels for matrices of a type.
func typed(t tensor.DType, names ...string) code {
	return code{units: parts(names...), options: fmt.Sprintf(" -DTYPE=%d", int(t))}
}

// key tells programs apart.
func (c code) key() string { return c.units[len(c.units)-1].file + c.defines() }

// defines are the options of the program beside those of the device.
func (c code) defines() string { return c.options + fmt.Sprintf(" -DSLAB_COUNT=%d", max(1, c.slabs)) }

// source joins files. Lines are numbered as in each file, so that errors of a
// compiler tell where they are.
func source(units []unit) string {
	var b strings.Builder
	for _, u := range units {
		text, err := files.ReadFile("kernels/" + u.file)
		if err != nil {
			panic(err) // it is embedded
		}
		fmt.Fprintf(&b, "#line 1 \"%s\"\n%s", u.file, text)
	}
	return b.String()
}

var errorLine = regexp.MustCompile(`(?i)^.*\berror\b.*$`)

// firstError is the first error of a compiler's log, or the log's first line, with the
// file and line of the source.
func firstError(log, source string) string { return located(errorOf(log), source) }

var (
	lineMark  = regexp.MustCompile(`^#line (\d+) "(.*)"$`)
	unlocated = regexp.MustCompile(`<kernel>:(\d+)`)
)

// located puts the file and line of a source into an error of a compiler that ignores
// marks of lines, as NVIDIA's does: "<kernel>:200:7" counts lines from the beginning.
func located(message, source string) string {
	return unlocated.ReplaceAllStringFunc(message, func(at string) string {
		line, err := strconv.Atoi(strings.TrimPrefix(at, "<kernel>:"))
		if err != nil {
			return at
		}
		file, first, number := "", 0, 0
		for text := range strings.Lines(source) {
			if number++; number > line {
				break
			}
			if m := lineMark.FindStringSubmatch(strings.TrimSpace(text)); m != nil {
				if first, err = strconv.Atoi(m[1]); err != nil {
					return at
				}
				file, first = m[2], first-number-1
			}
		}
		if file == "" {
			return at
		}
		return fmt.Sprintf("%s:%d", file, line+first)
	})
}

func errorOf(log string) string {
	first := "no log"
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if errorLine.MatchString(line) {
			return line
		}
		if first == "no log" && line != "" {
			first = line
		}
	}
	return first
}
