package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hotpath"
	"hotpath/profile"
	"hotpath/profile/export"
)

const (
	warmSteps  = 3 // not timed
	turnSteps  = 4 // of one turn
	mostSteps  = 1 << 20
	plainSteps = 12
)

// train times optimizer steps without the first three. A profile is that of another
// run of 6.
func (b *bench) train(i int, work string, seqs, tokens int) error {
	if b.requests != nil {
		return b.trainTurns(work, seqs, tokens)
	}
	began := time.Now()
	var times []float64
	err := b.steps(plainSteps, seqs, tokens, nil, func(s hotpath.TrainStep) error {
		if s.Step > warmSteps {
			times = append(times, s.Elapsed.Seconds())
		}
		return nil
	})
	if err == nil {
		err = b.report(work, times, float64(seqs*tokens), began)
	}
	if err != nil || b.profile == "" {
		return err
	}
	rec := profile.NewRecorder(profile.Options{})
	if err := b.steps(6, seqs, tokens, rec, nil); err != nil {
		return err
	}
	return export.Export(fmt.Sprintf("%s.%d.csv", b.profile, i), rec.Snapshot())
}

// trainTurns trains some steps per line of standard input, all in one run.
func (b *bench) trainTurns(work string, seqs, tokens int) error {
	var times []float64
	began := time.Now()
	err := b.steps(mostSteps, seqs, tokens, nil, func(s hotpath.TrainStep) error {
		if s.Step < warmSteps {
			return nil
		}
		if s.Step == warmSteps {
			err := b.ready(work)
			began = time.Now()
			return err
		}
		if times = append(times, s.Elapsed.Seconds()); len(times) < turnSteps {
			return nil
		}
		err := b.report(work, times, float64(seqs*tokens), began)
		if times = times[:0]; err == nil {
			err = b.request()
			began = time.Now()
		}
		return err
	})
	if errors.Is(err, errNoRequest) {
		return nil
	}
	return err
}

// steps trains some steps, and calls each with every one.
func (b *bench) steps(count, seqs, tokens int, rec *profile.Recorder, each func(hotpath.TrainStep) error) error {
	out, err := os.MkdirTemp("", "gpubench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	cfg := hotpath.DefaultTrainConfig()
	cfg.Model, cfg.Data, cfg.Out = b.path, []string{filepath.Join(b.path, "data.txt")}, filepath.Join(out, "run")
	cfg.Steps, cfg.BatchTokens, cfg.SeqLen = count, seqs*tokens, tokens
	_, err = hotpath.Train(context.Background(), cfg, hotpath.TrainOptions{Device: b.device, Precision: b.precision, Profile: rec, OnStep: each})
	return err
}
