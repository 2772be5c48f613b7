//go:build !linux

package profile

func readProcessor() (s ProcessorStats, ok bool) { return s, false }

func lanesWaited() (ns int64, ok bool) { return 0, false }

func sinceStart() int64 { return 0 }
