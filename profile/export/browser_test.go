package export

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"hotpath/internal/atomicfile"
	"hotpath/profile"
	"hotpath/profile/compare"
)

// browser starts a headless Chromium, or skips the test where there is none:
// make browser-test fetches one. What the page complains of, or asks for from
// the network, fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes its time")
	}
	path := ""
	for _, name := range []string{os.Getenv("HOTPATH_BROWSER"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if p, err := exec.LookPath(name); err == nil && name != "" {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium or Chrome here: scripts/fetch_browser.sh, or HOTPATH_BROWSER, makes this test run")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1400, 1000), chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute)))
	t.Cleanup(cancel)
	return ctx
}

// watch fails the test for exceptions, errors on the console, and requests that
// leave the machine.
func watch(ctx context.Context, t *testing.T) {
	var mu sync.Mutex
	ended := false
	t.Cleanup(func() { mu.Lock(); ended = true; mu.Unlock() })
	complain := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Errorf(format, args...)
		}
	}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			complain("exception: %s", ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError {
				complain("console: %s", ev.Args[0].Value)
			}
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
				complain("the page asks for %s", u)
			}
		}
	})
}

// show writes a page and opens it.
func show(ctx context.Context, t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".html")
	if err := atomicfile.Write(path, write); err != nil {
		t.Fatal(err)
	}
	watch(ctx, t)
	if err := chromedp.Run(ctx, network.Enable(), chromedp.Navigate("file://"+path), chromedp.WaitReady(`html[data-ready=yes]`, chromedp.ByQuery),
		// A click finds where things are before it comes: the page must not glide.
		chromedp.Evaluate(`document.documentElement.style.scrollBehavior = 'auto'`, nil)); err != nil {
		t.Fatal(err)
	}
	screenshot(ctx, t, name)
}

