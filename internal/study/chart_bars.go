package study

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Bar is one row of a bar chart.
type Bar struct {
	Label     string
	Value     float64
	Low, High float64 // an interval, where High > Low
	Color     int
	Note      string // beside the value
}

// Bars is a horizontal bar chart around zero.
type Bars struct {
	Title, Unit string
	Bars        []Bar
}

const (
	rowHeight  = 26
	labelWidth = 216.0
)

// SVG draws the chart.
func (c Bars) SVG() string {
	const top = 46.0
	bottom := top + rowHeight*float64(len(c.Bars)) + 4
	s := newSVG(int(bottom)+38, c.Title)
	values, most := []float64{0}, 0.0
	for _, b := range c.Bars {
		values = append(values, b.Value)
		most = max(most, math.Abs(b.Value))
	}
	// An interval far beyond every bar would leave no room for the bars: the
	// axis ends before it, and so does its whisker, with an arrow.
	within := func(v float64) float64 { return max(-1.6*most, min(1.6*most, v)) }
	for _, b := range c.Bars {
		if b.High > b.Low {
			values = append(values, within(finite(b.Low, b.Value)), within(finite(b.High, b.Value)))
		}
	}
	ticks := niceTicks(values)
	lo, hi := ticks[0], ticks[len(ticks)-1]
	const right = float64(width - 116)
	px := func(v float64) float64 { return labelWidth + (v-lo)/(hi-lo)*(right-labelWidth) }
	for _, v := range ticks {
		s.line("g", px(v), top, px(v), bottom)
		s.text(px(v), bottom+17, "d", "middle", number(v))
	}
	s.text(right+104, bottom+17, "d", "end", c.Unit)
	for i, b := range c.Bars {
		y := top + rowHeight*float64(i) + 4
		s.text(labelWidth-10, y+14, "in", "end", clip(b.Label, 32))
		from, to := px(min(0, b.Value)), px(max(0, b.Value))
		value := number(b.Value)
		if b.Note != "" {
			value += " " + b.Note
		}
		s.rect(fmt.Sprintf("f%d", b.Color%8), from, y, max(to-from, 1), rowHeight-8, 3, b.Label+": "+value+" "+c.Unit)
		end := to
		if b.High > b.Low {
			l, h := px(within(finite(b.Low, lo))), px(within(finite(b.High, hi)))
			mid := y + (rowHeight-8)/2
			s.line("w", l, mid, h, mid)
			s.whisker(l, mid, 4, within(b.Low) != b.Low)
			s.whisker(h, mid, -4, within(b.High) != b.High)
			end = max(end, h)
		}
		s.text(end+8, y+14, "d", "start", value)
	}
	s.line("ax", px(0), top, px(0), bottom)
	return s.done()
}

// whisker ends an interval at x: by a cap, or by an arrow where it goes on. back
// is the way towards the middle.
func (s *svg) whisker(x, mid, back float64, goesOn bool) {
	if !goesOn {
		s.line("w", x, mid-4, x, mid+4)
		return
	}
	s.line("w", x, mid, x+back, mid-4)
	s.line("w", x, mid, x+back, mid+4)
}

// finite replaces a bound that is no number.
func finite(v, instead float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return instead
	}
	return v
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Stack is one row of a stacked chart: parts of a whole.
type Stack struct {
	Label string
	Parts []float64
}

// Stacks shows rows that are divided into the same parts.
type Stacks struct {
	Title, Unit string
	Parts       []string
	Rows        []Stack
}

