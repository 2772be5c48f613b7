package main

import (
	"fmt"
	"strings"
)

// pf writes a line of Go.
func (g *asm) pf(format string, args ...any) { fmt.Fprintf(g, format+"\n", args...) }

// call lists arguments: pointers to the first element of each slice, the
// length, the scalars.
func call(slices []string, at, n string, scalars []string) string {
	var args []string
	for _, s := range slices {
		args = append(args, fmt.Sprintf("&%s[%s]", s, at))
	}
	return strings.Join(append(append(args, n), scalars...), ", ")
}

func tails(in []string) []string {
	out := make([]string, len(in))
	for n, s := range in {
		out[n] = s + "T"
	}
	return out
}

func params(slices, scalars []string) string {
	s := strings.Join(slices, ", ") + " []float32"
	if len(scalars) > 0 {
		s += ", " + strings.Join(scalars, ", ") + " float32"
	}
	return s
}

// genVecGo writes the declarations of the vector kernels and their dispatch:
// xxxFast runs the active tier's kernel over whole vectors, then over the
// tail in padded copies, and reports false where the tier has none.
func genVecGo(g *asm) { vecGo(g, avx2, avx512) }

// genVecGoNEON is the same for arm64.
func genVecGoNEON(g *asm) { vecGo(g, neon) }

// vecGo writes for the isas of an architecture, the widest last.
func vecGo(g *asm, isas ...isa) {
	most := isas[len(isas)-1].lanes
	g.pf("package vec\n\nimport (\n\t\"math\"\n\n\t\"hotpath/internal/kernel/isa\"\n)\n")
	g.pf("var negInf = float32(math.Inf(-1))\n")
	g.pf("// lanes is the number of f32 values in a vector of each tier.")
	g.raw("var lanes = [...]int{isa.Generic: 0")
	for _, i := range isas {
		g.raw(fmt.Sprintf(", isa.%s: %d", i.name, i.lanes))
	}
	g.pf("}\n")
	g.pf("//go:noescape\nfunc ropeSplit%s(x, cos, sin *float32, half int, sign uint32)\n", isas[0].name)
	g.pf("//go:noescape\nfunc ropePairs%s(x, cos, sin *float32, half int, sign uint32)", isas[0].name)
	for _, e := range elementwises {
		slices := append([]string{"dst"}, e.in...)
		ret, assign := "", ""
		if e.sum {
			ret, assign = " (sum float32)", "sum += "
		}
		decl := strings.Join(slices, ", ") + " *float32, n int"
		if len(e.scalars) > 0 {
			decl += ", " + strings.Join(e.scalars, ", ") + " float32"
		}
		for _, i := range isas {
			g.pf("\n//go:noescape\nfunc %s%s(%s)%s", e.name, i.name, decl, ret)
		}
		result, no, yes := "bool", "return false", "return true"
		if e.sum {
			result, no, yes = "(sum float32, ok bool)", "return 0, false", "return sum, true"
		}
		g.pf("\nfunc %sFast(%s) %s {", e.name, params(slices, e.scalars), result)
		g.pf("%s\n\tif lane == 0 {\n\t\t%s\n\t}", laneOf(isas), no)
		g.pf("\tfull := len(dst) &^ (lane - 1)\n\tif full > 0 {")
		dispatch(g, isas, e.name, "\t\t", assign, call(slices, "0", "full", e.scalars))
		g.pf("\t}\n\tif full < len(dst) {")
		g.pf("\t\tvar %s [%d]float32", strings.Join(tails(slices), ", "), most)
		for n, s := range slices {
			if n == 0 && !e.dst {
				continue
			}
			if e.sum {
				g.pf("\t\tfor i := range %sT {\n\t\t\t%sT[i] = negInf\n\t\t}", s, s)
			}
			g.pf("\t\tcopy(%sT[:], %s[full:])", s, s)
		}
		dispatch(g, isas, e.name, "\t\t", assign, call(tails(slices), "0", "lane", e.scalars))
		g.pf("\t\tcopy(dst[full:], dstT[:])\n\t}\n\t%s\n}", yes)
	}
	for _, r := range reductions {
		decl := strings.Join(r.in, ", ") + " *float32, n int"
		if len(r.scalars) > 0 {
			decl += ", " + strings.Join(r.scalars, ", ") + " float32"
		}
		for _, i := range isas {
			g.pf("\n//go:noescape\nfunc %s%s(%s) (ret float32)", r.name, i.name, decl)
		}
		assign, start := "ret += ", "0"
		if r.combine == "VMAXPS" {
			assign, start = "ret = max(ret, ", "negInf"
		}
		g.pf("\nfunc %sFast(%s) (ret float32, ok bool) {", r.name, params(r.in, r.scalars))
		g.pf("%s\n\tif lane == 0 {\n\t\treturn 0, false\n\t}", laneOf(isas))
		if start != "0" {
			g.pf("\tret = %s", start)
		}
		g.pf("\tfull := len(a) &^ (lane - 1)\n\tif full > 0 {")
		dispatch(g, isas, r.name, "\t\t", assign, call(r.in, "0", "full", r.scalars))
		g.pf("\t}\n\tif full < len(a) {")
		g.pf("\t\tvar %s [%d]float32", strings.Join(tails(r.in), ", "), most)
		for _, s := range r.in {
			if r.pad != "" {
				g.pf("\t\tfor i := range %sT {\n\t\t\t%sT[i] = %s\n\t\t}", s, s, r.pad)
			}
			g.pf("\t\tcopy(%sT[:], %s[full:])", s, s)
		}
		dispatch(g, isas, r.name, "\t\t", assign, call(tails(r.in), "0", "lane", r.scalars))
		g.pf("\t}\n\treturn ret, true\n}")
	}
}

// laneOf finds the width of a vector, and the tier where there is a choice.
func laneOf(isas []isa) string {
	if len(isas) == 1 {
		return "\tlane := lanes[isa.Vector()]"
	}
	return "\ttier := isa.Vector()\n\tlane := lanes[tier]"
}

func dispatch(g *asm, isas []isa, name, indent, assign, args string) {
	end := ""
	if strings.Contains(assign, "(") {
		end = ")"
	}
	if len(isas) == 1 {
		g.pf("%s%s%s%s(%s)%s", indent, assign, name, isas[0].name, args, end)
		return
	}
	g.pf("%sif tier == isa.AVX512 {\n%s\t%s%sAVX512(%s)%s\n%s} else {\n%s\t%s%sAVX2(%s)%s\n%s}",
		indent, indent, assign, name, args, end, indent, indent, assign, name, args, end, indent)
}

// genVecOther is what other architectures have: no fast version.
func genVecOther(g *asm) {
	g.pf("//go:build !amd64 && !arm64\n\npackage vec")
	for _, e := range elementwises {
		result, no := "bool", "false"
		if e.sum {
			result, no = "(sum float32, ok bool)", "0, false"
		}
		g.pf("\nfunc %sFast(%s) %s { return %s }", e.name, params(append([]string{"dst"}, e.in...), e.scalars), result, no)
	}
	for _, r := range reductions {
		g.pf("\nfunc %sFast(%s) (ret float32, ok bool) { return 0, false }", r.name, params(r.in, r.scalars))
	}
}
