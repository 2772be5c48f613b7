package main

import (
	"fmt"
	"slices"
	"strings"

	"hotpath"
	"hotpath/internal/calib"
	"hotpath/internal/kernel/isa"
)

// compute is how this machine computes the model's products.
type compute struct {
	Tier        string       `json:"tier"`
	Precision   string       `json:"precision"`
	Classes     []classUse   `json:"classes"`
	Calibration *calibration `json:"calibration"` // null until --calibrate
	Parallel    *threshold   `json:"parallel,omitempty"`
}

type classUse struct {
	Role       string `json:"role"`
	Type       string `json:"type,omitempty"` // none for attention
	Class      string `json:"class"`
	Parameters int64  `json:"parameters,omitempty"`
}

// calibration is what was measured of this file.
type calibration struct {
	Texts   int          `json:"texts"`
	Chosen  string       `json:"chosen"`
	Classes []classError `json:"classes"` // that of the default first
}

type classError struct {
	Class   string  `json:"class"`
	Mean    float64 `json:"cosine_mean"`
	Worst   float64 `json:"cosine_worst"`
	Speed   float64 `json:"speed"` // of the first against f32, of the others against the first
	Refused string  `json:"refused,omitempty"`
}

func newCompute(i hotpath.Info) *compute {
	c := &compute{Tier: isa.Active().String(), Precision: i.Precision, Classes: []classUse{}}
	w := calib.Work{Barriers: barriersPerLayer * i.Layers}
	for _, u := range i.Classes {
		c.Classes = append(c.Classes, classUse{u.Role, u.DType, u.Class, u.Params})
		w.FLOPs += 2 * float64(u.Params)
		switch u.DType {
		case "F32", "F16", "BF16":
			w.Packed += float64(u.Params)
		default:
			w.Stored += float64(u.Params)
		}
	}
	c.Calibration = newCalibration(i.Calibration)
	if n := isa.Threads(); i.CanEmbed && n > 1 {
		t := newThreshold(i.Name, calib.Cached(n), w)
		c.Parallel = &t
	}
	return c
}

func newCalibration(r *hotpath.PrecisionReport) *calibration {
	if r == nil {
		return nil
	}
	c := &calibration{Texts: r.Texts, Chosen: r.Chosen, Classes: []classError{}}
	for _, e := range r.Classes {
		c.Classes = append(c.Classes, classError{e.Class, e.Mean, e.Worst, e.Speed, e.Refused})
	}
	return c
}

// barriersPerLayer is about what plans have; a description compiles none.
const barriersPerLayer = 8

// rows say which class computes what, and what that does to vectors.
func (c *compute) rows() [][2]string {
	rows := [][2]string{{"compute", fmt.Sprintf("precision %s on %s", c.Precision, c.Tier)}}
	var classes []string
	for _, u := range c.Classes {
		classes = append(classes, u.Class)
	}
	slices.Sort(classes)
	for _, class := range slices.Compact(classes) {
		var parts, rest []string
		var last string
		for _, u := range c.Classes {
			switch {
			case u.Class != class:
			case u.Type == "":
				rest = append(rest, u.Role)
			case u.Type == last:
				parts[len(parts)-1] += " " + u.Role
			default:
				parts, last = append(parts, u.Type+" of "+u.Role), u.Type
			}
		}
		parts = append(parts, rest...)
		if len(parts) > 0 {
			rows = append(rows, [2]string{"  " + class, strings.Join(parts, ", ")})
		}
	}
	if c.Calibration == nil {
		rows = append(rows, [2]string{"  error", "not measured: --calibrate compares its vectors with f32"})
	} else {
		rows = append(rows, c.Calibration.rows()...)
	}
	if c.Parallel != nil {
		rows = append(rows, [2]string{"parallel", c.Parallel.words()})
	}
	return rows
}

func (c *calibration) rows() [][2]string {
	var rows [][2]string
	for i, e := range c.Classes {
		base := c.Classes[0].Class
		if i == 0 {
			base = "f32"
		}
		line := fmt.Sprintf("%s: cosine %.5f on average, %.5f at worst of %d texts, %.2f times as fast as %s", e.Class, e.Mean, e.Worst, c.Texts, e.Speed, base)
		switch {
		case e.Refused != "":
			line += "; refused: " + e.Refused
		case e.Class == c.Chosen:
			line += "; taken"
		}
		rows = append(rows, [2]string{"  error", line})
	}
	return rows
}
