package export

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hotpath/internal/atomicfile"
	"hotpath/internal/term"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// FlameValue is the quantity that the width of a flame graph's frames shows.
type FlameValue string

// The measures of a flame graph.
const (
	FlameTime  FlameValue = "time"  // wall time: lane time / lanes
	FlameBytes FlameValue = "bytes" // moved
	FlameLost  FlameValue = "lost"  // time beyond the roofline
)

var flameValues = []struct {
	value FlameValue
	title string
	get   func(*profile.TreeNode) int64
	show  func(int64) string
}{
	{FlameTime, "time", func(n *profile.TreeNode) int64 { return n.Time }, table.Human},
	{FlameBytes, "bytes moved", func(n *profile.TreeNode) int64 { return n.Bytes }, func(v int64) string { return table.Si(float64(v)) + "B" }},
	{FlameLost, "time lost beyond the roofline", func(n *profile.TreeNode) int64 { return n.Lost }, table.Human},
}

// ParseFlameValue reads the name of a measure; the empty name is FlameTime.
func ParseFlameValue(name string) (FlameValue, error) {
	var known []string
	for _, f := range flameValues {
		if name == string(f.value) || name == "" {
			return f.value, nil
		}
		known = append(known, string(f.value))
	}
	return "", fmt.Errorf("profile: no flame graph of %q, expected one of %s", name, strings.Join(known, ", "))
}

const (
	svgWidth = 1200
	svgRow   = 20
	svgTop   = 44
	svgLeast = 0.3 // narrower frames are left out
)

// svgColors are the colours of [OpColor]; each has enough contrast for white
// text.
var svgColors = []string{"#3572c6", "#c4651b", "#1b807a", "#8560c9", "#b83e56", "#8f7410", "#4d7c2e", "#5d7187"}

// svgDark is the style for dark mode. Light colours are written as attributes,
// for tools without support for styles. It is scoped, because HTML pages embed
// the picture.
const svgDark = `<style>@media (prefers-color-scheme:dark){.hpf .bg{fill:#181e28}.hpf .ink{fill:#e5eaf2}.hpf .box{fill:#2a3342}.hpf .wait{fill:#3a4556}.hpf .edge{stroke:#181e28}}</style>`

// FlameSVG writes a flame graph, the model on top. What lies below it is drawn
// to scale; the title of each frame has its numbers.
func FlameSVG(w io.Writer, p *profile.Profile, value FlameValue, view profile.FlameView) error {
	f := flameValues[0]
	for _, k := range flameValues {
		if k.value == value {
			f = k
		}
	}
	root := p.TreeBy(view)
	width := map[*profile.TreeNode]int64{}
	depth := flameWidths(root, f.get, width, 0)
	whole := f.get(root)
	total := f.show(whole)
	if width[root] != whole { // some of it is below 0 and has no width
		total += ", drawn where it is above 0: " + f.show(width[root])
	}
	b := bufio.NewWriter(w)
	height := svgTop + (depth+1)*svgRow + 8
	fmt.Fprintf(b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" class="hpf" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">
%s
<rect class="bg" width="100%%" height="100%%" fill="#ffffff"/>
<text class="ink" x="10" y="26" font-size="16" font-weight="600" fill="#1a2230">%s: %s, %s</text>
`, svgWidth, height, svgWidth, height, svgDark, xmlText(profile.Subject(p)), f.title, total)
	var draw func(n *profile.TreeNode, x, w float64, level int)
	draw = func(n *profile.TreeNode, x, w float64, level int) {
		if w < svgLeast {
			return
		}
		fill, ink, class := "#e2e6ec", `class="ink" fill="#1a2230"`, "box"
		if n.Kind == "wait" {
			fill, class = "#c9d0da", "wait"
		} else if n.Op != "" {
			fill, ink, class = svgColors[OpColor(n.Op)], `fill="#ffffff"`, "op"
		}
		y, stroke := svgTop+level*svgRow, ""
		if w >= 4 { // it would cover a narrower frame
			class, stroke = class+" edge", ` stroke="#ffffff" stroke-width="0.6"`
		}
		share := ""
		if whole > 0 {
			share = fmt.Sprintf(", %.1f %%", table.Percent(f.get(n), whole))
		}
		fmt.Fprintf(b, `<g><title>%s (%s): %s%s</title><rect class="%s" x="%.2f" y="%d" width="%.2f" height="%d" rx="2" fill="%s"%s/>`,
			xmlText(n.Name), xmlText(n.Kind), f.show(f.get(n)), share, class, x, y, w, svgRow-1, fill, stroke)
		if room := int((w - 8) / 7.3); room >= 3 {
			fmt.Fprintf(b, `<text x="%.2f" y="%d" %s>%s</text>`, x+4, y+14, ink, xmlText(shorten(n.Name, room)))
		}
		b.WriteString("</g>\n")
		for _, c := range n.Children {
			part := 0.0
			if width[n] > 0 {
				part = w * float64(width[c]) / float64(width[n])
			}
			draw(c, x, part, level+1)
			x += part
		}
	}
	draw(root, 10, svgWidth-20, 0)
	b.WriteString("</svg>\n")
	return b.Flush()
}

// ExportFlame writes FlameSVG to a file, which appears whole or not at all.
func ExportFlame(path string, p *profile.Profile, value FlameValue, view profile.FlameView) error {
	return atomicfile.Write(path, func(w io.Writer) error { return FlameSVG(w, p, value, view) })
}

// flameWidths gives every node its width: its value, and never less than its
// children together, since lost time can be negative. It returns the depth.
func flameWidths(n *profile.TreeNode, get func(*profile.TreeNode) int64, width map[*profile.TreeNode]int64, level int) int {
	depth, kids := level, int64(0)
	for _, c := range n.Children {
		depth = max(depth, flameWidths(c, get, width, level+1))
		kids += width[c]
	}
	width[n] = max(kids, get(n), 0)
	return depth
}

func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func xmlText(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(term.Printable(s))) // a Builder takes everything
	return b.String()
}
