package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/pull"
	"hotpath/internal/term"
)

func newRm(std streams) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete pulled models",
		Long: `Deletes models by the names that list shows, or by shorter unique names. On a
terminal it asks first; elsewhere it needs --yes. If a model is a link in
hotpath's folder of models, only the link is deleted.`,
		Example: `  hotpath rm all-MiniLM-L6-v2 --yes
  hotpath rm SmolLM2-135M-Instruct-GGUF:Q4_K_M --yes`,
		Args: fileArgs(cobra.MinimumNArgs(1), "NAME"),
		RunE: func(cmd *cobra.Command, names []string) error {
			p, err := puller(cmd.Context())
			if err != nil {
				return err
			}
			for _, name := range names {
				m, err := p.Find(name)
				if err != nil {
					return err
				}
				says := deletionOf(m)
				if !yes {
					if !isTerminal(std.in) || !isTerminal(std.err) {
						return usagef("%s", says.refusal)
					}
					fmt.Fprintf(std.err, "%s [y/N] ", term.Printable(says.question))
					answer, err := waitFor(cmd.Context(), func() (string, error) {
						answer, _ := bufio.NewReader(std.in).ReadString('\n')
						return answer, nil
					})
					if err != nil {
						return err
					}
					if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
						fmt.Fprintf(std.err, "%s stays\n", term.Printable(m.Name))
						continue
					}
				}
				if err := p.Remove(cmd.Context(), m); err != nil {
					return err
				}
				fmt.Fprintln(std.err, term.Printable(says.done))
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// deletion is what rm says of a model.
type deletion struct{ refusal, question, done string }

func deletionOf(m pull.Model) deletion {
	if to := m.Target(); to != "" {
		return deletion{
			fmt.Sprintf("%s is a link at %s: --yes deletes the link; the model at %s stays", m.Name, m.Path, to),
			fmt.Sprintf("Delete %s, a link at %s? The model at %s stays.", m.Name, m.Path, to),
			fmt.Sprintf("%s: link deleted, the model at %s stays", m.Name, to),
		}
	}
	return deletion{
		fmt.Sprintf("%s is %s at %s: --yes deletes it", m.Name, size(m.Size), m.Path),
		fmt.Sprintf("Delete %s, %s at %s?", m.Name, size(m.Size), m.Path),
		fmt.Sprintf("%s: %s deleted", m.Name, size(m.Size)),
	}
}
