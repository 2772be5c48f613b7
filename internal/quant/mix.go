package quant

import (
	"fmt"
	"strings"

	"hotpath/internal/tensor"
)

// Mix is what people call the type of a file: an encoding for most matrices,
// and rules that give some roles and layers another one.
type Mix struct {
	Name     string
	About    string
	FileType uint32       // general.file_type, as llama.cpp numbers it
	Base     tensor.DType // of most matrices
	rule     func(*chooser, *place) tensor.DType
}

// mixes is the table of file types. A rule gives the encoding of a matrix that
// is neither the output nor an embedding that serves as one.
var mixes = []Mix{
	{"F32", "32 bits", 0, tensor.F32, nil},
	{"F16", "16 bits", 1, tensor.F16, nil},
	{"BF16", "16 bits, the range of F32", 32, tensor.BF16, nil},
	{"Q8_0", "8.5 bits", 7, tensor.Q8_0, nil},
	{"Q6_K", "6.6 bits", 18, tensor.Q6_K, plainRule},
	{"Q5_K_M", "5.7 bits, some layers with more", 17, tensor.Q5_K, ruleQ5KM},
	{"Q5_K_S", "5.5 bits", 16, tensor.Q5_K, plainRule},
	{"Q5_1", "6 bits", 9, tensor.Q5_1, plainRule},
	{"Q5_0", "5.5 bits", 8, tensor.Q5_0, rule50},
	{"Q4_K_M", "4.8 bits, some layers with more", 15, tensor.Q4_K, ruleQ4KM},
	{"Q4_K_S", "4.6 bits, the first layers with more", 14, tensor.Q4_K, ruleQ4KS},
	{"Q4_1", "5 bits", 3, tensor.Q4_1, plainRule},
	{"Q4_0", "4.5 bits", 2, tensor.Q4_0, rule40},
	{"IQ4_NL", "4.5 bits, levels denser around zero", 25, tensor.IQ4_NL, ruleIQ4},
	{"IQ4_XS", "4.25 bits, the same in larger blocks", 30, tensor.IQ4_XS, ruleIQ4},
	{"MXFP4", "experts in 4.25 bits, the rest in Q8_0", 38, tensor.MXFP4, ruleMXFP4},
	{"Q3_K_L", "4.3 bits, values and downward matrices with more", 13, tensor.Q3_K, ruleQ3KL},
	{"Q3_K_M", "3.9 bits, values and downward matrices with more", 12, tensor.Q3_K, ruleQ3KM},
	{"Q3_K_S", "3.5 bits", 11, tensor.Q3_K, ruleQ3KS},
	{"Q2_K", "3 bits, values and downward matrices with more", 10, tensor.Q2_K, ruleQ2K},
	{"Q2_K_S", "2.6 bits", 21, tensor.Q2_K, ruleQ2KS},
}

