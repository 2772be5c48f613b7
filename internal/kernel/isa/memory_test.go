package isa

import "testing"

func TestFreeMemory(t *testing.T) {
	const meminfo = "MemTotal:       4194304 kB\nMemAvailable:    1048576 kB\n"
	for _, c := range []struct {
		name, meminfo, limit, stat string
		want                       int64
	}{
		{"nothing", "", "", "", 0},
		{"no limit", meminfo, "max\n", "anon 5\n", 1 << 30},
		{"a limit above", meminfo, "2147483648\n", "anon 5\n", 1 << 30},
		{"a limit below", meminfo, "536870912\n", "file 7\nanon 134217728\n", 384 << 20},
		{"all of it taken", meminfo, "1000\n", "anon 2000\n", 1},
		{"a limit alone", "", "1000\n", "", 1000},
		{"no numbers", "MemAvailable: many kB\n", "-5\n", "", 0},
	} {
		root := t.TempDir()
		write(t, root, "proc/self/cgroup", "0::/job\n")
		write(t, root, "proc/self/mountinfo", mountV2)
		write(t, root, "proc/meminfo", c.meminfo)
		write(t, root, "sys/fs/cgroup/job/memory.max", c.limit)
		write(t, root, "sys/fs/cgroup/job/memory.stat", c.stat)
		if got := freeMemory(root); got != c.want {
			t.Errorf("%s: %d bytes, expected %d", c.name, got, c.want)
		}
	}
}
