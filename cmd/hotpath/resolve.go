package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
	"hotpath/internal/pull"
)

// resolveModel puts the path of a pulled model in place of its name, before any
// command that has the flag runs.
func resolveModel(cmd *cobra.Command, _ []string) error {
	f := cmd.Flags().Lookup("model")
	if f == nil || !f.Changed {
		return nil
	}
	path, err := modelPath(cmd.Context(), f.Value.String())
	if err != nil {
		return err
	}
	return f.Value.Set(path)
}

// modelPath is where a model lies: a path as it is, the name of a model inside
// the program, or the path of the pulled model of that name. A name that is none
// of them stays, and fails where it is opened.
func modelPath(ctx context.Context, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || name == "" {
		return name, nil
	}
	if _, ok := builtin.Find(name); ok {
		return name, nil
	}
	p, err := puller(ctx)
	if err != nil {
		return name, nil // without a home there are no pulled models
	}
	m, err := p.Find(name)
	if err == nil {
		return m.Path, nil
	}
	if errors.Is(err, pull.ErrChoice) {
		return "", err
	}
	return name, nil
}

// puller reads the environment and the files that it names, a token's among them.
func puller(ctx context.Context) (*pull.Puller, error) { return waitFor(ctx, pull.Env) }

// notPulled adds to the error of a model that is nowhere how to get it.
func notPulled(name string, err error) error {
	if _, statErr := os.Stat(name); statErr == nil || !errors.Is(err, hotpath.ErrNotModel) {
		return err
	}
	return fmt.Errorf("%w, and no pulled model has that name (see 'hotpath pull --help')", err)
}