// aliases are other names of the same.
var aliases = map[string]string{"Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "Q3_K": "Q3_K_M", "MXFP4_MOE": "MXFP4"}

// Mixes are all mixes, the largest encodings first.
func Mixes() []Mix { return append([]Mix{}, mixes...) }

// ParseMix finds a mix by its name, in any case.
func ParseMix(name string) (Mix, error) {
	upper := strings.ToUpper(name)
	if a, ok := aliases[upper]; ok {
		upper = a
	}
	var names []string
	for _, m := range mixes {
		if m.Name == upper {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mix{}, fmt.Errorf("file type %q, expected one of %s", name, strings.Join(names, ", "))
}

// plainRule has nothing to add.
func plainRule(c *chooser, _ *place) tensor.DType { return c.mix.Base }

func ruleQ5KM(_ *chooser, p *place) tensor.DType {
	if (p.role == valueRole || p.role == fusedRole || p.role == downRole) && p.moreBits() {
		return tensor.Q6_K
	}
	return tensor.Q5_K
}

func ruleQ4KM(c *chooser, p *place) tensor.DType {
	switch {
	case p.role == downRole && c.facts.Arch == "falcon":
		switch {
		case p.index < p.count/16:
			return tensor.Q6_K
		case p.moreBits():
			return tensor.Q5_K
		}
	case (p.role == valueRole || p.role == fusedRole || p.role == downRole) && p.moreBits():
		return tensor.Q6_K
	case p.role == outRole && c.facts.Experts == 8 && c.facts.Arch != "falcon":
		return tensor.Q5_K
	}
	return tensor.Q4_K
}

func ruleQ4KS(c *chooser, p *place) tensor.DType {
	switch p.role {
	case valueRole, fusedRole:
		if p.index < 4 {
			return tensor.Q5_K
		}
	case downRole:
		if c.facts.Arch != "falcon" && p.index < p.count/8 {
			return tensor.Q5_K
		}
	case outRole:
		if c.facts.Experts == 8 && c.facts.Arch != "falcon" {
			return tensor.Q5_K
		}
	}
	return tensor.Q4_K
}

// rule40 and rule50 guard the first downward matrices, which an importance
// matrix may distort.
func rule40(c *chooser, p *place) tensor.DType {
	if p.role == downRole && c.importance && p.index < p.count/8 {
		return tensor.Q4_1
	}
	return tensor.Q4_0
}

func rule50(c *chooser, p *place) tensor.DType {
	if p.role == downRole && c.importance && p.index < p.count/8 {
		return tensor.Q5_1
	}
	return tensor.Q5_0
}

func ruleIQ4(c *chooser, p *place) tensor.DType {
	switch p.role {
	case valueRole, fusedRole:
		if c.facts.Group >= 4 {
			return tensor.Q5_K
		}
	case downRole:
		if !c.importance && p.index < p.count/8 {
			return tensor.Q5_K
		}
	case outRole:
		if c.facts.Experts == 8 {
			return tensor.Q5_K
		}
	}
	return c.mix.Base
}

func ruleMXFP4(_ *chooser, p *place) tensor.DType {
	if p.experts {
		return tensor.MXFP4
	}
	return tensor.Q8_0
}

func ruleQ3KL(c *chooser, p *place) tensor.DType {
	falcon := c.facts.Arch == "falcon"
	switch p.role {
	case valueRole, fusedRole:
		return tensor.Q5_K
	case downRole:
		if falcon {
			return tensor.Q4_K
		}
		return tensor.Q5_K
	case outRole:
		if falcon {
			return tensor.Q4_K
		}
		if c.facts.Experts != 8 {
			return tensor.Q5_K
		}
	}
	return tensor.Q3_K
}

func ruleQ3KM(c *chooser, p *place) tensor.DType {
	falcon := c.facts.Arch == "falcon"
	switch p.role {
	case valueRole, fusedRole:
		if p.index < 2 {
			return tensor.Q5_K
		}
		return tensor.Q4_K
	case downRole:
		switch {
		case p.index < p.count/16:
			return tensor.Q5_K
		case !falcon || p.moreBits():
			return tensor.Q4_K
		}
	case outRole:
		switch {
		case falcon:
		case c.facts.Experts == 8:
			return tensor.Q5_K
		default:
			return tensor.Q4_K
		}
	}
	return tensor.Q3_K
}

func ruleQ3KS(c *chooser, p *place) tensor.DType {
	if p.role == outRole && c.facts.Experts == 8 && c.facts.Arch != "falcon" {
		return tensor.Q5_K
	}
	return tensor.Q3_K
}

func ruleQ2K(c *chooser, p *place) tensor.DType {
	switch p.role {
	case valueRole, fusedRole:
		if c.facts.Group >= 4 {
			return tensor.Q4_K
		}
		return tensor.Q3_K
	case downRole:
		return tensor.Q3_K
	case outRole:
		switch {
		case c.facts.Arch == "falcon":
		case c.facts.Experts == 8:
			return tensor.Q5_K
		default:
			return tensor.Q3_K
		}
	}
	return tensor.Q2_K
}

func ruleQ2KS(c *chooser, p *place) tensor.DType {
	switch p.role {
	case valueRole, fusedRole:
		if c.facts.Group >= 4 {
			return tensor.Q4_K
		}
	case downRole:
		if p.index < p.count/8 {
			return tensor.Q4_K
		}
	}
	return tensor.Q2_K
}
