package opencl

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hotpath/internal/tensor"
)

//go:embed kernels/*.cl
var kernelFiles embed.FS

// code is a program: files of kernels/, joined in their order, and the names that they
// are compiled with. Programs are compiled when the first kernel of them is wanted.
type code struct {
	files   []string
	options string
	slabs   int // that kernels take; 0: one
}

// plainFiles are files whose kernels have neither a type nor a tile, with what they
// need in front of them. Each is a program.
var plainFiles = map[string][]string{
	"elementwise": {"common", "act", "turn"},
	"rows":        {"common"},
	"linear":      {"common"},
	"attention":   {"common", "mask"},
	"training":    {"common", "act"},
}

var kernelName = regexp.MustCompile(`(?m)^KERNEL(?:_OF\(\w+\))? (k_\w+)\(`)

// plains are the programs of those kernels by name.
var plains = sync.OnceValue(func() map[string]code {
	out := map[string]code{}
	for file, before := range plainFiles {
		c := code{files: append(slices.Clone(before), file)}
		for _, m := range kernelName.FindAllStringSubmatch(text(file), -1) {
			out[m[1]] = c
		}
	}
	return out
})

// plain is the program of a kernel that has neither a type nor a tile.
func plain(kernel string) code {
	c, ok := plains()[kernel]
	if !ok {
		panic("opencl: there is no kernel " + kernel)
	}
	return c
}

// typed are kernels for matrices of a type.
func typed(t tensor.DType, files ...string) code {
	return code{files: files, options: fmt.Sprintf(" -DTYPE=%d", int(t))}
}

// key tells programs apart.
func (c code) key() string { return c.files[len(c.files)-1] + c.defines() }

// defines are the options of the program beside those of the device.
func (c code) defines() string { return c.options + fmt.Sprintf(" -DSLAB_COUNT=%d", max(1, c.slabs)) }

// source joins files. Lines are numbered as in each file, so that errors of a
// compiler tell where they are.
func (c code) source() string {
	var b strings.Builder
	for _, f := range c.files {
		fmt.Fprintf(&b, "#line 1 \"%s.cl\"\n%s", f, text(f))
	}
	return b.String()
}

// text is what a file holds.
func text(file string) string {
	t, err := kernelFiles.ReadFile("kernels/" + file + ".cl")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(t)
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
