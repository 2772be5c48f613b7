//go:build !linux

package profile

func mappings() []region { return nil }

type pageTable struct{}

func openPageTable() *pageTable { return nil }

func (*pageTable) close() {}

func (*pageTable) resident(uintptr, int64) int64 { return 0 }
