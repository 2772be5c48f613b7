// Command hotpath embeds, generates, scores, trains and profiles from the
// command line. It holds flags and printing only; the work is in package
// hotpath and below.
//
// Results go to standard output, everything else to standard error. The exit
// status is 0 when done, 1 when something failed (one line says what), 2 for
// wrong usage and 130 when interrupted (SIGINT, SIGTERM). The first signal ends
// the command's context, the second one the process. Commands return errors; only
// this file turns them into a line and a status.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"hotpath/internal/term"
	"hotpath/profile"
)

// Exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		// A second one ends the process at once, whatever it is waiting for. It
		// writes nothing: standard error may be what it waits for.
		<-signals
		os.Exit(exitInterrupted)
	}()
	os.Exit(execute(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are where a command reads and writes.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, args []string, std streams) (status int) {
	// A defect below must not show a stack trace to somebody who gave a file.
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(std.err, "hotpath: internal error: %s\n", oneLine(fmt.Sprint(r)))
			status = exitFailed
		}
	}()
	out := &checkedWriter{Writer: std.out}
	std.out = out
	root := newRoot(std)
	root.SetArgs(args)
	cmd, err := spacedValues(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		err = out.failed() // help and single lines are printed without looking
	}
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil {
		fmt.Fprintln(std.err, "hotpath: interrupted")
		return exitInterrupted
	}
	if model := cmd.Flags().Lookup("model"); model != nil {
		err = notPulled(model.Value.String(), err)
	}
	var usage *usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command ") {
		fmt.Fprintf(std.err, "hotpath: %s (see '%s --help')\n", oneLine(err.Error()), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(std.err, "hotpath: %s\n", oneLine(err.Error()))
	return exitFailed
}

// checkedWriter remembers that standard output could not be written.
type checkedWriter struct {
	io.Writer
	mu  sync.Mutex
	err error
	ctx context.Context // of the scopes of writes; nil while nothing is recorded
}

// record makes every write a scope until the returned function is called.
func (w *checkedWriter) record(ctx context.Context) (stop func()) {
	w.ctx = ctx
	return func() { w.ctx = nil }
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	if w.ctx != nil {
		_, end := profile.Scope(w.ctx, "output")
		defer end()
	}
	n, err := w.Writer.Write(b)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
	return n, err
}

func (w *checkedWriter) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// usageError is a mistake in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// oneLine keeps the promise that an error is one line that a terminal shows as
// it is, whatever it quotes. The stack of a panic that was caught is left out.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\ngoroutine ")
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	if at := slices.Index(lines, "Did you mean this?"); at > 0 { // as cobra suggests commands
		lines = append(lines[:at], "did you mean "+strings.Join(lines[at+1:], " or ")+"?")
	}
	return term.Printable(strings.Join(lines, "; "))
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "hotpath",
		Short: "Embed, generate and train with transformers, and see where the time goes",
		Long: `hotpath embeds, generates and trains with transformers on this machine,
and accounts for every millisecond, byte and FLOP while it does so.

MODEL is a .gguf file, a Hugging Face directory (config.json, *.safetensors,
tokenizer.json) or the name of a pulled model.`,
		Example: `  hotpath info
  hotpath embed -m all-MiniLM-L6-v2 "a sentence" "another one" --format jsonl
  hotpath run -m SmolLM2-135M-Instruct.Q4_1.gguf -p "Why is the sky blue?"`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// A model may be named in place of its path.
		PersistentPreRunE: resolveModel,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{flagError(err)} })
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("hotpath {{.Version}}\n")
	for _, command := range commands {
		root.AddCommand(command(std))
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		show := help.Run
		help.Run, help.RunE = nil, func(cmd *cobra.Command, topic []string) error {
			if found, rest, err := root.Find(topic); err != nil || len(topic) > 0 && (found == root || len(rest) > 0) {
				return usagef("unknown help topic %q", strings.Join(topic, " "))
			}
			show(cmd, topic)
			return nil
		}
	}
	return root
}

// commands is the table of commands, in the order of the help text.
var commands = []func(streams) *cobra.Command{
	newInfo, newInspect, newTokenize, newTokenizer, newEmbed, newRerank, newSimilar, newRun, newScore, newPerplexity, newTrain, newBench, newProfile, newStudy,
	newQuantize, newConvert, newPull, newList, newRm,
}

// usageTemplate is cobra's with the examples at the end, where a terminal
// still shows them.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | optionalFile | trimTrailingWhitespaces}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}
`

func init() {
	// pflag writes a flag that may stand without its value as FILE[="-"].
	cobra.AddTemplateFunc("optionalFile", func(usages string) string {
		return strings.ReplaceAll(usages, ` FILE[="`+toReport+`"]`, "[=FILE]    ")
	})
}

// version is what the build knows about itself: the module's version, which go
// build takes from the repository, the toolchain and the machine.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s, %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// noArgs, oneArg and the like are cobra's, as usage errors.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// fileArgs is args of files, none of which is empty, as filledFlag is of flags.
// names are those of the help, "" for an argument that is no file; the last one is that of all
// further arguments.
func fileArgs(check cobra.PositionalArgs, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := args(check)(cmd, given); err != nil {
			return err
		}
		for i, value := range given {
			if name := names[min(i, len(names)-1)]; value == "" && name != "" {
				return usagef("%s is empty, expected the name of a file, a folder or a model", name)
			}
		}
		return nil
	}
}
