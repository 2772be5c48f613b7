package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/shapes"
	"hotpath/internal/train"
)

// trainers run the same training on several numbers of threads.
type trainers struct {
	folder string // with train.json and what it names
	made   map[int]*trainer
	warm   bool // all have made a step
}

type trainer struct {
	backend plan.Backend
	out     string
	run     *train.Trainer
}

// way is a training step on so many threads.
func (t *trainers) way(threads int) (how, error) {
	one := t.made[threads]
	if one == nil || one.run == nil {
		if t.folder == "" {
			return nil, errors.New("train without a training")
		}
		one = &trainer{}
		if t.made == nil {
			t.made = map[int]*trainer{}
		}
		t.made[threads] = one // closed also if it does not open
		if err := one.open(filepath.Join(t.folder, trainFile), threads); err != nil {
			return nil, err
		}
	}
	return func([][]int32, int) (amount, seconds float64, err error) {
		s, err := one.run.Step(context.Background())
		return float64(s.Tokens), s.Elapsed.Seconds(), err
	}, nil
}

func (t *trainer) open(path string, threads int) (err error) {
	if t.out, err = os.MkdirTemp("", "peerbench"); err != nil {
		return err
	}
	cfg, err := train.ReadConfig(path, []string{"out=" + t.out})
	if err != nil {
		return err
	}
	if t.backend, err = engine.NewBackend("cpu", engine.BackendOptions{Threads: threads}); err != nil {
		return err
	}
	t.run, err = train.New(context.Background(), cfg, train.Options{Backend: t.backend})
	return err
}

func (t *trainers) close() error {
	var errs []error
	for _, one := range t.made {
		if one.run != nil {
			errs = append(errs, one.run.Close())
		}
		if one.backend != nil {
			errs = append(errs, one.backend.Close())
		}
		errs = append(errs, os.RemoveAll(one.out))
	}
	return errors.Join(errs...)
}

const trainFile = "train.json"

// makeTraining writes a training of a ready-made configuration from random weights,
// with some fields replaced.
func makeTraining(folder, config string, sets ...string) error {
	if _, err := os.Stat(filepath.Join(folder, trainFile)); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	sets = append([]string{"model.tokenizer=" + folder, "data=" + filepath.Join(folder, "data.txt")}, sets...)
	cfg, err := train.ReadConfig(config, sets)
	if err != nil {
		return err
	}
	if err := shapes.WriteText(folder, cfg.Shape.Vocab, trainWords); err != nil {
		return err
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", trainFile, err)
	}
	return os.WriteFile(filepath.Join(folder, trainFile), data, 0o666)
}

// trainWords are more than all steps of a measurement read.
const trainWords = 200000
