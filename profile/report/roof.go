package report

import (
	"cmp"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// lostTable splits the time of ops by what it was spent for.
func lostTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "lost time", Note: "clock = ideal + cache + neighbour + kernel; ideal: the best ceilings of this recording, all values in the nearest cache; cache: weights and state lie farther away; neighbour: the machine gave less than its best, or no processor; kernel: the lost time, which another kernel could win, with the interval that holds it in another recording",
		Cols: []table.Col{table.Left("op"), table.Right("clock ms"), table.Right("ideal"), table.Right("cache"), table.Right("neighbour"), table.Right("kernel"), table.Right("low"), table.Right("high")}}
	type sums struct {
		profile.RoofSplit
		clock, low, high int64
	}
	by, names := map[string]*sums{}, []string{}
	add := func(name string, s profile.StepResult) {
		g := by[name]
		if g == nil {
			g = &sums{}
			by[name], names = g, append(names, name)
		}
		g.clock += s.Clock
		g.Ideal += s.Roof.Ideal
		g.Cache += s.Roof.Cache
		g.Neighbour += s.Roof.Neighbour
		g.Kernel += s.Roof.Kernel
		g.low += s.LostLow
		g.high += s.LostHigh
	}
	for _, s := range p.Where(func(s profile.StepResult) bool { return s.Calls > 0 && s.Roof != nil }) {
		add(s.Step.Op, s)
		add("", s)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(by[b].Kernel, by[a].Kernel) })
	row := func(m table.Mark, label, name string) {
		g := by[name]
		t.Add(m, label, table.Ms(g.clock), table.Ms(g.Ideal), table.Ms(g.Cache), table.Ms(g.Neighbour), table.Ms(g.Kernel), table.Ms(g.low), table.Ms(g.high))
	}
	for _, name := range names {
		if name != "" {
			row(table.Plain, name, name)
		}
	}
	if len(names) > 0 {
		row(table.Strong, "total", "")
	}
	return t
}

// probesTable is the ceilings as they moved.
func probesTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "ceilings", Note: profile.SampledSource + ", per second and lane while all lanes were busy",
		Cols: []table.Col{table.Left(""), table.Right("samples"), table.Right("10 %"), table.Right("median"), table.Right("90 %"), table.Right("best"), table.Left("stands for")}}
	for i := range p.Probes {
		s := &p.Probes[i]
		name, unit, of := s.Class, "FLOP", "steps of the class"
		if s.Class == "" {
			name, unit = "reads, "+s.Level, "B"
			if of = "larger working sets, weights and state"; s.UpTo > 0 {
				of = "working sets up to " + table.Mib(s.UpTo) + " MiB a lane"
			}
		}
		t.Add(table.Plain, name, table.Integer(s.Count), table.Si(s.Low)+unit, table.Si(s.Median)+unit, table.Si(s.High)+unit, table.Si(s.Best)+unit, of)
	}
	return t
}
