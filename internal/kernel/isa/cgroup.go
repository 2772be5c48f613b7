package isa

import (
	"io"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupFile bounds what is read of a file about cgroups: those of /proc are a
// page or a few.
const cgroupFile = 1 << 20

// cgroupMount is a place where quotas lie.
type cgroupMount struct {
	v2    bool
	root  string // the group that is mounted, as /proc/self/cgroup names groups
	point string // where it is mounted
}

// cgroupCores is the smallest CPU quota of this process's cgroup and of all
// above it that can be seen, rounded up to whole cores; 0 where there is none.
// Go's own limit is not enough: it never goes below 2. What cannot be read or
// makes no sense limits nothing. root is where /proc and /sys are.
func cgroupCores(root string) int {
	least := 0
	for dir, v2 := range cgroupDirs(root) {
		read := quotaV1
		if v2 {
			read = quotaV2
		}
		if n := read(dir); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// cgroupDirs are the folders of this process's cgroups and of all above them that
// can be seen, and whether they are of version 2: where quotas of the CPU are.
func cgroupDirs(root string) iter.Seq2[string, bool] {
	return func(yield func(dir string, v2 bool) bool) {
		v1, v2 := cgroupPaths(readSome(filepath.Join(root, "proc/self/cgroup")))
		for _, m := range cgroupMounts(readSome(filepath.Join(root, "proc/self/mountinfo"))) {
			group := v1
			if m.v2 {
				group = v2
			}
			// A group that lies elsewhere is not to be seen from here; its mount
			// stands for it, as it does where a container sees its own at the top.
			under, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
			if !ok || under != "" && under[0] != '/' || slices.Contains(strings.Split(under, "/"), "..") {
				under = "/"
			}
			for at := path.Clean("/" + under); ; at = path.Dir(at) {
				if !yield(filepath.Join(root, m.point, at), m.v2) {
					return
				}
				if at == "/" {
					break
				}
			}
		}
	}
}

// cgroupPaths finds this process's groups in the text of /proc/self/cgroup: of
// the cpu controller of version 1 and of version 2. Each is empty where the text
// has none, or one that no path can be.
func cgroupPaths(text string) (v1, v2 string) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") || len(f[2]) > 4096 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			v2 = f[2]
		case slices.Contains(strings.Split(f[1], ","), "cpu"):
			v1 = f[2]
		}
	}
	return v1, v2
}

// cgroupMounts finds what has quotas in the text of /proc/self/mountinfo, or
// names the usual places where the text has nothing.
func cgroupMounts(text string) []cgroupMount {
	var out []cgroupMount
	for line := range strings.Lines(text) {
		// id, parent, device, root, point, options, optional fields, "-", type,
		// source, options of the file system
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash < 6 || len(f) < dash+4 {
			continue
		}
		m := cgroupMount{v2: f[dash+1] == "cgroup2", root: unescape(f[3]), point: unescape(f[4])}
		if m.v2 || f[dash+1] == "cgroup" && slices.Contains(strings.Split(f[dash+3], ","), "cpu") {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return []cgroupMount{{true, "/", "/sys/fs/cgroup"}, {false, "/", "/sys/fs/cgroup/cpu"}}
	}
	return out
}

// unescape puts the characters back that mountinfo writes as octal numbers:
// space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func quotaV2(dir string) int {
	f := strings.Fields(readSome(filepath.Join(dir, "cpu.max")))
	if len(f) != 2 {
		return 0
	}
	return quotaCores(f[0], f[1])
}

func quotaV1(dir string) int {
	return quotaCores(strings.TrimSpace(readSome(filepath.Join(dir, "cpu.cfs_quota_us"))), strings.TrimSpace(readSome(filepath.Join(dir, "cpu.cfs_period_us"))))
}

// quotaCores is ceil(quota/period); "max" and negative quotas mean no limit.
func quotaCores(quota, period string) int {
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return int(min((q-1)/p+1, math.MaxInt32))
}

// readSome is the beginning of a file; "" where it cannot be read.
func readSome(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, cgroupFile))
	if err != nil {
		return ""
	}
	return string(b)
}
