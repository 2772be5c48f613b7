package plan

import (
	"fmt"
	"slices"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// place decides where each node runs: on the backend if it supports the node,
// else on the host if the backend asks for that (Caps.Host). Otherwise the error
// names every op that is missing. The result is indexed by Node.ID and is true for
// nodes of the host.
func place(g *graph.Graph, be Backend) ([]bool, error) {
	caps, live := be.Caps(), alive(g)
	host := make([]bool, len(g.Nodes))
	var ops, missing []string
	for _, n := range g.Nodes {
		if n.Leaf != nil || !live[n.ID] || be.Supports(n) {
			continue
		}
		host[n.ID] = true
		if !slices.Contains(ops, n.Op.Name) {
			ops = append(ops, n.Op.Name)
			missing = append(missing, fmt.Sprintf("%s (%s)", n.Op.Name, n.Name))
		}
	}
	if len(missing) > 0 && !caps.Host {
		return nil, fmt.Errorf("%w: device %s has no kernel for %s", weights.ErrUnsupported, caps.Name, strings.Join(missing, ", "))
	}
	return host, nil
}

// OnHost reports whether the host runs some steps of the program.
func (p *Program) OnHost() bool { return slices.Contains(p.table.host, true) }

// reads reports whether a weight has a reader on the backend, and one on the host.
func (p *Program) reads(us [][]*graph.Node, v *graph.Value) (backend, host bool) {
	for _, n := range us[v.ID] {
		backend, host = backend || !p.table.host[n.ID], host || p.table.host[n.ID]
	}
	return backend, host
}

// Travel lists the values that are copied between host and device in a run of the
// plan: inputs and outputs of the graph, or of a part of it. in are values that
// steps read before any step writes them; out are values that steps write.
func (p *Plan) Travel() (in, out []*graph.Value) {
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, v := range s.In {
			if p.Place(v).Class == IO && p.Place(v).Bytes > 0 && !slices.Contains(in, v) && !slices.Contains(out, v) {
				in = append(in, v)
			}
		}
		for _, v := range s.Out {
			if p.Place(v).Class == IO && p.Place(v).Bytes > 0 && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return in, out
}
