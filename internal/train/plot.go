package train

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/atomicfile"
)

const plotFile = "loss.svg"

// point is one value of a curve.
type point struct{ x, y float64 }

// Plot draws the losses that a run's log has as loss.svg in its folder, and
// returns the path.
func Plot(out string) (string, error) {
	f, err := os.Open(filepath.Join(out, jsonLog))
	if err != nil {
		return "", err
	}
	defer f.Close()
	var train, valid []point
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s struct {
			Step float64
			Loss float64
			Val  *float64 `json:"val_loss"`
		}
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.Step < 1 {
			continue
		}
		train = append(train, point{s.Step, s.Loss})
		if s.Val != nil {
			valid = append(valid, point{s.Step, *s.Val})
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(train) == 0 {
		return "", fmt.Errorf("%s: the log has no steps to plot", f.Name())
	}
	path := filepath.Join(out, plotFile)
	return path, atomicfile.Replace(path, []byte(svg(train, valid)))
}

// Sizes of a plot in pixels.
const (
	plotWidth, plotHeight = 800, 450
	plotLeft, plotBottom  = 60, 40
	plotTop, plotRight    = 20, 20
	plotPoints            = 2000 // of a curve, at most
)

// svg is a picture of two curves.
func svg(train, valid []point) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range append(train[:len(train):len(train)], valid...) {
		low, high = min(low, p.y), max(high, p.y)
	}
	if high-low < 1e-9 {
		low, high = low-0.5, high+0.5
	}
	first, last := train[0].x, max(train[len(train)-1].x, train[0].x+1)
	at := func(p point) (x, y float64) {
		return plotLeft + (p.x-first)/(last-first)*(plotWidth-plotLeft-plotRight),
			plotTop + (high-p.y)/(high-low)*(plotHeight-plotTop-plotBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	for _, v := range ticks(low, high) {
		_, y := at(point{first, v})
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n", plotLeft, y, plotWidth-plotRight, plotLeft-6, y+4, v)
	}
	for _, v := range ticks(first, last) {
		x, _ := at(point{v, low})
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#eee"/><text x="%.1f" y="%d" text-anchor="middle">%.6g</text>`+"\n", x, plotTop, plotHeight-plotBottom, x, plotHeight-plotBottom+16, v)
	}
	curve := func(points []point, color string, width float64) {
		b.WriteString(`<polyline fill="none" stroke="` + color + `" stroke-width="` + fmt.Sprint(width) + `" points="`)
		stride := (len(points) + plotPoints - 1) / plotPoints
		for i := 0; i < len(points); i += stride {
			x, y := at(points[i])
			fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		}
		b.WriteString("\"/>\n")
	}
	curve(train, "#9ecae1", 1)
	curve(smooth(train), "#08519c", 1.5)
	if len(valid) > 0 {
		curve(valid, "#d94801", 2)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">step</text>`+"\n", plotWidth/2, plotHeight-6)
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#08519c">training loss</text>`+"\n", plotWidth-200, plotTop+14)
	if len(valid) > 0 {
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#d94801">validation loss</text>`+"\n", plotWidth-200, plotTop+30)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// smooth is the running average of a curve, about a fiftieth of it wide.
func smooth(points []point) []point {
	keep := 1 - 1/max(1, float64(len(points))/50)
	out, sum, weight := make([]point, len(points)), 0.0, 0.0
	for i, p := range points {
		sum, weight = keep*sum+(1-keep)*p.y, keep*weight+(1-keep)
		out[i] = point{p.x, sum / weight}
	}
	return out
}

// ticks are round numbers within a range, about six.
func ticks(low, high float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/6)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= 7 {
			step *= f
			break
		}
	}
	var out []float64
	for v := math.Ceil(low/step) * step; v <= high && len(out) < 20; v += step {
		out = append(out, v)
	}
	return out
}
