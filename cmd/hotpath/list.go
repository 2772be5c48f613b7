package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"hotpath/internal/builtin"
	"hotpath/internal/term"
)

func newList(std streams) *cobra.Command {
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The models that -m knows by name",
		Long: `The models that -m accepts by name: those inside the program, which commands use
without -m; those in the hub's cache, also from other tools; those from packages;
and those in the folder models of hotpath's cache (~/.cache/hotpath/models, or
$HOTPATH_CACHE/models). A shorter name works if it is unique: without the owner,
or the file's name. To name a model of your own, put it or a link to it into that
folder; 'make models' links its two models there.`,
		Example: `  hotpath list
  hotpath list --format json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := puller(cmd.Context())
			if err != nil {
				return err
			}
			models, err := p.List()
			if err != nil {
				return err
			}
			out := []pulledModel{}
			for _, m := range builtin.Models() {
				out = append(out, pulledModel{Name: m.Name, Path: insideProgram, Format: "GGUF", Bytes: int64(len(m.Data))})
			}
			for _, m := range models {
				out = append(out, pulledModel{Name: m.Name, Path: m.Path, Format: m.Format(), Bytes: m.Size})
			}
			if format.value == "json" {
				return document(std.out, out)
			}
			if len(models) == 0 {
				fmt.Fprintln(std.err, "hotpath: nothing was pulled yet: hotpath pull OWNER/NAME fetches a model")
			}
			return printModels(std.out, out)
		},
	}
	format.addFlag(cmd, "text", "json")
	return cmd
}

// insideProgram stands for the path of a model that has none.
const insideProgram = "(inside the program)"

func printModels(w io.Writer, models []pulledModel) error {
	width := 0
	for _, m := range models {
		width = max(width, utf8.RuneCountInString(term.Printable(m.Name)))
	}
	var b strings.Builder
	for _, m := range models {
		fmt.Fprintf(&b, "%-*s  %-12s  %9s  %s\n", width, term.Printable(m.Name), m.Format, size(m.Bytes), term.Printable(m.Path))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
