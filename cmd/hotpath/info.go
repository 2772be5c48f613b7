package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/engine"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
)

// machine is what info prints.
type machine struct {
	CPU       string             `json:"cpu"`
	Arch      string             `json:"arch"`
	OS        string             `json:"os"`
	Go        string             `json:"go"`
	Cores     int                `json:"cores"` // that this process may use
	Limited   bool               `json:"cores_limited_by_cgroup,omitempty"`
	Threads   int                `json:"threads"`
	Tier      string             `json:"tier"`
	Tiers     []string           `json:"tiers"` // available
	Features  []string           `json:"features,omitempty"`
	L1D       int                `json:"l1d_bytes"`
	L2        int                `json:"l2_bytes"`
	L3        int                `json:"l3_bytes"`
	FLOPs     float64            `json:"f32_flops_per_s"`             // measured with all threads
	Classes   map[string]float64 `json:"class_flops_per_s,omitempty"` // of compute classes besides f32
	Bandwidth float64            `json:"read_bytes_per_s"`
	Parallel  *parallel          `json:"parallel"`
	GPUs      []string           `json:"gpus"`
	Devices   []deviceInfo       `json:"devices,omitempty"`
	cards     []engine.Card
	noGPUs    []string // why there are none of a kind
}

func newInfo(std streams) *cobra.Command {
	var format formatFlag
	var threads int
	var anew bool
	var device string
	cmd := &cobra.Command{
		Use:   "info",
		Short: "This machine: CPU, tier in use, caches, threads, measured ceilings",
		Long: `This machine: CPU, tier in use, caches, threads, and its ceilings, measured now:
multiply-adds from registers and reads from memory, all threads together. The
environment variable HOTPATH_CPU forces a lesser tier.

The cost of sharing work among threads is measured once, in under a second, and
kept in the user's cache. embed --parallel auto decides by it. --calibrate
measures it again; HOTPATH_CALIBRATION=off uses built-in figures and neither
reads nor keeps any.

Cards are listed with their measured rates, which are kept too, per card and driver.
--device auto decides by them. With --device the named card is opened, and the memory
that its driver was asked for is counted.`,
		Example: `  hotpath info
  hotpath info --format json
  hotpath info --calibrate
  HOTPATH_CPU=generic hotpath info --threads 1`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := isa.Err(); err != nil {
				return err
			}
			if device != "" {
				return infoOfDevice(cmd.Context(), std, device, anew, format.value)
			}
			m := describeMachine(cmd.Context(), threads)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			var err error
			if m.Parallel, err = describeParallel(cmd.Context(), m.Threads, anew); err != nil {
				return err
			}
			if m.Devices, err = describeDevices(cmd.Context(), m.cards, anew, false); err != nil {
				return err
			}
			if format.value == "json" {
				return document(std.out, m)
			}
			return m.print(std.out)
		},
	}
	format.addFlag(cmd, "text", "json")
	addThreads(cmd, &threads, "measure with `N` threads; 0 for one a core")
	cmd.Flags().BoolVar(&anew, "calibrate", false, "measure the cost of sharing work among threads, and cards, again, and keep it")
	cmd.Flags().Var(filledFlag{&device, cardNames()}, "device", "open the card `DEVICE` (cuda, cuda:1, opencl) and show its memory")
	return cmd
}

func describeMachine(ctx context.Context, threads int) machine {
	host := isa.Host()
	if threads == 0 {
		threads = isa.Threads()
	}
	m := machine{
		CPU: host.Brand, Arch: runtime.GOARCH, OS: runtime.GOOS, Go: runtime.Version(),
		Cores: host.Cores, Limited: host.CgroupLimited, Threads: threads,
		Tier: isa.Active().String(), Features: host.Features,
		L1D: host.L1D, L2: host.L2, L3: host.L3,
		GPUs: []string{},
	}
	m.cards, m.noGPUs = engine.AllCards()
	for _, c := range m.cards {
		m.GPUs = append(m.GPUs, c.Device+" "+c.Words)
	}
	for _, t := range isa.Available() {
		m.Tiers = append(m.Tiers, t.String())
	}
	c := ceiling.Measure(ctx, threads)
	m.FLOPs, m.Bandwidth, m.Classes = c.F32, c.Read, c.Class
	return m
}

func (m machine) print(w io.Writer) error {
	limited := ""
	if m.Limited {
		limited = " (limited by a cgroup)"
	}
	rows := [][2]string{
		{"cpu", m.CPU},
		{"system", m.OS + "/" + m.Arch + ", " + m.Go},
		{"cores", fmt.Sprint(m.Cores, limited)},
		{"threads", fmt.Sprint(m.Threads)},
		{"tier", m.Tier + " of " + strings.Join(m.Tiers, ", ")},
		{"features", strings.Join(m.Features, " ")},
		{"caches", m.caches()},
		{"f32", fmt.Sprintf("%.1f GFLOP/s measured", m.FLOPs/1e9)},
	}
	for _, class := range slices.Sorted(maps.Keys(m.Classes)) {
		rows = append(rows, [2]string{class, fmt.Sprintf("%.1f GFLOP/s measured", m.Classes[class]/1e9)})
	}
	rows = append(rows, [2]string{"memory", fmt.Sprintf("%.1f GB/s read measured", m.Bandwidth/1e9)})
	rows = append(rows, m.Parallel.rows()...)
	name := "gpus"
	for _, d := range m.Devices {
		rows, name = append(rows, d.rows(name)...), ""
	}
	for _, none := range m.noGPUs {
		rows, name = append(rows, [2]string{name, none}), ""
	}
	if name != "" {
		rows = append(rows, [2]string{name, "none in this build"})
	}
	return table(w, rows)
}

// caches leaves out what the system does not say.
func (m machine) caches() string {
	var parts []string
	for _, c := range []struct {
		name  string
		bytes int
	}{{"L1d", m.L1D}, {"L2", m.L2}, {"L3", m.L3}} {
		if c.bytes > 0 {
			parts = append(parts, c.name+" "+size(int64(c.bytes)))
		}
	}
	return strings.Join(parts, ", ")
}
