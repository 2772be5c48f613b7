package main

import (
	"context"
	"errors"

	"hotpath/internal/convert"
	"hotpath/internal/quant"
	"hotpath/internal/weights"
)

// writeGGUF is what hotpath convert does, for a machine that has only gpubench.
func (b *bench) writeGGUF() (err error) {
	mix, err := quant.ParseMix(b.kind)
	if err != nil {
		return err
	}
	in, err := weights.Open(b.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	_, err = convert.Directory(context.Background(), in, b.convert, mix, quant.Options{})
	return err
}
