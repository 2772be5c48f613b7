package compare

import (
	"cmp"
	"slices"
	"strings"
)

// A change of one step of a layer, in all layers, is too small to see in the row of an op
// that has several steps per layer, as products have, and each layer alone is uncertain.
// So these steps are compared by name, all layers together.

// inAllLayers ends the names of such rows.
const inAllLayers = " of all layers"

// places gathers the steps of ops that have several per layer by their names.
func places(a, b *side, steps []Diff) []Diff {
	// The name without its layer, which comes first.
	name := func(d *Diff) string {
		_, rest, _ := strings.Cut(d.Name, "/")
		return cmp.Or(rest, d.Name)
	}
	type place struct{ kind, name string }
	inLayer, layers, ofKind := map[place]int{}, map[place]int{}, map[string]int{}
	for i := range steps {
		d := &steps[i]
		at := place{d.kind, name(d)}
		if last, ok := inLayer[at]; d.Layer < 0 || ok && last == d.Layer {
			continue
		}
		if layers[at] == 0 {
			ofKind[d.kind]++
		}
		inLayer[at] = d.Layer // layers come in order
		layers[at]++
	}
	var several []Diff
	for _, d := range steps {
		if d.Layer >= 0 && ofKind[d.kind] > 1 && layers[place{d.kind, name(&d)}] > 1 {
			several = append(several, d)
		}
	}
	out := []Diff{}
	for _, row := range foldRows(several, func(d *Diff) (string, int) { return d.kind + "\x00" + name(d), -1 }) {
		kind, place, _ := strings.Cut(row.Name, "\x00")
		row.Name, row.kind = place+inAllLayers, kind
		out = append(out, diff(a, b, row))
	}
	return out
}

// placed is the places, and the kinds that have none.
func (p *PlanDiff) placed() []Diff {
	out := slices.Clone(p.Places)
	for i := range p.Kinds {
		if k := &p.Kinds[i]; !slices.ContainsFunc(p.Places, func(d Diff) bool { return d.kind == k.Name }) {
			out = append(out, *k)
		}
	}
	return out
}
