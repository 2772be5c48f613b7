package study

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/backend/opencl"
	"hotpath/internal/engine"
	"hotpath/internal/testmodels"
)

// wellFormed reads a document to its end.
func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Every study of an encoder and of a decoder gives a finished report: no blank,
// pictures that are documents, pages that hold everything.
func TestStudiesFinish(t *testing.T) {
	for _, m := range []string{"bert", "llama"} {
		for _, st := range Studies {
			if m == "llama" && (st.Name == "parallelism" || st.Name == "cache") {
				continue
			}
			t.Run(m+"/"+st.Name, func(t *testing.T) {
				said := 0
				r, err := Run(context.Background(), st.Name, Options{Model: testmodels.Dir(t, m), Quick: true,
					Progress: func(what string, done, of int) {
						if said++; what == "" || done > of {
							t.Errorf("progress %q, %d of %d", what, done, of)
						}
					}})
				if errors.Is(err, opencl.ErrAbsent) && (st.Name == "tiles" || st.Name == "transfers") {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if said == 0 {
					t.Error("no progress was told")
				}
				dir := filepath.Join(t.TempDir(), "deep", "folder")
				markdown, page, err := r.Write(dir)
				if err != nil {
					t.Fatal(err)
				}
				md, html := read(t, markdown), read(t, page)
				for _, s := range r.Sections {
					if !strings.Contains(md, "## "+s.Title) || !strings.Contains(html, ">"+s.Title+"</h2>") {
						t.Errorf("section %q is missing in a report", s.Title)
					}
					for _, f := range s.Figures {
						if err := wellFormed(f.SVG); err != nil {
							t.Errorf("%s: %v", f.Name, err)
						}
						inline := f.SVG[strings.Index(f.SVG, "<svg"):] // a page has no place for the head of an XML file
						if read(t, filepath.Join(dir, f.Name+".svg")) != f.SVG || !strings.Contains(md, "("+f.Name+".svg)") || !strings.Contains(html, inline) {
							t.Errorf("picture %s is not in the folder and both reports", f.Name)
						}
					}
				}
				for _, bad := range []string{"http://", "https://", "<script"} {
					if strings.Contains(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""), bad) {
						t.Errorf("the page has %q", bad)
					}
				}
				if data := read(t, filepath.Join(dir, "data.json")); !strings.Contains(data, `"seconds"`) || len(r.Trials) == 0 {
					t.Error("the measurements are missing")
				}
			})
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestErrors(t *testing.T) {
	if _, err := Run(context.Background(), "nothing", Options{}); err == nil || !strings.Contains(err.Error(), "parallelism") {
		t.Errorf("an unknown study: %v", err)
	}
	if _, err := Run(context.Background(), "whatif", Options{}); !errors.Is(err, ErrNoModel) {
		t.Errorf("no model: %v", err)
	}
	if _, err := Run(context.Background(), "whatif", Options{Model: testmodels.Dir(t, "bert"), Quick: true, Steps: []string{"no such step"}}); err == nil || !strings.Contains(err.Error(), "no such step") {
		t.Errorf("a step that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, "scaling", Options{Model: testmodels.Dir(t, "bert"), Quick: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled study: %v", err)
	}
}

// A blank anywhere is found.
func TestCheckFindsBlanks(t *testing.T) {
	good := func() *Report {
		return &Report{Name: "n", Title: "t", Question: "q", Advice: []string{"a"}, Facts: []Fact{{"f", "v"}},
			Sections: []Section{{Title: "s", Text: []string{"x"}, Table: &Table{Head: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}},
				Figures: []Figure{{"f", "c", "<svg/>"}}}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(r *Report){
		"cell":    func(r *Report) { r.Sections[0].Table.Rows[0][1] = " " },
		"nan":     func(r *Report) { r.Sections[0].Table.Rows[0][1] = "NaN" },
		"inf":     func(r *Report) { r.Sections[0].Table.Rows[0][1] = "+Inf %" },
		"row":     func(r *Report) { r.Sections[0].Table.Rows[0] = []string{"1"} },
		"rows":    func(r *Report) { r.Sections[0].Table.Rows = nil },
		"advice":  func(r *Report) { r.Advice = nil },
		"caption": func(r *Report) { r.Sections[0].Figures[0].Caption = "" },
		"picture": func(r *Report) { r.Sections[0].Figures[0].SVG = `<svg x="NaN"/>` },
		"fact":    func(r *Report) { r.Facts[0].Value = "" },
		"empty":   func(r *Report) { r.Sections = append(r.Sections, Section{Title: "nothing"}) },
	} {
		r := good()
		spoil(r)
		if r.Check() == nil {
			t.Errorf("%s: no blank was found", name)
		}
	}
}

func TestPrepareUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(filepath.Join(file, "folder")); err == nil {
		t.Error("a folder inside a file was made")
	}
}

func TestAmdahl(t *testing.T) {
	threads := []int{1, 2, 4, 8}
	for _, serial := range []float64{0, 0.1, 0.5, 1} {
		var rel []float64
		for _, n := range threads {
			rel = append(rel, serial+(1-serial)/float64(n))
		}
		if got := amdahl(threads, rel); got < serial-1e-9 || got > serial+1e-9 {
			t.Errorf("serial part %v fits as %v", serial, got)
		}
	}
}

func TestChartsSurviveExtremes(t *testing.T) {
	for name, svg := range map[string]string{
		"one point":  Lines{Title: "a < b", XLabel: "x", YLabel: "y", Series: []Series{{Name: "s & t", X: []float64{3}, Y: []float64{3}}}}.SVG(),
		"no spread":  Lines{Title: "t", XLabel: "x", YLabel: "y", LogX: true, Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{0, 0}}}}.SVG(),
		"zero bars":  Bars{Title: "t", Unit: "u", Bars: []Bar{{Label: "l"}}}.SVG(),
		"no parts":   Stacks{Title: "t", Unit: "u", Parts: []string{"a"}, Rows: []Stack{{"r", []float64{0}}}}.SVG(),
		"logarithms": Lines{Title: "t", XLabel: "x", YLabel: "y", LogX: true, LogY: true, Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{0.03, 70}, Low: []float64{-1, 60}, High: []float64{0.04, 80}}}}.SVG(),
		"no logs":    Lines{Title: "t", XLabel: "x", YLabel: "y", LogY: true, Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{0, 5}}}}.SVG(),
		"long names": Heat{Title: "t", XLabel: "x", YLabel: "y", Unit: "u", Best: true, X: slices.Repeat([]string{"128x128 by 16"}, 12), Y: []string{"16384 x 1536 x 384"}, Values: [][]float64{slices.Repeat([]float64{5}, 12)}}.SVG(),
		"equal heat": Heat{Title: "t", XLabel: "x", YLabel: "y", Unit: "u", X: []string{"1"}, Y: []string{"1"}, Values: [][]float64{{5}}}.SVG(),
	} {
		if err := wellFormed(svg); err != nil || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %v\n%s", name, err, svg)
		}
	}
}

