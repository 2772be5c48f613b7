//go:build !(linux || darwin || freebsd || netbsd || dragonfly)

package pull

import "context"

// freeSpace is unknown here.
func freeSpace(string) int64 { return -1 }

// lock does nothing here: two pulls of the same file may both fetch it.
func lock(context.Context, string, func()) (func(), error) { return func() {}, nil }

// lockShared does nothing here either.
func lockShared(context.Context, string, func()) (func(), error) { return func() {}, nil }

// syncDir does nothing where folders cannot be synced.
func syncDir(string) error { return nil }
