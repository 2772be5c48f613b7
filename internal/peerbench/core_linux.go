package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onCore runs f on a thread that stays on one of the cores that this process
// has, the n-th: cores are not equally fast from one second to the next, and what
// one thread does is only comparable with what another did on the same one.
func onCore(n int, f func()) (err error) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	var cores []int
	for cpu := range 64 * len(all) {
		if all.IsSet(cpu) {
			cores = append(cores, cpu)
		}
	}
	one.Set(cores[n%len(cores)])
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = unix.SchedSetaffinity(0, &one); err == nil {
			f()
		}
	}()
	<-done
	return err
}
