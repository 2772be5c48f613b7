//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package main

import "os"

// lockFile trusts people where the system has no such locks.
func lockFile(*os.File) error { return nil }
