package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"hotpath/profile"
)

func TestExportByEnding(t *testing.T) {
	p, dir := fixture(t), t.TempDir()
	for _, e := range Exporters() {
		path := filepath.Join(dir, "run"+e.Ending)
		if err := Export(path, p); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := e.Write(&want, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s was written by another exporter", path)
		}
	}
	err := Export(filepath.Join(dir, "run.docx"), p)
	if err == nil {
		t.Fatal("an unknown ending was written")
	}
	for _, e := range Exporters() {
		if !strings.Contains(err.Error(), e.Ending) {
			t.Errorf("error %v does not list %s", err, e.Ending)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "run.docx")); err == nil {
		t.Error("a file of an unknown ending appeared")
	}
}

func TestPprofValues(t *testing.T) {
	p := fixture(t)
	var b bytes.Buffer
	if err := writePprof(&b, p); err != nil {
		t.Fatal(err)
	}
	got, err := pprof.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, v := range got.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	if s := strings.Join(types, " "); s != "samples/count time/nanoseconds bytes/bytes flops/count" || got.DefaultSampleType != "time" {
		t.Errorf("sample types %s, default %s", s, got.DefaultSampleType)
	}
	var time, flops, request int64
	stacks := map[string]int64{}
	for _, s := range got.Sample {
		time += s.Value[1]
		flops += s.Value[3]
		if slices.Contains(s.Label["request"], "req-1") {
			request += s.Value[1]
		}
		var frames []string
		for _, l := range s.Location {
			frames = append(frames, l.Line[0].Function.Name)
		}
		stacks[strings.Join(frames, " < ")] += s.Value[1]
	}
	if time != p.Ledger.LaneTime || flops != 4*30_208_000 {
		t.Errorf("samples add up to %d ns and %d FLOPs, want %d and %d", time, flops, p.Ledger.LaneTime, 4*30_208_000)
	}
	// One of four equal runs served req-1: its compute and its waits.
	if want := (p.Plans[0].Ledger.Compute + p.Plans[0].Ledger.Barrier) / 4; request != want {
		t.Errorf("req-1 has %d ns, want %d", request, want)
	}
	for stack, want := range map[string]int64{
		"gemm_bf16 < linear < q_proj < attn < blk.0 < mini":   139_800,
		"gemm_bf16 < rope < attn < blk.0 < mini":              69_900,
		"(barrier wait) < linear < qkv < attn < blk.0 < mini": 4_000,
		"pool_f32 < pool < mini":                              24_000,
		"k1 < linear < up < ffn < blk.0 < mini":               50_000,
		"(dispatch) < mini":                                   12_000,
		"(residual) < mini":                                   90_000,
	} {
		if stacks[stack] != want {
			t.Errorf("%s has %d ns, want %d", stack, stacks[stack], want)
		}
	}
}

// All stacks together are the ledger, and a residual below zero is among them.
func TestEachStack(t *testing.T) {
	p := fixture(t)
	total := func() (time int64, stacks map[string]int64) {
		stacks = map[string]int64{}
		profile.EachStack(p, func(s *profile.StackSample) {
			time += s.Time
			stacks[strings.Join(s.Frames, ";")] += s.Time
			if s.Phase == "" || (s.Op == "") != strings.Contains("(dispatch) (idle) (residual)", s.Frames[len(s.Frames)-1]) {
				t.Errorf("%v: op %q", s.Frames, s.Op)
			}
		})
		return time, stacks
	}
	time, stacks := total()
	if time != p.Ledger.LaneTime || stacks["mini;(residual)"] != 90_000 || stacks["mini;blk.0;attn;q_proj;linear;gemm_bf16"] != 139_800 {
		t.Errorf("%d ns, want %d: %v", time, p.Ledger.LaneTime, stacks)
	}
	for i := range p.Plans {
		p.Plans[i].Ledger.Residual = -500
	}
	if _, stacks = total(); stacks["mini;(residual)"] != -1000 {
		t.Errorf("the residuals of -500 add up to %d", stacks["mini;(residual)"])
	}
}

