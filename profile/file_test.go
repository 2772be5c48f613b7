package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func encode(t testing.TB, p *Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	p := fixture(t)
	path := filepath.Join(t.TempDir(), "run.json")
	if err := p.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, p) {
		t.Error("what was read back is not what was written")
	}
	if !bytes.Equal(encode(t, got), encode(t, p)) {
		t.Error("and encodes otherwise")
	}
	empty := NewRecorder(Options{}).Snapshot()
	if _, err := Read("empty", encode(t, empty)); err != nil {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	good := string(encode(t, fixture(t)))
	replace := func(old, replaced string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the fixture has no %s", old)
		}
		return strings.Replace(good, old, replaced, 1)
	}
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "the file is empty"},
		{"spaces", " \n\t", "the file is empty"},
		{"truncated", good[:len(good)/2], "it ends at byte"},
		{"one byte", "{", "it is truncated: it ends at byte 1 within a value"},
		{"a stray byte at the end", strings.TrimSpace(good) + "x", "invalid character 'x' after top-level value"},
		{"a wrong byte at the end", `{"format"}`, "byte 10: invalid character '}' after object key"},
		{"within a string", good[:strings.Index(good, "hotpath")+3], "within a value"},
		{"compressed", "\x1f\x8b\x08\x00null", `begins with "\x1f\x8b\b\x00null", expected a JSON object`},
		{"two bytes a letter", "\xff\xfe{\x00", "begins with"},
		{"array", "[" + good + "]", `begins with "[`},
		{"string", `"hotpath-profile"`, "expected a JSON object"},
		{"two documents", good + good, "after top-level value"},
		{"not a number", replace(`"runs":4`, `"runs":NaN`), "byte "},
		{"version of words", replace(`"version":4`, `"version":"3"`), "field version: string, expected a whole number"},
		{"version of parts", replace(`"version":4`, `"version":2.5`), "field version: number 2.5, expected a whole number"},
		{"beyond an integer", replace(`"step_stats":[{"calls":4`, `"step_stats":[{"calls":18446744073709551616`), "field plans.step_stats.calls: number 18446744073709551616, expected a whole number"},
		{"plans", `{"format":"hotpath-profile","version":1,"plans":{}}`, "field plans: object, expected an array"},
		{"facts", `{"format":"hotpath-profile","version":1,"facts":[]}`, "field facts: array, expected an object"},
		{"name", `{"format":"hotpath-profile","version":1,"facts":{"cpu":7}}`, "field facts.cpu: number, expected a string"},
		{"depth", `{"format":"hotpath-profile","version":1,"x":` + strings.Repeat("[", 20000), "exceeded max depth"},
		{"sum of steps", regexp.MustCompile(`"flops":\d+`).ReplaceAllString(good, `"flops":4611686018427387904`), "expected sums over all steps of at most"},
		{"sum of walls", regexp.MustCompile(`"wall_ns":\d+`).ReplaceAllString(good, `"wall_ns":4611686018427387904`), "ledger.wall_ns is 4611686018427387904, expected at most 1152921504606846976"},
		{"span", replace(`"span":{"count":4`, `"span":{"count":-4`), "plans[0].step_stats[0].span.count is -4, expected 0 or more"},
		{"run", replace(`"run":{"count":4`, `"run":{"count":-4`), "plans[0].run.count is -4"},
		{"call of a scope", replace(`"call":{"count":`, `"call":{"count":-`), "scopes[0].call.count is -1"},
		{"duration", replace(`"duration":{"count":3`, `"duration":{"count":-3`), "requests.duration.count is -3"},
		{"part of a request", replace(`"requests":{`, `"requests":{"parts":[{"request":"a","runs":-1}],`), "requests.parts[0].runs is -1"},
		{"part beyond numbers", replace(`"requests":{`, `"requests":{"parts":[{"request":"a","time_ns":1e308}],`), "requests.parts[0].time_ns is 1e+308"},
		{"share of a run", replace(`"raw_runs":[{"plan":0`, `"raw_runs":[{"shares":[{"request":"a","tokens":-5}],"plan":0`), "raw_runs[0].shares[0].tokens is -5"},
		{"overhead", replace(`"overhead":{"with_ns":`, `"overhead":{"with_ns":-`), "overhead.with_ns is -1004000"},
		{"memory", replace(`"memory_bytes":{"weights":94371840`, `"memory_bytes":{"a":-1,"weights":94371840`), `memory_bytes["a"] is -1`},
		{"held", replace(`"held_bytes":99614720`, `"held_bytes":-1`), "resident.owners[0].held_bytes is -1, expected 0 or more"},
		{"less held than resident", replace(`"held_bytes":99614720`, `"held_bytes":94371839`), `resident: "weights, packed" has held_bytes 94371839, expected at least 94371840, the bytes that are resident, or none`},
		{"sum of held", replace(`"held_bytes":99614720},{"owner":"(not known)","bytes":10485760`, `"held_bytes":1152921504606846976},{"owner":"(not known)","held_bytes":10485760,"bytes":10485760`),
			`resident: "(not known)" has held_bytes 10485760, expected a sum of at most 1152921504606846976`},
		{"collector", replace(`"gc_cycles":`, `"gc_cycles":-1,"was":`), "go.gc_cycles is -1"},
		{"buffers", replace(`"buffers":[`, `"buffers":[{"name":"a","bytes":1152921504606846976},{"name":"b","bytes":1152921504606846976},`), "plans[0]: buffers[1]: bytes is 1152921504606846976, expected a sum of at most 1152921504606846976"},
		{"other format", `{"format":"chrome"}`, `field format is "chrome", expected "hotpath-profile"`},
		{"newer", replace(`"version":4`, `"version":5`), "field version is 5, this program reads up to 4"},
		{"no version", replace(`"version":4`, `"version":0`), "field version is 0, expected 1 to 4"},
		{"wrong type", replace(`"runs":4`, `"runs":"four"`), ": string, expected a whole number"},
		{"null", replace(`"runs":4`, `"runs":null`), "null at byte"},
		{"many empty records", `{"format":"hotpath-profile","version":1,"plans":[` + strings.Repeat("{},", 1000) + `{}]}`, "1002 records in"},
		{"step id", replace(`{"id":1,"name":"blk.0/attn/qkv"`, `{"id":9,"name":"blk.0/attn/qkv"`), "plans[0]: profile: invalid plan"},
		{"lane count", replace(`"lanes":["worker 0","worker 1"]`, `"lanes":["worker 0"]`), "by_lane has 2"},
		{"plan of a run", replace(`"raw_runs":[{"plan":0`, `"raw_runs":[{"plan":5`), "raw_runs[0]: plan 5, expected one of 2"},
		{"slots of a run", replace(`"arrive_ns":[`, `"arrive_ns":[7,`), "6, 5, 5 stamps"},
		{"scope parent", replace(`"id":1,"parent":0`, `"id":1,"parent":1`), "scopes[1]"},
		{"scope event", replace(`"raw_scopes":[{"scope":1`, `"raw_scopes":[{"scope":100`), "raw_scopes[0]"},
		{"ceiling", replace(`"bytes_per_s":25000000000`, `"bytes_per_s":-1`), `ceilings["cpu"]`},
		{"one lane", replace(`"one_lane":{"flops_per_s":110000000000`, `"one_lane":{"flops_per_s":-1`), `ceilings["cpu"].one_lane.flops_per_s is -1`},
		{"lanes", replace(`"lanes":2`, `"lanes":-2`), `ceilings["cpu"].lanes is -2`},
		{"elapsed", replace(`"elapsed_ns":400000`, `"elapsed_ns":400001`), "plans[0]: elapsed_ns is 400001, expected 0 to 400000, the wall time of all runs"},
		{"end before start", replace(`"start_ns":1,"end_ns":3000000`, `"start_ns":5,"end_ns":4`), "start_ns is 5 and end_ns 4"},
		{"a start below 0", replace(`"start_ns":1,"end_ns":3000000`, `"start_ns":-5,"end_ns":4`), "start_ns is -5"},
		{"wall of all", replace(`"ledger":{"runs":5,"wall_ns":`, `"ledger":{"runs":5,"wall_ns":-`), "profile: ledger.wall_ns is -500000"},
		{"wall of a plan", replace(`"ledger":{"runs":4,"wall_ns":`, `"ledger":{"runs":4,"wall_ns":-`), "plans[0].ledger.wall_ns is -400000"},
		{"wall of a lane", replace(`"lane":"worker 1","runs":4,"wall_ns":`, `"lane":"worker 1","runs":4,"wall_ns":-`), "plans[0].by_lane[1].wall_ns is -400000"},
		{"no time with runs", regexp.MustCompile(`"elapsed_ns":500000`).ReplaceAllString(good, `"elapsed_ns":0`), "elapsed_ns is 0 with 5 runs of "},
		{"no time of a plan", replace(`"elapsed_ns":400000`, `"elapsed_ns":0`), "plans[0]: elapsed_ns is 0 with runs of 400000 ns"},
		{"elapsed of all", replace(`"elapsed_ns":`, `"elapsed_ns":-`), "elapsed_ns is -"},
		{"sample", replace(`"steps":[{"compute_ns":[`, `"steps":[{"compute_ns":[-`), "plans[0].samples.steps[0].compute_ns[0] is -6800"},
		{"sampled wall", replace(`"samples":{"every":1,"wall_ns":[`, `"samples":{"every":1,"wall_ns":[-`), "plans[0].samples.wall_ns[0] is -100000"},
		{"costs of a run", replace(`}],"flops":[`, `}],"flops":[-1`), "raw_runs[0].flops[0] is -10"},
		{"calls", replace(`"step_stats":[{"calls":4`, `"step_stats":[{"calls":-4`), "plans[0].step_stats[0].calls is -4, expected 0 or more"},
		{"lane time", replace(`"lane_compute_ns":[`, `"lane_compute_ns":[-1`), "plans[0].step_stats[0].lane_compute_ns[0] is -115600"},
		{"ledger", replace(`"runs":4`, `"runs":-4`), "plans[0].ledger.runs is -4"},
		{"heap", replace(`"step_stats":[{"calls":4`, `"step_stats":[{"heap":{"objects":-1,"bytes":8},"calls":4`), "plans[0].step_stats[0].heap.objects is -1"},
		{"scope", replace(`"scopes":[{"id":0,`, `"scopes":[{"id":0,"open":-1,`), "scopes[0].open is -1"},
		{"samples", replace(`"samples":{"every":1,"wall_ns":[`, `"samples":{"every":1,"wall_ns":[1,`), "plans[0]: samples: 5 walls"},
		{"stamps before a run", replace(`1060900,0],"begin_ns":[1003000,1006000,1042000,1061000,0],"end_ns":[1005900,1041900,1060800,1091000,0]`,
			`1060900,0],"begin_ns":[1003000,1006000,1042000,1061000,3],"end_ns":[1005900,1041900,1060800,1091000,2]`),
			"raw_runs[0]: lanes[1]: step 4: arrive 0, begin 3, end 2, expected 0 or no earlier than start_ns, 1000000"},
		{"waits", replace(`"lane_wait_ns":[0,0]`, `"lane_wait_ns":[1000000,0]`), "plans[0]: the sum of lane_wait_ns over all steps is too large"},
		{"request", replace(`"first_token_ns":1200000`, `"first_token_ns":1`), "requests.raw[0]"},
	} {
		_, err := Read("bad.json", []byte(c.data))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bad.json: ") {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Waits of many steps do not wrap to a sum that is not below 0.
func TestLeastDoesNotWrap(t *testing.T) {
	part := newPart(-1, 12)
	for k := range part.Wait {
		part.Wait[k] = most
	}
	if v := part.least(); v >= 0 {
		t.Errorf("waits of 12 steps of %d ns each, and none in the ledger: the least value is %d", int64(most), v)
	}
}

// Recorders of earlier builds wrote numbers that are a little beyond what is written
// now. Their files are read, with the numbers as they would be written now.
func TestReadFilesOfEarlierBuilds(t *testing.T) {
	for _, c := range []struct {
		name      string
		spoil     func(*Profile)
		got, want func(*Profile) float64
	}{
		{"time without a processor", func(p *Profile) {
			s := &p.Plans[0]
			more := s.ByLane[1].LaneTime + 5 - s.ByLane[1].OffCPU
			s.ByLane[1].OffCPU, s.Ledger.OffCPU, p.Ledger.OffCPU = s.ByLane[1].OffCPU+more, s.Ledger.OffCPU+more, p.Ledger.OffCPU+more
		}, func(p *Profile) float64 { return float64(p.Plans[0].ByLane[1].OffCPU) }, func(p *Profile) float64 { return float64(p.Plans[0].ByLane[1].LaneTime) }},
		{"time on other threads", func(p *Profile) {
			s := &p.Plans[0]
			more := s.ByLane[0].LaneTime + 5 - s.ByLane[0].Blind
			s.ByLane[0].Blind, s.Ledger.Blind, p.Ledger.Blind = s.ByLane[0].Blind+more, s.Ledger.Blind+more, p.Ledger.Blind+more
		}, func(p *Profile) float64 { return float64(p.Plans[0].ByLane[0].Blind) }, func(p *Profile) float64 { return float64(p.Plans[0].ByLane[0].LaneTime) }},
		{"time of a request", func(p *Profile) { p.Requests.Parts[0].Time = -5.5 },
			func(p *Profile) float64 { return p.Requests.Parts[0].Time }, func(*Profile) float64 { return 0 }},
		{"memory of a device", func(p *Profile) { p.Devices[0].Held = p.Devices[0].Used - 1 },
			func(p *Profile) float64 { return float64(p.Devices[0].Held) }, func(p *Profile) float64 { return float64(p.Devices[0].Used) }},
		{"longest pause", func(p *Profile) { p.Go.LongPause = p.Go.Pause + 1 },
			func(p *Profile) float64 { return float64(p.Go.LongPause) }, func(p *Profile) float64 { return float64(p.Go.Pause) }},
	} {
		p := filled(t)
		c.spoil(p)
		if c.got(p) == c.want(p) || p.check() == nil {
			t.Errorf("%s: it is what recorders write now", c.name)
		}
		read, err := Read("old.json", encode(t, p))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got, want := c.got(read), c.want(read); got != want {
			t.Errorf("%s: %v, expected %v", c.name, got, want)
		}
	}
}

// FuzzRead: whatever Read accepts, every exporter can write, and it is read
// back the same.
func FuzzRead(f *testing.F) {
	good := encode(f, fixture(f))
	f.Add(good)
	f.Add(encode(f, NewRecorder(Options{}).Snapshot()))
	f.Add(good[:len(good)/3])
	f.Add([]byte(`{"format":"hotpath-profile","version":1}`))
	f.Add([]byte(`{"format":"hotpath-profile","version":99,"plans":7}`))
	f.Add([]byte(`{"format":"hotpath-profile","version":1,"plans":[{"id":"a","lanes":["x"],"steps":[{"id":0}],"by_lane":[{"lane":"x"}],"step_stats":[{"lane_compute_ns":[0],"lane_wait_ns":[0]}]}]}`))
	f.Add(encode(f, filled(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := Read("some file", data)
		runtime.ReadMemStats(&after)
		// Twenty times the size is what a file of the smallest records takes.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+256*len(data)); got > most {
			t.Errorf("%d bytes are read with %d bytes of memory, expected at most %d", len(data), got, most)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), "some file: ") {
				t.Errorf("error %v is no ErrFormat of the file", err)
			}
			return
		}
		if err := Readers.EachFormat(p); err != nil {
			t.Error(err)
		}
		if err := Readers.Compare(io.Discard, p, p); err != nil {
			t.Error(err)
		}
		again, err := Read("again", encode(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := encode(t, p), encode(t, again); !bytes.Equal(a, b) {
			t.Errorf("written once\n%s\ntwice\n%s", a, b)
		}
	})
}

// TestReadMemory holds Read to the size of the file: records are larger in
// memory than in a file that leaves their fields out.
func TestReadMemory(t *testing.T) {
	for _, field := range []string{"plans", "rounds", "scopes", "counters", "raw_runs", "raw_scopes", "warnings"} {
		record := `{"name":"aaaaaaaa"},`
		if field == "warnings" {
			record = `"",`
		}
		data := []byte(fmt.Sprintf(`{"format":%q,"version":%d,%q:[%s]}`, Format, Version, field, strings.TrimSuffix(strings.Repeat(record, 100_000), ",")))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read("f", data)
		runtime.ReadMemStats(&after)
		// A slice that grows leaves about as much behind as it has in the end.
		if made, limit := after.TotalAlloc-before.TotalAlloc, uint64(50*len(data)); made > limit {
			t.Errorf("%s: %d bytes allocated for a file of %d, expected at most %d (%v)", field, made, len(data), limit, err)
		}
	}
}
