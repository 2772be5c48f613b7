package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Node is one graph node that a fused step came from.
type Node struct {
	Name  string  `json:"name"`
	Op    string  `json:"op"`
	Share float64 `json:"share"` // of the step's FLOPs; the shares of a step add up to 1
}

// Step describes one step of a plan. ID is its position in Plan.Steps, which
// is also its index in every slot array.
type Step struct {
	ID      int    `json:"id"`
	Name    string `json:"name"` // blk.3/attn/q_proj
	Op      string `json:"op"`   // linear
	Kernel  string `json:"kernel,omitempty"`
	Class   string `json:"class,omitempty"` // compute class (f32, bf16, i8g32), picks the FLOP ceiling
	Layer   int    `json:"layer"`           // -1 outside any layer
	Stage   string `json:"stage,omitempty"` // of a training step: forward, loss, backward, recompute, optimizer
	Barrier bool   `json:"barrier,omitempty"`
	Ragged  bool   `json:"ragged,omitempty"`      // it costs by what each token attends to
	Rows    bool   `json:"rows,omitempty"`        // it costs by the tokens that get an answer
	Host    bool   `json:"host,omitempty"`        // launch, sync and copies: work of the host in a device plan
	Alloc   int64  `json:"alloc_bytes,omitempty"` // arena bytes laid out for its outputs and scratch
	// Weights is the number of bytes of weights that the step reads. State
	// reports that it reads or writes state, such as the KV cache. Both come from
	// the memory level that fits all data of a run; other values may still be in
	// a cache since the previous step.
	Weights int64  `json:"weight_bytes,omitempty"`
	State   bool   `json:"state,omitempty"`
	Nodes   []Node `json:"nodes,omitempty"`
}

// Plan describes one compiled plan. It is registered once with a [Recorder].
type Plan struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Model   string `json:"model,omitempty"`  // root frame of exported stacks; Name where empty
	Backend string `json:"backend"`          // selects the ceilings
	Device  string `json:"device,omitempty"` // cuda:0; Backend where empty
	Phase   string `json:"phase"`            // embed, prefill, decode, train, score

	Steps []Step   `json:"steps"`
	Lanes []string `json:"lanes"` // "worker 0", "null:0 stream"; lane 0 is the caller

	// HostLanes says that only the first HostLanes lanes are host threads and
	// the others are device streams. 0 means that all lanes are of one kind.
	HostLanes int `json:"host_lanes,omitempty"`

	Inputs int `json:"-"` // how many integers Run.Inputs has room for from the start

	MemoryBytes map[string]int64 `json:"memory_bytes,omitempty"` // arena class -> bytes
	Buffers     []Buffer         `json:"buffers,omitempty"`
}

// Cost is the work of a step in one run, computed from its sizes and inputs.
type Cost struct{ FLOPs, Bytes int64 }

// stepLanes is the number of lanes that could have worked on the step: the
// divisor that turns lane time into wall-equivalent time.
func (p *Plan) stepLanes(s *Step) int {
	switch {
	case p.HostLanes <= 0 || p.HostLanes >= len(p.Lanes):
		return len(p.Lanes)
	case s.Host:
		return p.HostLanes
	}
	return len(p.Lanes) - p.HostLanes
}

// followsAll reports whether a step begins when all steps before it have ended. The lanes
// of a device do not meet at barriers of the host.
func (p *Plan) followsAll(s *Step) bool { return s.Barrier && p.HostLanes == 0 }

func (p *Plan) modelName() string {
	for _, s := range []string{p.Model, p.Name, p.ID} {
		if s != "" {
			return s
		}
	}
	return "model"
}

func (p *Plan) DeviceName() string {
	if p.Device != "" {
		return p.Device
	}
	return p.Backend
}

// ErrPlan is matched by every error about a plan that cannot be registered.
var ErrPlan = errors.New("profile: invalid plan")

func (p *Plan) check() error {
	if p.ID == "" {
		return fmt.Errorf("%w: the id is empty, expected a name", ErrPlan)
	}
	if len(p.Steps) == 0 || len(p.Lanes) == 0 {
		return fmt.Errorf("%w %q: %d steps on %d lanes, expected at least one of each", ErrPlan, p.ID, len(p.Steps), len(p.Lanes))
	}
	if p.HostLanes < 0 || p.HostLanes > len(p.Lanes) {
		return fmt.Errorf("%w %q: host_lanes is %d, expected 0 to %d, the lanes", ErrPlan, p.ID, p.HostLanes, len(p.Lanes))
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.ID != i {
			return fmt.Errorf("%w %q: step %q has id %d, expected its position %d", ErrPlan, p.ID, s.Name, s.ID, i)
		}
		for _, n := range s.Nodes {
			if !(n.Share >= 0 && n.Share <= 1) {
				return fmt.Errorf("%w %q: step %q: node %q has share %v, expected 0 to 1", ErrPlan, p.ID, s.Name, n.Name, n.Share)
			}
		}
	}
	return p.checkBuffers()
}

// SameShape reports whether runs of the two plans can share one aggregate.
func (p *Plan) SameShape(q *Plan) bool {
	return p.Backend == q.Backend && p.Phase == q.Phase && p.HostLanes == q.HostLanes &&
		len(p.Lanes) == len(q.Lanes) &&
		slices.EqualFunc(p.Steps, q.Steps, func(a, b Step) bool {
			return a.Name == b.Name && a.Op == b.Op && a.Kernel == b.Kernel && a.Host == b.Host
		})
}

func (p Plan) clone() Plan {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		p.Steps[i].Nodes = slices.Clone(p.Steps[i].Nodes)
	}
	p.Lanes = slices.Clone(p.Lanes)
	p.MemoryBytes = maps.Clone(p.MemoryBytes)
	p.Buffers = slices.Clone(p.Buffers)
	return p
}