func TestMillis(t *testing.T) {
	for s, want := range map[float64]string{0.5: "500 ms", -3.64: "-3640 ms", 2e-5: "20 µs", -2e-5: "-20 µs", 0: "0 µs"} {
		if got := millis(s); got != want {
			t.Errorf("%v s is %q, expected %q", s, got, want)
		}
	}
}

// A condition that there is no time for is not even warmed up.
func TestGridLeavesOut(t *testing.T) {
	s, err := open(Options{Model: testmodels.Dir(t, "bert"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	began := 0
	first, second := s.embed(s.texts(1, even(2, 4))), s.embed(s.texts(1, even(2, 4)))
	first.run = func(context.Context, *engine.Engine) error { return nil }
	second.run = func(context.Context, *engine.Engine) error {
		began++
		return nil
	}
	cells := []*condition{{cpus: 1, batch: 2, work: first}, {cpus: 1, batch: 2, work: second}}
	late := &designs{left: 2, budget: time.Millisecond, until: time.Now().Add(-time.Hour), limited: true}
	if err := s.grid(t.Context(), cells, late); err != nil {
		t.Fatal(err)
	}
	if cells[0].trial == nil || cells[1].trial != nil || cells[1].without == "" || began != 0 || late.left != 0 {
		t.Errorf("%+v and %+v, the second begun %d times", cells[0], cells[1], began)
	}
}

// Where the control itself strays, no gain is promised.
func TestWhatifNeedsAnEvenMachine(t *testing.T) {
	trial := func(control ...float64) *Trial {
		same := []float64{1, 1, 1.01, 1, 1, 1.01, 1, 1.01}
		return &Trial{Names: []string{"all slowed", "all but x"}, Seconds: [][]float64{same, {0.9, 0.9, 0.91, 0.9, 0.9, 0.9, 0.91, 0.9}}, Control: control, Blocks: 4}
	}
	found := []Whatif{{Target: "x", Share: 50, Seconds: Estimate{Mid: 0.4, Low: 0.3, High: 0.5, N: 4}}}
	even := whatifAdvice(found, trial(1, 1.01, 1, 1, 1.01, 1, 1, 1), 1)
	if len(even) != 1 || !strings.Contains(even[0], "If x were twice as fast, the whole would take 20.0 % less time (15.0 to 25.0)") {
		t.Errorf("advice %q", even)
	}
	uneven := whatifAdvice(found, trial(1, 1.5, 0.7, 1, 1.3, 1, 0.8, 1), 1)
	if len(uneven) != 1 || !strings.Contains(uneven[0], "too uneven") {
		t.Errorf("advice %q", uneven)
	}
}
