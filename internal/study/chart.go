package study

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Charts are SVG documents that stand alone: they carry their colours for light
// and dark surroundings and use no script. All of them are width units wide.
const width = 760

// chartStyle gives the classes of all charts; series have s0, s1, ... Each colour stands
// there twice: viewers without variables, which most converters to PNG are, take the
// first.
var chartStyle = twice(`<style>
.hp{--bg:#ffffff;--ink:#1d2433;--dim:#667085;--grid:#e6e9ef;--c0:#2f6fd0;--c1:#e0762f;--c2:#2a9d6f;--c3:#8a57c6;--c4:#cc4457;--c5:#0f93a6;--c6:#a8892a;--c7:#7a8599;font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
@media (prefers-color-scheme:dark){.hp{--bg:#161a23;--ink:#e6e9f0;--dim:#98a2b3;--grid:#2a3040;--c0:#6ea4f5;--c1:#f19a5c;--c2:#55c596;--c3:#b48af0;--c4:#f07887;--c5:#4cc3d4;--c6:#d8b95a;--c7:#98a2b3}}
.hp .bg{fill:var(--bg)}.hp text{fill:var(--ink)}.hp .t{font-weight:600;font-size:15px}.hp .d{fill:var(--dim);font-size:12px}.hp .g{stroke:var(--grid);fill:none}.hp .ax{stroke:var(--dim);fill:none}
.hp .mk{stroke:var(--dim);stroke-dasharray:4 4;fill:none}.hp .w{stroke:var(--ink);stroke-width:1.5;fill:none}.hp .in{font-size:12px}.hp .on{fill:#fff}.hp .ou{fill:#10151f}
` + seriesStyle + `</style>`)

var (
	light    = regexp.MustCompile(`--(\w+):(#\w+)`)
	variable = regexp.MustCompile(`(fill|stroke):var\(--(\w+)\)`)
)

// twice puts the colour of light surroundings before each colour that is a variable.
func twice(style string) string {
	first, _, _ := strings.Cut(style, "@media")
	colors := map[string]string{}
	for _, m := range light.FindAllStringSubmatch(first, -1) {
		colors[m[1]] = m[2]
	}
	return variable.ReplaceAllStringFunc(style, func(use string) string {
		m := variable.FindStringSubmatch(use)
		return m[1] + ":" + colors[m[2]] + ";" + use
	})
}

var seriesStyle = func() string {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, ".hp .f%d{fill:var(--c%d)}.hp .l%d{stroke:var(--c%d);fill:none;stroke-width:2.25;stroke-linejoin:round}.hp .b%d{fill:var(--c%d);opacity:.16}\n", i, i, i, i, i, i)
	}
	return b.String()
}()

// svg collects a drawing.
type svg struct {
	strings.Builder
	height int
}

func newSVG(height int, title string) *svg {
	s := &svg{height: height}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" class="hp" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n%s",
		width, height, width, height, html.EscapeString(title), chartStyle)
	fmt.Fprintf(s, `<rect class="bg" width="%d" height="%d" rx="10"/>`+"\n", width, height)
	s.text(20, 28, "t", "start", title)
	return s
}

func (s *svg) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(text))
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func (s *svg) rect(class string, x, y, w, h, r float64, tip string) {
	fmt.Fprintf(s, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f"><title>%s</title></rect>`+"\n",
		class, x, y, max(w, 0), max(h, 0), r, html.EscapeString(tip))
}

func (s *svg) done() string { return s.String() + "</svg>\n" }

// legend draws the names of series in one row or more and returns where it
// ends.
func (s *svg) legend(y float64, names []string) float64 {
	x := 20.0
	for i, n := range names {
		w := 30 + 7*float64(len([]rune(n)))
		if x+w > width-20 && x > 20 {
			x, y = 20, y+20
		}
		s.rect(fmt.Sprintf("f%d", i%8), x, y-9, 11, 11, 3, n)
		s.text(x+17, y, "d", "start", n)
		x += w
	}
	return y
}

// Series is one line with its band.
type Series struct {
	Name         string
	X, Y         []float64
	Low, High    []float64 // nil draws no band
	PointsOnly   bool
	withoutPoint bool
}

// Mark is a named place on the x axis.
type Mark struct {
	X     float64
	Label string
}

// Lines is a chart of series over a common x axis.
type Lines struct {
	Title, XLabel, YLabel string
	Series                []Series
	Marks                 []Mark
	LogX                  bool
	LogY                  bool // for values above 0
	FromZero              bool
}

