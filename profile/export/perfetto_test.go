package export

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"hotpath/profile"
)

// Perfetto's own trace processor, in its own user interface, reads every event
// of ours and complains of none.
func TestTraceInPerfetto(t *testing.T) {
	ui := filepath.Join("..", "..", ".cache", "perfetto")
	if _, err := os.Stat(filepath.Join(ui, "index.html")); err != nil {
		t.Skip("no Perfetto here: make browser fetches it")
	}
	ctx := browser(t)
	p := fixture(t)
	shareRuns(p)
	var trace, zip bytes.Buffer
	if err := writeTrace(&trace, p); err != nil {
		t.Fatal(err)
	}
	if err := zipped(writeTrace)(&zip, p); err != nil {
		t.Fatal(err)
	}
	want := countEvents(t, trace.Bytes())
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(ui)))
	for name, data := range map[string][]byte{"/ours.json": trace.Bytes(), "/ours.json.gz": zip.Bytes()} {
		mux.HandleFunc(name, func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, file := range []string{"/ours.json", "/ours.json.gz"} {
		do(ctx, t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#!/?url="+server.URL+file),
			chromedp.Poll(`window.app && app.trace && app.trace.engine`, nil, chromedp.WithPollingTimeout(time.Minute)))
		count := func(query string) int {
			var n int
			script := fmt.Sprintf(`(async () => { const r = await app.trace.engine.query(%q); return Number(r.firstRow({n: 0}).n); })()`, query)
			do(ctx, t, chromedp.Evaluate(script, &n, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			return n
		}
		for what, query := range map[string]string{
			"slices":   "select count(*) as n from slice where category is not null or dur >= 0",
			"counters": "select count(*) as n from counter c join track t on c.track_id = t.id where t.name glob '*tok/s*' or t.name glob '*kv blocks*' or t.name glob '*resident memory*'",
			"flows":    "select count(*) as n from flow",
			"threads":  "select count(distinct name) as n from thread where name is not null and name != 'swapper'",
			"errors":   "select cast(coalesce(sum(value), 0) as int) as n from stats where severity = 'error' and value > 0",
		} {
			if got := count(query); got != want[what] {
				t.Errorf("%s: Perfetto has %d %s, the trace has %d", file, got, what, want[what])
			}
		}
	}
}

// countEvents is how many of each the trace has: a slice is an X, or a pair of b
// and e, and an n within one is an instant slice.
func countEvents(t *testing.T, trace []byte) map[string]int {
	t.Helper()
	var doc struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(trace, &doc); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{"errors": 0}
	threads := map[any]bool{}
	for _, e := range doc.TraceEvents {
		switch e.Ph {
		case "X", "b", "n":
			n["slices"]++
		case "t", "f": // each ends an arrow
			n["flows"]++
		case "C":
			n["counters"]++
		case "M":
			if e.Name == "thread_name" {
				threads[e.Args["name"]] = true
			}
		}
	}
	n["threads"] = len(threads)
	return n
}

// A million events take less than 50 MB, compressed. Without HOTPATH_LONG, which
// make browser-test sets, it is a tenth of both.
func TestMillionEventsAreSmall(t *testing.T) {
	wanted, most := 100_000, 5_000_000
	if os.Getenv("HOTPATH_LONG") != "" {
		wanted, most = 1_000_000, 50_000_000
	}
	rec := profile.NewRecorder(profile.Options{Events: wanted, Runs: wanted})
	plan := profile.Plan{ID: "decode/T1", Name: "decode T≤1", Backend: "cpu", Phase: "decode", Lanes: []string{"worker 0", "worker 1"}}
	for l := range 30 {
		for _, op := range []string{"norm", "linear", "rope", "attention", "linear", "add", "norm", "linear", "glu", "linear", "add"} {
			plan.Steps = append(plan.Steps, profile.Step{ID: len(plan.Steps), Name: fmt.Sprintf("blk.%d/%s_%d", l, op, len(plan.Steps)), Op: op, Kernel: op + "_bf16", Layer: l})
		}
	}
	h := mustPlan(t, rec, plan)
	now, seed := int64(1_000_000), uint32(1)
	for events := 0; events < wanted; events += 2 * len(plan.Steps) {
		r := h.Acquire()
		r.Start = now
		for i := range r.Lanes {
			l, at := &r.Lanes[i], now+int64(i)*300
			l.Wake = at
			for s := range plan.Steps {
				seed = seed*1664525 + 1013904223 // times as uneven as real ones
				l.Steps[s].Arrive, l.Steps[s].Begin = at, at
				at += int64(5_000 + seed>>18)
				l.Steps[s].End = at
				r.Costs[s] = profile.Cost{FLOPs: int64(1000 + s), Bytes: int64(400 + s)}
			}
			l.Done = at
			r.End = max(r.End, at+100)
		}
		now = r.End + 2_000
		r.Tokens = 1
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	var size counting
	z := gzip.NewWriter(&size)
	w := &traceWriter{w: newTraceBuffer(z)}
	w.write(rec.Snapshot())
	if w.err != nil {
		t.Fatal(w.err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if w.events < wanted || int(size) > most {
		t.Errorf("%d events take %d bytes, expected %d in at most %d", w.events, size, wanted, most)
	}
	t.Logf("%d events take %.1f MB", w.events, float64(size)/1e6)
}

// counting counts what is written to it.
type counting int

func (c *counting) Write(b []byte) (int, error) { *c += counting(len(b)); return len(b), nil }