// SVG draws the chart; every row is drawn to its own sum over the largest.
func (c Stacks) SVG() string {
	s := newSVG(96+rowHeight*len(c.Rows)+24, c.Title)
	top := s.legend(52, c.Parts) + 16
	most := 0.0
	for _, r := range c.Rows {
		sum := 0.0
		for _, p := range r.Parts {
			sum += max(0, p)
		}
		most = max(most, sum)
	}
	if most == 0 {
		most = 1
	}
	const right = float64(width - 24)
	for i, r := range c.Rows {
		y := top + rowHeight*float64(i)
		s.text(labelWidth-10, y+14, "in", "end", clip(r.Label, 32))
		x := labelWidth
		for k, p := range r.Parts {
			w := max(0, p) / most * (right - labelWidth)
			tip := fmt.Sprintf("%s, %s: %s %s", r.Label, c.Parts[k], number(p), c.Unit)
			s.rect(fmt.Sprintf("f%d", k%8), x, y, w, rowHeight-7, 0, tip)
			if label := number(p); w > 12+7*float64(len(label)) {
				s.text(x+w/2, y+14, "in on", "middle", label)
			}
			x += w
		}
	}
	s.text(right, top+rowHeight*float64(len(c.Rows))+14, "d", "end", c.Unit)
	return s.done()
}

// Heat is a table of numbers in colour.
type Heat struct {
	Title, XLabel, YLabel, Unit string
	X, Y                        []string
	Values                      [][]float64 // [y][x]
	Best                        bool        // mark the largest value of each row
}

// widthOf is about how wide a label is.
func widthOf(label string) float64 { return 6.8 * float64(len(label)) }

// heatColors run from low to high.
var heatColors = [][3]float64{{240, 244, 250}, {158, 202, 225}, {66, 146, 198}, {8, 81, 156}, {8, 40, 96}}

// SVG draws the map.
func (c Heat) SVG() string {
	const right, top, cellH = float64(width - 24), 50.0, 34.0
	left, bottom := 40.0, top+cellH*float64(len(c.Y))
	for _, label := range c.Y {
		left = max(left, 40+widthOf(label))
	}
	w := (right - left) / float64(max(1, len(c.X)))
	under := 0.0 // height of second lines of labels
	for _, label := range c.X {
		if widthOf(label) > w && strings.Contains(label, " ") {
			under = 15
		}
	}
	s := newSVG(int(bottom+under)+52, fmt.Sprintf("%s, %s", c.Title, c.Unit))
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range c.Values {
		for _, v := range row {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	for j, row := range c.Values {
		y := top + cellH*float64(j)
		s.text(left-10, y+cellH/2+4, "d", "end", c.Y[j])
		for i, v := range row {
			f := 1.0
			if hi > lo {
				f = (v - lo) / (hi - lo)
			}
			fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="%s"><title>%s</title></rect>`+"\n",
				left+w*float64(i)+1.5, y+1.5, w-3, cellH-3, heatColor(f),
				html.EscapeString(fmt.Sprintf("%s %s, %s %s: %s %s", c.YLabel, c.Y[j], c.XLabel, c.X[i], number(v), c.Unit)))
			class := "in ou"
			if f > 0.45 {
				class = "in on"
			}
			s.text(left+w*(float64(i)+0.5), y+cellH/2+4, class, "middle", number(v))
			if c.Best && v == slices.Max(row) {
				s.rect("w", left+w*float64(i)+1.5, y+1.5, w-3, cellH-3, 4, c.X[i]+" has the largest value of this row")
			}
		}
	}
	for i, x := range c.X {
		at, rest := left+w*(float64(i)+0.5), ""
		if under > 0 {
			x, rest, _ = strings.Cut(x, " ")
			s.text(at, bottom+18+under, "d", "middle", rest)
		}
		s.text(at, bottom+18, "d", "middle", x)
	}
	s.text((left+right)/2, bottom+under+40, "d", "middle", c.XLabel)
	fmt.Fprintf(s, `<text class="d" text-anchor="middle" transform="translate(18 %.1f) rotate(-90)">%s</text>`+"\n", (top+bottom)/2, html.EscapeString(c.YLabel))
	return s.done()
}

func heatColor(f float64) string {
	at := max(0, min(1, f)) * float64(len(heatColors)-1)
	i := min(int(at), len(heatColors)-2)
	p := at - float64(i)
	var rgb [3]int
	for k := range rgb {
		rgb[k] = int(heatColors[i][k]*(1-p) + heatColors[i+1][k]*p + 0.5)
	}
	return fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
}
