package opencl

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed kernels/*.cl
var files embed.FS

// unit is a source file with the names that it is compiled for.
type unit struct {
	file    string
	defines string // lines in front of it
	ends    string // lines behind it
}

// baseUnits are the kernels of all plans. Attention comes in two sizes: for few
// rows, and for many.
var baseUnits = []unit{
	{file: "common.cl"}, {file: "elementwise.cl"}, {file: "rows.cl"}, {file: "linear.cl"}, {file: "attention.cl"}, {file: "training.cl"},
	{file: "attend.cl", defines: "#define QUERIES 1\n#define N(name) name##_1\n", ends: "#undef QUERIES\n#undef N\n"},
	{file: "attend.cl", defines: "#define QUERIES 8\n#define N(name) name##_8\n", ends: "#undef QUERIES\n#undef N\n"},
}

// source joins files. Lines are numbered as in each file, so that errors of a
// compiler tell where they are.
func source(units []unit) string {
	var b strings.Builder
	for _, u := range units {
		text, err := files.ReadFile("kernels/" + u.file)
		if err != nil {
			panic(err) // it is embedded
		}
		fmt.Fprintf(&b, "%s#line 1 \"%s\"\n%s%s", u.defines, u.file, text, u.ends)
	}
	return b.String()
}

// buildOptions of all programs: kernels are OpenCL C 1.2. Nothing is relaxed, so
// that answers are those of other backends up to rounding.
const buildOptions = "-cl-std=CL1.2"

var errorLine = regexp.MustCompile(`(?i)^.*\berror\b.*$`)

// firstError is the first error of a compiler's log, or the log's first line.
func firstError(log string) string {
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