// screenshot keeps a picture of the page in HOTPATH_SCREENSHOTS, for people to
// look at.
func screenshot(ctx context.Context, t *testing.T, name string) {
	dir := os.Getenv("HOTPATH_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// is evaluates an expression in the page and wants it to be true.
func is(ctx context.Context, t *testing.T, what, expression string) {
	t.Helper()
	var got bool
	if err := chromedp.Run(ctx, chromedp.Evaluate(expression, &got)); err != nil || !got {
		t.Errorf("%s: %v %v (%s)", what, got, err, expression)
	}
}

func do(ctx context.Context, t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// Every part of the page is drawn and answers to pointer and keyboard.
func TestReportInBrowser(t *testing.T) {
	ctx := browser(t)
	p := fixture(t)
	show(ctx, t, "report", func(w io.Writer) error { return writeHTML(w, p) })
	for _, id := range []string{"overview", "flame", "tree", "timeline", "roofline", "memory", "steps", "scopes"} {
		is(ctx, t, "section "+id, `!!document.querySelector('section#`+id+`') && document.querySelector('#`+id+`').offsetHeight > 60`)
	}
	is(ctx, t, "cards", `document.querySelectorAll('.card').length >= 6`)
	is(ctx, t, "nothing is wider than the page", `document.documentElement.scrollWidth <= innerWidth`)

	// Flame graph: widths are to scale, zoom and search.
	is(ctx, t, "frames", `document.querySelectorAll('.flame g').length > 20`)
	is(ctx, t, "scale", `(() => { const r = n => +[...document.querySelectorAll('.flame g')].find(g => g.node.n === n && g.node.k === 'node').querySelector('rect').getAttribute('width'); return Math.abs(r('q_proj') / r('k_proj') - 2) < 0.02; })()`)
	do(ctx, t, chromedp.Evaluate(`[...document.querySelectorAll('.flame g')].find(g => g.node.n === 'blk.0').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil))
	is(ctx, t, "zoomed", `(() => { const g = [...document.querySelectorAll('.flame g')].find(g => g.node.n === 'blk.0'); return g.getBoundingClientRect().width > 0.98 * document.querySelector('.flame').getBoundingClientRect().width; })()`)
	is(ctx, t, "others are out of sight", `![...document.querySelectorAll('.flame g')].some(g => g.node.n === 'blk.1')`)
	do(ctx, t, chromedp.KeyEvent("\x1b")) // Escape, on the focused frame
	is(ctx, t, "Escape shows all", `[...document.querySelectorAll('.flame g')].some(g => g.node.n === 'blk.1')`)
	do(ctx, t, chromedp.KeyEvent("/"), chromedp.SendKeys(`#flame input`, "gemm", chromedp.ByQuery))
	is(ctx, t, "search", `/found, [0-9.]+ %/.test(document.querySelector('#flame .note').textContent) && document.querySelectorAll('.flame g.out').length > 5`)
	for _, metric := range []string{"lost", "bytes", "flops", "time"} {
		do(ctx, t, chromedp.Click(`#flame button[data-name=`+metric+`]`, chromedp.ByQuery))
		is(ctx, t, metric, `document.querySelectorAll('.flame g').length > 8 && document.querySelector('#flame button[data-name=`+metric+`]').getAttribute('aria-pressed') === 'true'`)
	}

	// Tree: keyboard.
	is(ctx, t, "tree", `document.querySelectorAll('.tree tbody tr').length >= 2`)
	do(ctx, t, chromedp.Evaluate(`window.before = document.querySelectorAll('.tree tbody tr').length; document.querySelector('.tree tbody tr').focus()`, nil),
		chromedp.KeyEvent("\u0302"), // ArrowDown
		chromedp.KeyEvent("\u0303"), // ArrowRight
	)
	do(ctx, t, chromedp.Evaluate(`document.querySelector('#tree button').click()`, nil))
	is(ctx, t, "open all", `document.querySelectorAll('.tree tbody tr').length > window.before + 10`)

	// Timeline: something is drawn in each lane, and n and p change the run.
	is(ctx, t, "timeline is drawn", `(() => { const c = document.querySelector('#timeline canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set(); for (let i = 0; i < d.length; i += 400) s.add(d[i] + ',' + d[i+1] + ',' + d[i+2]); return s.size > 4; })()`)
	do(ctx, t, chromedp.Evaluate(`window.run = document.querySelector('#timeline .note').textContent; document.querySelector('#timeline canvas').focus(); document.querySelector('#timeline canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'p', bubbles: true}))`, nil))
	is(ctx, t, "the run before", `document.querySelector('#timeline .note').textContent !== window.run`)
	is(ctx, t, "the tip", `(() => { const c = document.querySelector('#timeline canvas'), r = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + r.width / 3, clientY: r.top + 45, bubbles: true})); return document.getElementById('tip').classList.contains('on') && document.getElementById('tip').textContent.length > 5; })()`)

	// The clock of the wall: every kept run is there, time without one is marked,
	// a click shows the run.
	is(ctx, t, "all runs", `data.timeline.wall.runs.length === data.timeline.runs.length && data.timeline.wall.blanks.length > 0`)
	is(ctx, t, "the tip of a run on the wall clock", `(() => { const c = document.querySelector('#wall canvas'), r = c.getBoundingClientRect(); for (let x = 80; x < r.width; x += 3) { c.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + x, clientY: r.bottom - 40, bubbles: true})); if (/run [0-9]+/.test(document.getElementById('tip').textContent)) return true; } return false; })()`)
	is(ctx, t, "the tip of a blank", `(() => { const c = document.querySelector('#wall canvas'), r = c.getBoundingClientRect(); for (let x = 80; x < r.width; x += 3) { c.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + x, clientY: r.bottom - 40, bubbles: true})); if (/no run in flight|were not kept/.test(document.getElementById('tip').textContent)) return true; } return false; })()`)
	for view, want := range map[string]string{"merged": "attend", "ops": "linear", "layers": "blk.0"} {
		do(ctx, t, chromedp.Click(`#flame button[data-name=`+view+`]`, chromedp.ByQuery))
		is(ctx, t, "flame graph by "+view, `[...document.querySelectorAll('.flame g')].some(g => g.node.n === '`+want+`') && [...document.querySelectorAll('.flame g')].some(g => g.node.n === 'blk.1') === `+strconv.FormatBool(view == "layers"))
		is(ctx, t, "the whole is the same by "+view, `data.trees.every(t => t.root.t === data.trees[0].root.t)`)
	}
	is(ctx, t, "owners fit their column", `document.querySelector('.owners table').scrollWidth <= document.querySelector('.owners').clientWidth`)
	is(ctx, t, "bytes by layer", `document.querySelectorAll('#memory svg[aria-label="Bytes moved by layer"] rect').length >= 3`)

	is(ctx, t, "roofline", `document.querySelectorAll('.roofline .pt').length === 4 && document.querySelectorAll('.ceil').length === 3`)
	is(ctx, t, "memory", `document.querySelectorAll('#memory path').length >= 1 && /At the peak: blk.1.ffn.up/.test(document.querySelector('.owners').textContent)`)
	is(ctx, t, "names of ceilings lie within the picture", within(`.roofline .label`, `.roofline`))
	is(ctx, t, "a class of memory has the colour of its area", `[...document.querySelectorAll('#memory .chip')].filter(c => c.ariaPressed === 'true').some(c => getComputedStyle(c.querySelector('.dot')).backgroundColor === getComputedStyle(document.querySelector('#memory path')).fill)`)
	is(ctx, t, "all columns of steps are seen", `document.querySelector('#steps table').scrollWidth <= document.querySelector('#steps .scroll').clientWidth`)
	is(ctx, t, "the tree is opened as far as it says something", `window.before >= 8`)
	do(ctx, t, chromedp.Evaluate(`document.querySelector('#steps th.sort').click()`, nil))
	is(ctx, t, "sorted by name", `document.querySelector('#steps td').textContent === 'blk.0/attn/attend'`)
	do(ctx, t, chromedp.SendKeys(`#steps input`, "pool", chromedp.ByQuery))
	is(ctx, t, "filtered", `document.querySelectorAll('#steps tbody tr').length === 1`)

	do(ctx, t, chromedp.Evaluate(`window.theme = document.documentElement.dataset.theme`, nil), chromedp.Click(`#theme`, chromedp.ByQuery))
	is(ctx, t, "the other theme", `document.documentElement.dataset.theme !== window.theme`)
	screenshot(ctx, t, "report_other_theme")
}

// within is an expression: what one selector finds lies within what another does.
func within(inner, outer string) string {
	return `(() => { const o = document.querySelector('` + outer + `').getBoundingClientRect(); return [...document.querySelectorAll('` + inner + `')].every(e => { const r = e.getBoundingClientRect(); return r.left >= o.left - 1 && r.right <= o.right + 1; }); })()`
}

// A step that was on the clock for no time has no rate: it is 0, as in the other
// reports.
func TestReportOfNoTimeInBrowser(t *testing.T) {
	ctx := browser(t)
	p := fixture(t)
	for i := range p.Plans {
		for k := range p.Plans[i].Stats {
			p.Plans[i].Stats[k].Clock = 0
		}
	}
	p.Rounds = append(p.Rounds, profile.RoundStats{Name: "none", ByWorker: []profile.WorkerStats{{Worker: "w"}}})
	show(ctx, t, "report_no_time", func(w io.Writer) error { return writeHTML(w, p) })
	do(ctx, t, chromedp.Evaluate(`document.querySelector('#tree button').click()`, nil))
	is(ctx, t, "rows without time on the clock", `[...document.querySelectorAll('.tree tbody tr')].some(r => r.node.w === 0 && r.node.f > 0)`)
	is(ctx, t, "rates of no time are 0", `[...document.querySelectorAll('.tree tbody tr')].filter(r => r.node.w === 0 && r.node.f > 0).every(r => r.cells[4].textContent === '0.0')`)
	is(ctx, t, "numbers", `![...document.querySelectorAll('td, .bars span')].some(e => /NaN|Infinity/.test(e.textContent))`)
	is(ctx, t, "numbers of tips", `![...document.querySelectorAll('.flame g, #steps tbody tr, .bars .bar')].some(e => { e.dispatchEvent(new MouseEvent('mousemove', {bubbles: true})); return /NaN|Infinity/.test(document.getElementById('tip').textContent); })`)
}

// On a telephone nothing is cut off or lies over something else.
func TestNarrowReportInBrowser(t *testing.T) {
	ctx := browser(t)
	do(ctx, t, chromedp.EmulateViewport(400, 800))
	p := fixture(t)
	show(ctx, t, "report_narrow", func(w io.Writer) error { return writeHTML(w, p) })
	is(ctx, t, "nothing is wider than the page", `document.documentElement.scrollWidth <= innerWidth`)
	is(ctx, t, "numbers fit their cards", `[...document.querySelectorAll('.card')].every(c => c.scrollWidth <= c.clientWidth)`)
	is(ctx, t, "bars have the width of the page", `[...document.querySelectorAll('.bars .bar')].every(b => b.clientWidth > 300)`)
	is(ctx, t, "names of ceilings and ticks lie within the picture", within(`.roofline text`, `.roofline`))
	is(ctx, t, "ticks do not touch", `(() => { const t = [...document.querySelectorAll('.roofline .tick')].filter(e => e.textContent && e.getAttribute('text-anchor') !== 'end').map(e => e.getBoundingClientRect()).sort((a, b) => a.left - b.left); return t.every((r, i) => !i || t[i - 1].right < r.left || Math.abs(t[i - 1].top - r.top) > 8); })()`)
	is(ctx, t, "the way to every section is a row of its own", `document.querySelector('nav').clientWidth > 300`)
}

// Names from files stay text: nothing of them runs.
func TestHostileNamesInBrowser(t *testing.T) {
	ctx := browser(t)
	evil := evilProfile(t)
	show(ctx, t, "hostile", func(w io.Writer) error { return writeHTML(w, evil) })
	is(ctx, t, "no markup from names", `document.querySelectorAll('img').length === 0 && document.querySelectorAll('script').length === 2`)
	is(ctx, t, "the name is shown", `document.querySelector('.flame').textContent.includes('</script>')`)
}

func TestComparisonInBrowser(t *testing.T) {
	ctx := browser(t)
	c := slowerComparison(t)
	low, high := 4.0, 6.0
	wait := compare.Change{Percent: 5, Low: &low, High: &high, Noise: 1, Verdict: compare.Slower}
	c.Plans[0].Waits = []compare.Diff{{Name: "before glu, after o_proj", Layer: -1, Before: 1e5, After: 3e5, Wait: 2e5, Median: wait, Mean: wait, P95: wait, Verdict: compare.Slower}}
	c.Uneven = []compare.UnevenDiff{{Plan: "embed", Step: "gelu", Before: 1e5, After: 3e5, Change: wait, Verdict: compare.MoreTime, Lanes: [2]float64{2, 2}}, {Plan: "embed", Step: "norm", Before: 1e5, Change: wait, Verdict: compare.FewerLanes, Lanes: [2]float64{2, 1}}}
	c.Faults = []compare.CountDiff{{Kind: "memory", Before: 8000, After: 8400, Change: wait, Verdict: compare.MoreFaults}}
	c.GoHeap = []compare.CountDiff{{Kind: "bytes", Before: 8e6, After: 8.4e6, Change: wait, Verdict: compare.MoreAllocated}, {Kind: "objects", Before: 8000, After: 8001, Change: wait, Verdict: compare.Untested}}
	show(ctx, t, "comparison", func(w io.Writer) error { return ComparisonHTML(w, c) })
	is(ctx, t, "flame", `document.querySelectorAll('.flame g').length > 50`)
	is(ctx, t, "what is slower is red", `(() => { const fill = n => getComputedStyle([...document.querySelectorAll('.flame g')].find(g => g.node.n === n && !g.node.c).querySelector('rect')).fill; return fill('attention') !== fill('gelu') && fill('gelu') === fill('norm'); })()`)
	is(ctx, t, "verdict", `[...document.querySelectorAll('td .slower')].length >= 6`)
	is(ctx, t, "waits", `[...document.querySelectorAll('#plan0 tbody tr')].some(r => r.cells[0].textContent === 'before glu, after o_proj' && r.cells[5].textContent === '+5.0 (+4.0 to +6.0)' && r.cells[8].textContent === 'slower')`)
	is(ctx, t, "scopes", `[...document.querySelectorAll('#scopes td')].map(d => d.textContent).slice(0, 4).join(' ') === 'sample 60, 60 4.000 6.000'`)
	is(ctx, t, "uneven", `[...document.querySelectorAll('#uneven tbody tr')].map(r => [1, 2, 6, 7].map(i => r.cells[i].textContent).join(' ')).join('; ') === 'norm 2.0, 1.0  fewer lanes; gelu 2.0, 2.0 +5.0 (+4.0 to +6.0) more time'`)
	is(ctx, t, "page faults", `[...document.querySelectorAll('#faults td')].map(d => d.textContent).join(' ') === 'memory 8000 8400 +5.0 (+4.0 to +6.0) more faults'`)
	is(ctx, t, "go heap", `[...document.querySelectorAll('#goheap td')].map(d => d.textContent).join(' ') === 'bytes 8.0 MB 8.4 MB +5.0 (+4.0 to +6.0) more allocated objects 8000 8001  untested'`)
	is(ctx, t, "ledger", `[...document.querySelectorAll('#ledger tbody tr')].some(r => r.cells[1].textContent === 'compute' && r.cells[6].textContent === 'untested')`)
	is(ctx, t, "nothing is wider than the page", `document.documentElement.scrollWidth <= innerWidth`)
}
