//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// unnamed fails: files have names here.
func unnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func link(*os.File, string) error { return errors.ErrUnsupported }
