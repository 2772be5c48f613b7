//go:build !linux

package main

// onCore runs f, wherever: a process cannot choose its cores here.
func onCore(_ int, f func()) error {
	f()
	return nil
}
