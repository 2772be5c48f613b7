// Package graph describes a transformer as a static graph of about thirty
// coarse ops. It is built once, frozen and compiled once; token counts are
// bound at each run.
//
// Each op lives in one file op_*.go: its attributes, shape inference, cost,
// reference implementation and gradient rule, gathered in one OpDef row. The
// packages model, plan, backend and train import graph; graph imports only
// tensor. Mistakes in a description are collected by the Builder and come out
// of Freeze as an error: nothing about a frozen graph fails at run time.
package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Value is one output of a node.
type Value struct {
	ID    int // dense within the graph
	Node  *Node
	Index int // which output of Node
	Shape tensor.Shape
	DType tensor.DType
	// NeedsGrad says that a trainable leaf is upstream. Gradient rules skip
	// operands without it, so that frozen parts cost nothing.
	NeedsGrad bool
	// Overwritten is the node that takes over this version's memory: every
	// reader of the version runs before it. The Builder refuses later readers.
	Overwritten *Node
}

// Root is the leaf whose memory v is a version of; v itself where v is not
// the output of an in-place op.
func (v *Value) Root() *Value {
	for v.Node.Op != nil {
		j, ok := v.Node.Op.InPlace[v.Index]
		if !ok {
			break
		}
		v = v.Node.In[j]
	}
	return v
}

func (v *Value) String() string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s %s", v.Node.Name, v.DType, v.Shape)
}

// Node is one application of an op, or a leaf.
type Node struct {
	ID    int // dense, and a topological order
	Op    *OpDef
	In    []*Value // an optional operand that is absent is nil
	Out   []*Value
	Attr  any     // the op's own attribute struct, or nil
	After []*Node // control edges: these run first although no data flows
	Name  string  // scope path, for people
	Layer int     // transformer layer, -1 outside of any
	Leaf  *Leaf   // set on leaves only
	Stage Stage   // of a training step
	Again *Node   // computes the same once more for gradients; nil: nobody does
}

// Effect reports whether the node writes State: a root of dead-code
// elimination although nobody may read its outputs.
func (n *Node) Effect() bool { return len(n.Op.InPlace) > 0 }

// LeafKind says where a leaf's bytes come from and how long they live.
type LeafKind uint8

const (
	// InputLeaf is filled by the caller before each run.
	InputLeaf LeafKind = iota
	// WeightLeaf is read-only and comes from a file.
	WeightLeaf
	// StateLeaf lives as long as the session and is written by runs: the KV
	// cache, trainable weights, optimizer moments.
	StateLeaf
)

// Role is what a weight is for. LoRA targets, decay groups and quantization
// mixes select by it, never by name.
type Role uint8

const (
	RoleOther Role = iota
	RoleEmbedding
	RolePosition
	RoleQ
	RoleK
	RoleV
	RoleO
	RoleGate
	RoleUp
	RoleDown
	RoleHead
	RoleNorm
	RoleBias
	RoleKV     // a KV cache
	RoleMoment // optimizer state
	RoleRouter // chooses experts
	RoleGrad   // sum of gradients
)

// Leaf describes a node without inputs.
type Leaf struct {
	Kind LeafKind
	Role Role
	// Key is the canonical tensor name that initialises a weight or a
	// trainable state; an empty key means zeros.
	Key       string
	Trainable bool
	// Fresh says that no file has the weight of Key: it starts as zeros.
	Fresh bool
}

// Graph is frozen: nodes in topological order and the values that are wanted.
type Graph struct {
	Nodes   []*Node
	Values  []*Value
	Inputs  []*Value // in order of declaration
	Outputs []*Value
	Max     tensor.Bind // the largest binding that a run may have
}

// Input finds an input leaf by the name it was declared with.
func (g *Graph) Input(name string) *Value {
	for _, v := range g.Inputs {
		if v.Node.Name == name {
			return v
		}
	}
	return nil
}
