package graph

import (
	"fmt"
	"math"
	"slices"

	"hotpath/internal/tensor"
)

// ActKind names a row of the table of activations.
type ActKind uint8

const (
	GELU     ActKind = iota // x * Phi(x), with erf
	GELUTanh                // its tanh approximation
	QuickGELU
	SiLU
	ReLU
	Tanh
	Sigmoid
)

// Activation is a scalar function and its derivative. A new activation is a
// constant and a row: ops, gradients and configurations find it here.
type Activation struct {
	Name    string
	Aliases []string // as model configurations spell it
	F, DF   func(x float64) float64
}

const (
	geluC = 0.7978845608028654 // sqrt(2/pi)
	geluK = 0.044715
)

// activations is indexed by ActKind.
var activations = []Activation{
	GELU: {"gelu", []string{"gelu_python"},
		func(x float64) float64 { return x * normalCDF(x) },
		func(x float64) float64 {
			return normalCDF(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}},
	GELUTanh: {"gelu_tanh", []string{"gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh"},
		func(x float64) float64 { return x / 2 * (1 + math.Tanh(geluC*(x+geluK*x*x*x))) },
		func(x float64) float64 {
			t := math.Tanh(geluC * (x + geluK*x*x*x))
			return (1+t)/2 + x/2*(1-t*t)*geluC*(1+3*geluK*x*x)
		}},
	QuickGELU: {"quick_gelu", nil,
		func(x float64) float64 { return x * logistic(1.702*x) },
		func(x float64) float64 {
			s := logistic(1.702 * x)
			return s + 1.702*x*s*(1-s)
		}},
	SiLU: {"silu", []string{"swish"},
		func(x float64) float64 { return x * logistic(x) },
		func(x float64) float64 {
			s := logistic(x)
			return s + x*s*(1-s)
		}},
	ReLU: {"relu", nil,
		func(x float64) float64 { return max(x, 0) },
		func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return 0
		}},
	Tanh: {"tanh", nil,
		math.Tanh,
		func(x float64) float64 {
			t := math.Tanh(x)
			return 1 - t*t
		}},
	Sigmoid: {"sigmoid", nil,
		logistic,
		func(x float64) float64 {
			s := logistic(x)
			return s * (1 - s)
		}},
}

func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Def is the kind's row of the table.
func (k ActKind) Def() *Activation { return &activations[k] }

func (k ActKind) String() string {
	if int(k) >= len(activations) {
		return fmt.Sprintf("ActKind(%d)", uint8(k))
	}
	return activations[k].Name
}

// ActivationNames lists the table in order of kinds.
func ActivationNames() []string {
	names := make([]string, len(activations))
	for i := range activations {
		names[i] = activations[i].Name
	}
	return names
}

// ParseActivation finds a kind by its name or by an alias.
func ParseActivation(name string) (ActKind, error) {
	for i := range activations {
		if a := &activations[i]; a.Name == name || slices.Contains(a.Aliases, name) {
			return ActKind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown activation %q, expected one of %v", name, ActivationNames())
}

// ActAttr is the function that an op applies.
type ActAttr struct{ Kind ActKind }

func (a ActAttr) check() error {
	if int(a.Kind) >= len(activations) {
		return fmt.Errorf("unknown activation %s", a.Kind)
	}
	return nil
}

// Act is kind(x) elementwise.
func (b *Builder) Act(name string, x *Value, kind ActKind) *Value {
	return b.Apply(OpAct, name, ActAttr{kind}, x).Out[0]
}

// GLU is kind(gate) * up elementwise.
func (b *Builder) GLU(name string, gate, up *Value, kind ActKind) *Value {
	return b.Apply(OpGLU, name, ActAttr{kind}, gate, up).Out[0]
}

// inferAct checks operands of one shape and gives outputs like them.
func inferAct(kinds string, outputs int) func(n *Node) ([]Type, error) {
	return func(n *Node) ([]Type, error) {
		if err := wantInputs(n, kinds); err != nil {
			return nil, err
		}
		types := slices.Repeat([]Type{{n.In[0].Shape, tensor.F32}}, outputs)
		for i, v := range n.In[1:] {
			if err := wantShape(fmt.Sprintf("operand %d", i+1), v, n.In[0].Shape); err != nil {
				return nil, err
			}
		}
		return types, n.Attr.(ActAttr).check()
	}
}

// OpAct: x -> f(x).
var OpAct = register(&OpDef{
	Name:       "act",
	ByRow:      SameRow,
	ReuseInput: 1,
	Infer:      inferAct("f", 1),
	Cost:       onePerElement,
	Ref: func(c *Call) {
		f, y := c.Node.Attr.(ActAttr).Kind.Def().F, c.Out[0].F32
		for i, v := range c.In[0].F32 {
			y[i] = float32(f(float64(v)))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(OpActGrad, "dx", n.Attr, n.In[0], dOut[0]).Out[0]}
	},
})

// OpActGrad: x, dy -> f'(x) * dy.
var OpActGrad = register(&OpDef{
	Name:       "act_grad",
	ByRow:      SameRow,
	NoGrad:     noSecond,
	ReuseInput: 1,
	Infer:      inferAct("ff", 1),
	Cost:       func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		df, dy, dx := c.Node.Attr.(ActAttr).Kind.Def().DF, c.In[1].F32, c.Out[0].F32
		for i, v := range c.In[0].F32 {
			dx[i] = float32(df(float64(v)) * float64(dy[i]))
		}
	},
})

// OpGLU: gate, up -> f(gate) * up.
var OpGLU = register(&OpDef{
	Name:       "glu",
	ReuseInput: 1,
	Infer:      inferAct("ff", 1),
	Cost:       func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		f, up, y := c.Node.Attr.(ActAttr).Kind.Def().F, c.In[1].F32, c.Out[0].F32
		for i, v := range c.In[0].F32 {
			y[i] = float32(f(float64(v)) * float64(up[i]))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return b.Apply(OpGLUGrad, "dglu", n.Attr, n.In[0], n.In[1], dOut[0]).Out[:2]
	},
})

// OpGLUGrad: gate, up, dy -> dgate = f'(gate)*up*dy, dup = f(gate)*dy.
var OpGLUGrad = register(&OpDef{
	Name:   "glu_grad",
	NoGrad: noSecond,
	Infer:  inferAct("fff", 2),
	Cost: func(c *Call) Cost {
		var per int64
		if c.Out[0].Present() {
			per += 3
		}
		if c.Out[1].Present() {
			per += 2
		}
		return Cost{per * int64(c.In[0].Len()), c.IOBytes()}
	},
	Ref: func(c *Call) {
		def, up, dy := c.Node.Attr.(ActAttr).Kind.Def(), c.In[1].F32, c.In[2].F32
		dgate, dup := c.Out[0].F32, c.Out[1].F32
		for i, v := range c.In[0].F32 {
			g := float64(dy[i])
			if c.Out[0].Present() {
				dgate[i] = float32(def.DF(float64(v)) * float64(up[i]) * g)
			}
			if c.Out[1].Present() {
				dup[i] = float32(def.F(float64(v)) * g)
			}
		}
	},
})