// What people type: the tool itself must read our files.
func TestGoToolPprof(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to run pprof with")
	}
	dir := t.TempDir()
	p := fixture(t)
	a, b := filepath.Join(dir, "a.pprof"), filepath.Join(dir, "b.pprof")
	if err := Export(a, p); err != nil {
		t.Fatal(err)
	}
	st := &p.Plans[0].Stats[3]
	st.LaneCompute[0] += 1_000_000
	if err := Export(b, p); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command(goTool, append([]string{"tool", "pprof"}, args...)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go tool pprof %v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-raw", a}, `samples/count time/nanoseconds\[dflt\] bytes/bytes flops/count`},
		{[]string{"-top", "-nodecount=100", a}, `(?m)^Type: time$(.|\n)*515\.60us 51\.56% .* gemm_bf16\n`},
		{[]string{"-top", "-sample_index=flops", a}, `(?m)^ *112000000 .* gemm_bf16$`},
		{[]string{"-top", "-tagfocus=layer=1", a}, `236us 23\.60% .* gemm_bf16`},
		{[]string{"-top", "-tagfocus=layer=0", a}, `for 534\.20us, 53\.42% of`},
		{[]string{"-top", "-tagfocus=layer=0:1", a}, `for 773\.80us, 77\.38% of`},
		{[]string{"-traces", "-tagroot=layer", a}, `(?m)^ +blk\.0\n +mini\n +0$`},
		{[]string{"-top", "-tagfocus=request=req-1", a}, `183\.50us, 18\.35% of`},
		{[]string{"-tags", a}, `(?s)device: .*layer: .*op: .*phase: .*request: `},
		{[]string{"-traces", "-tagroot=phase", a}, `(?m)^ +mini\n +embed$`},
		{[]string{"-top", "-diff_base=" + a, b}, `(?m)^ +1ms .* gemm_bf16$`},
	} {
		if out := run(c.args...); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("pprof %v printed\n%s\nwant a match of %s", c.args[:len(c.args)-1], out, c.want)
		}
	}
}

type traceEvent struct {
	Ph, Name, Cat, ID string
	Pid, Tid          int
	Ts, Dur           float64
	Args              map[string]any
}

// thousandths gives back the nanoseconds.
func thousandths(us float64) int64 { return int64(us*1000 + 0.5) }

func TestTrace(t *testing.T) {
	p := fixture(t)
	var b bytes.Buffer
	if err := zipped(writeTrace)(&b, p); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	threads := map[[2]int][]traceEvent{}
	async := map[string]int{}
	var computed, waited int64
	for _, e := range doc.TraceEvents {
		kinds[e.Ph]++
		switch e.Ph {
		case "X":
			threads[[2]int{e.Pid, e.Tid}] = append(threads[[2]int{e.Pid, e.Tid}], e)
			if e.Name == "barrier wait" {
				waited += thousandths(e.Dur)
			} else if _, ok := e.Args["kernel"]; ok {
				computed += thousandths(e.Dur)
			}
		case "b":
			async[e.Cat+e.ID]++
		case "e":
			async[e.Cat+e.ID]--
		}
	}
	for id, n := range async {
		if n != 0 {
			t.Errorf("async %s is not closed", id)
		}
	}
	// The overlapping kernel of the device is asynchronous, the rest is not.
	if want := p.Ledger.Compute - 45_000; computed != want || waited != p.Ledger.Barrier {
		t.Errorf("trace has %d ns of steps and %d of waits, want %d and %d", computed, waited, want, p.Ledger.Barrier)
	}
	if kinds["b"] != 3+1 || kinds["n"] != 3 || kinds["C"] != 5+2 || kinds["M"] == 0 {
		t.Errorf("kinds of events: %v", kinds)
	}
	for thread, events := range threads {
		checkNesting(t, thread, events)
	}
	if len(threads) != 4+2 { // lanes, and two rows of scopes that overlap
		t.Errorf("%d threads, want 6", len(threads))
	}
}

func checkNesting(t *testing.T, thread [2]int, events []traceEvent) {
	t.Helper()
	slices.SortStableFunc(events, func(a, b traceEvent) int {
		return cmp.Or(cmp.Compare(a.Ts, b.Ts), cmp.Compare(b.Dur, a.Dur))
	})
	var open []traceEvent
	for _, e := range events {
		start, end := thousandths(e.Ts), thousandths(e.Ts)+thousandths(e.Dur)
		for len(open) > 0 {
			top := open[len(open)-1]
			if thousandths(top.Ts)+thousandths(top.Dur) > start {
				break
			}
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			if top := open[len(open)-1]; thousandths(top.Ts)+thousandths(top.Dur) < end {
				t.Errorf("thread %v: %s overlaps %s", thread, e.Name, top.Name)
			}
		}
		open = append(open, e)
	}
}

// Workers that run by themselves are drawn side by side: no run lies across
// another.
func TestTraceOfRunsSideBySide(t *testing.T) {
	rec := profile.NewRecorder(profile.Options{})
	h := mustPlan(t, rec, coarsePlan("coarse"))
	for i := range int64(3) {
		stampWhole(t, h, 1+1000*i, 1001+1000*i, profile.Cost{})
		stampWhole(t, h, 501+1000*i, 1501+1000*i, profile.Cost{})
	}
	var b bytes.Buffer
	if err := writeTrace(&b, rec.Snapshot()); err != nil {
		t.Fatal(err)
	}
	var doc struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	steps := map[any]int{}
	for _, e := range doc.TraceEvents {
		if e.Ph == "b" {
			t.Errorf("%s has no thread of its own", e.Name)
		}
		if e.Ph == "X" && e.Cat == "linear" {
			steps[e.Tid]++
		}
	}
	if len(steps) != 2 {
		t.Errorf("steps by thread: %v, want three on each of two", steps)
	}
}