// SVG draws the chart.
func (c Lines) SVG() string {
	s := newSVG(400, c.Title)
	names := make([]string, len(c.Series))
	var xs, ys []float64
	for i, r := range c.Series {
		names[i] = r.Name
		xs, ys = append(xs, r.X...), append(ys, r.Y...)
	}
	// A band may be as wide as what is measured, and no wider: of one that goes on
	// beyond, as much is drawn as leaves the lines readable.
	lo, hi := slices.Min(ys), slices.Max(ys)
	room := max(hi-lo, 0.5*max(math.Abs(lo), math.Abs(hi)))
	least := lo - room
	if c.LogY = c.LogY && lo > 0; c.LogY {
		least = lo / 2
	}
	for _, r := range c.Series {
		for _, v := range slices.Concat(r.Low, r.High) {
			ys = append(ys, min(max(v, least), hi+room))
		}
	}
	top := s.legend(52, names) + 20
	const left, right, bottom = 72.0, float64(width - 24), 346.0
	if c.FromZero {
		ys = append(ys, 0)
	}
	fx, fy := scale(c.LogX), scale(c.LogY)
	x0, x1 := bounds(xs, fx)
	ticks := niceTicks(ys)
	if c.LogY {
		ticks = logTicks(slices.Min(ys), slices.Max(ys))
	}
	first, last := ticks[0], ticks[len(ticks)-1]
	y0, y1 := fy(first), fy(last)
	px := func(v float64) float64 { return left + (fx(v)-x0)/(x1-x0)*(right-left) }
	py := func(v float64) float64 { return bottom - (fy(min(max(v, first), last))-y0)/(y1-y0)*(bottom-top) }
	for _, v := range ticks {
		s.line("g", left, py(v), right, py(v))
		s.text(left-8, py(v)+4, "d", "end", number(v))
	}
	before := -100.0
	for _, v := range distinct(xs) {
		if px(v)-before < 34 {
			continue
		}
		before = px(v)
		s.text(px(v), bottom+18, "d", "middle", number(v))
	}
	s.line("ax", left, bottom, right, bottom)
	s.text((left+right)/2, 384, "d", "middle", c.XLabel)
	fmt.Fprintf(s, `<text class="d" text-anchor="middle" transform="translate(18 %.1f) rotate(-90)">%s</text>`+"\n", (top+bottom)/2, html.EscapeString(c.YLabel))
	for i, m := range c.Marks {
		if x := px(m.X); x > left && x < right {
			s.line("mk", x, top, x, bottom)
			s.text(x+4, top+12+14*float64(i%3), "d", "start", m.Label)
		}
	}
	for i, r := range c.Series {
		s.series(r, i%8, px, py)
	}
	return s.done()
}

func (s *svg) series(r Series, color int, px, py func(float64) float64) {
	if r.Low != nil {
		var pts []string
		for k := range r.X {
			pts = append(pts, fmt.Sprintf("%.1f,%.1f", px(r.X[k]), py(r.High[k])))
		}
		for k := len(r.X) - 1; k >= 0; k-- {
			pts = append(pts, fmt.Sprintf("%.1f,%.1f", px(r.X[k]), py(r.Low[k])))
		}
		fmt.Fprintf(s, `<polygon class="b%d" points="%s"/>`+"\n", color, strings.Join(pts, " "))
	}
	if !r.PointsOnly {
		var pts []string
		for k := range r.X {
			pts = append(pts, fmt.Sprintf("%.1f,%.1f", px(r.X[k]), py(r.Y[k])))
		}
		fmt.Fprintf(s, `<polyline class="l%d" points="%s"/>`+"\n", color, strings.Join(pts, " "))
	}
	for k := range r.X {
		if r.withoutPoint {
			break
		}
		if (r.PointsOnly || len(r.X) == 1) && r.Low != nil {
			s.line("w", px(r.X[k]), py(r.Low[k]), px(r.X[k]), py(r.High[k]))
		}
		fmt.Fprintf(s, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3.6"><title>%s: %s at %s</title></circle>`+"\n",
			color, px(r.X[k]), py(r.Y[k]), html.EscapeString(r.Name), number(r.Y[k]), number(r.X[k]))
	}
}

// scale is the function that an axis has.
func scale(log bool) func(float64) float64 {
	if log {
		return math.Log2
	}
	return func(v float64) float64 { return v }
}

// logTicks are 1, 2 and 5 times powers of ten, or only these where there are many, from
// the last one below lo to the first one above hi. lo is above 0.
func logTicks(lo, hi float64) (ticks []float64) {
	steps := []float64{1, 2, 5}
	if hi/lo > 300 {
		steps = steps[:1]
	}
	for power := math.Floor(math.Log10(lo)) - 1; ; power++ {
		for _, step := range steps {
			v := step * math.Pow(10, power)
			if v <= lo {
				ticks = ticks[:0]
			}
			if ticks = append(ticks, v); v >= hi && v > ticks[0] {
				return ticks
			}
		}
	}
}

func bounds(v []float64, f func(float64) float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range v {
		lo, hi = min(lo, f(x)), max(hi, f(x))
	}
	if !(hi > lo) {
		return lo - 1, lo + 1
	}
	pad := (hi - lo) * 0.04
	return lo - pad, hi + pad
}

func distinct(v []float64) []float64 {
	seen := map[float64]bool{}
	var out []float64
	for _, x := range v {
		if !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// niceTicks covers the values with about five round steps.
func niceTicks(v []float64) []float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range v {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	if !(hi > lo) {
		if math.IsInf(lo, 0) {
			lo = 0
		}
		lo, hi = lo-1, lo+1
	}
	raw := (hi - lo) / 5
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*step >= raw {
			step *= m
			break
		}
	}
	var out []float64
	for i := math.Floor(lo/step + 1e-9); ; i++ {
		out = append(out, i*step)
		if i*step >= hi-1e-9*step {
			return out
		}
	}
}

// number writes a value with the digits that it is worth.
func number(v float64) string {
	short := func(format string, v float64) string {
		s := fmt.Sprintf(format, v)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 1e6:
		return short("%.2f", v/1e6) + "M"
	case a >= 1e4:
		return short("%.1f", v/1e3) + "k"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return short("%.1f", v)
	case a >= 1:
		return short("%.2f", v)
	case a >= 0.01:
		return short("%.3f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
