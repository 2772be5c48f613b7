//go:build !amd64

package cpu

import "runtime"

func pause() { runtime.Gosched() }
