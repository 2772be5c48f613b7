package compare

import (
	"slices"
	"strings"

	"hotpath/profile"
)

// byModel lets the ids of plans name their models if a recorder had several: the one that it
// met first has the plain id, and models that are opened together come in any order.
func byModel(a, b []*profile.Profile) (namedA, namedB []*profile.Profile) {
	if !slices.ContainsFunc(slices.Concat(a, b), severalModels) {
		return a, b
	}
	return modelsNamed(a), modelsNamed(b)
}

func severalModels(p *profile.Profile) bool {
	return slices.ContainsFunc(p.Plans, func(q profile.PlanStats) bool { return q.Model != p.Plans[0].Model })
}

// modelsNamed is copies of profiles whose plans' ids name the model.
func modelsNamed(profiles []*profile.Profile) (named []*profile.Profile) {
	for _, p := range profiles {
		with := *p
		with.Plans = slices.Clone(p.Plans)
		for i := range with.Plans {
			q := &with.Plans[i]
			if q.Model == "" {
				continue
			}
			id, rest, more := strings.Cut(strings.Replace(q.ID, "#"+q.Model, "", 1), "#")
			if q.ID = id + "#" + q.Model; more {
				q.ID += "#" + rest
			}
			if name := strings.TrimSuffix(q.Name, ", "+q.Model); name != "" && !more {
				q.Name = name + ", " + q.Model
			}
		}
		named = append(named, &with)
	}
	return named
}
