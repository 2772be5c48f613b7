package isa

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	mountV2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1     = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	mountHybrid = mountV1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)

func TestCgroupCores(t *testing.T) {
	for _, c := range []struct {
		name   string
		mounts string
		group  string
		files  map[string]string
		want   int
	}{
		{"nothing", "", "", nil, 0},
		{"v2 at the top", mountV2, "0::/\n", map[string]string{"cpu.max": "250000 100000\n"}, 3},
		{"v2 no limit", mountV2, "0::/\n", map[string]string{"cpu.max": "max 100000\n"}, 0},
		{"v2 of its own", mountV2, "0::/a/b\n", map[string]string{"a/b/cpu.max": "100000 100000\n"}, 1},
		{"v2 of another", mountV2, "0::/a/b\n", map[string]string{"a/c/cpu.max": "100000 100000\n"}, 0},
		{"v2 of a parent", mountV2, "0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 2},
		{"v2 the smallest of all", mountV2, "0::/a/b\n", map[string]string{"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n", "cpu.max": "300000 100000\n"}, 2},
		{"v2 less than a core", mountV2, "0::/a\n", map[string]string{"a/cpu.max": "1000 100000\n"}, 1},
		{"v2 a group that is gone", mountV2, "0::/a/b (deleted)\n", map[string]string{"a/cpu.max": "100000 100000\n"}, 1},
		{"v2 a mount of a part", strings.Replace(mountV2, " / ", " /docker/x ", 1), "0::/docker/x/job\n", map[string]string{"job/cpu.max": "100000 100000\n"}, 1},
		{"v2 a mount of another part", strings.Replace(mountV2, " / ", " /docker/x ", 1), "0::/docker/xy/job\n", map[string]string{"cpu.max": "200000 100000\n", "y/job/cpu.max": "100000 100000\n"}, 2},
		{"v2 a group outside", mountV2, "0::/../../a\n", map[string]string{"a/cpu.max": "100000 100000\n", "cpu.max": "200000 100000\n"}, 2},
		{"v2 a mount outside", strings.Replace(mountV2, " / ", " /.. ", 1), "0::/../a\n", map[string]string{"a/cpu.max": "100000 100000\n", "cpu.max": "200000 100000\n"}, 1},
		{"v2 a group outside a mount outside", strings.Replace(mountV2, " / ", " /.. ", 1), "0::/../../a\n", map[string]string{"a/cpu.max": "100000 100000\n", "cpu.max": "200000 100000\n"}, 2},
		{"v2 a place with a space", strings.Replace(mountV2, "/sys/fs/cgroup", `/sys/fs/cgroup/a\040b`, 1), "0::/\n", map[string]string{"a b/cpu.max": "100000 100000\n"}, 1},
		{"no mounts listed", "", "0::/a\n", map[string]string{"a/cpu.max": "100000 100000\n"}, 1},
		{"v1 no limit", mountV1, "4:cpu,cpuacct:/\n", map[string]string{"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 0},
		{"v1 nested", mountV1, "5:cpuset:/\n4:cpu,cpuacct:/job\n", map[string]string{"cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"}, 1},
		{"v1 of a parent", mountV1, "4:cpu,cpuacct:/job/x\n", map[string]string{"cpu,cpuacct/job/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"}, 2},
		{"hybrid", mountHybrid, "4:cpu,cpuacct:/job\n0::/other\n", map[string]string{"cpu,cpuacct/job/cpu.cfs_quota_us": "100000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n", "unified/other/cpu.stat": "usage_usec 1\n"}, 1},
		{"quota without a period", mountV1, "4:cpu,cpuacct:/\n", map[string]string{"cpu,cpuacct/cpu.cfs_quota_us": "100000\n"}, 0},
		{"words", mountV2, "0::/\n", map[string]string{"cpu.max": "many\n"}, 0},
		{"a period of nothing", mountV2, "0::/\n", map[string]string{"cpu.max": "100000 0\n"}, 0},
		{"numbers beyond all", mountV2, "0::/\n", map[string]string{"cpu.max": "99999999999999999999 1\n"}, 0},
		{"a quota near the end of numbers", mountV2, "0::/\n", map[string]string{"cpu.max": "9223372036854775807 9223372036854775807\n"}, 1},
		{"more cores than there are", mountV2, "0::/\n", map[string]string{"cpu.max": "9223372036854775807 1\n"}, 1<<31 - 1},
		{"lines of nothing", "- - -\n\n1 2 3 4 5 6 -\n" + mountV2, ":::\n\x00\n0:\n0::relative\n", map[string]string{"cpu.max": "200000 100000\n", "relative/cpu.max": "100000 100000\n"}, 2},
		{"a path too long", mountV2, "0::/" + strings.Repeat("a/", 1<<16) + "\n", map[string]string{"a/cpu.max": "100000 100000\n", "cpu.max": "200000 100000\n"}, 2},
	} {
		root := t.TempDir()
		write(t, root, "proc/self/cgroup", c.group)
		write(t, root, "proc/self/mountinfo", c.mounts)
		for f, text := range c.files {
			write(t, root, filepath.Join("sys/fs/cgroup", f), text)
		}
		if got := cgroupCores(root); got != c.want {
			t.Errorf("%s: %d cores, want %d", c.name, got, c.want)
		}
	}
}

// Without /proc there is nothing to know.
func TestCgroupCoresWithoutProc(t *testing.T) {
	if got := cgroupCores(t.TempDir()); got != 0 {
		t.Errorf("%d cores", got)
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("0::/a/b\n", mountV2, "100000 100000")
	f.Add("4:cpu,cpuacct:/job\n", mountV1, "max 1")
	f.Add("0::/../..\n", strings.Replace(mountV2, " / ", ` /\134\0 `, 1), "-1 0")
	f.Fuzz(func(t *testing.T, group, mounts, quota string) {
		v1, v2 := cgroupPaths(group)
		for _, p := range []string{v1, v2} {
			if p != "" && (p[0] != '/' || len(p) > 4096) {
				t.Errorf("a group at %q", p)
			}
		}
		if len(cgroupMounts(mounts)) == 0 {
			t.Error("no place to look at")
		}
		q, p, _ := strings.Cut(quota, " ")
		if quotaCores(q, p) < 0 {
			t.Errorf("quota %q: fewer than no cores", quota)
		}
	})
}
