package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/quant"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// change is what happens to a tensor on its way.
type change uint8

const (
	asIs         change = iota
	transpose           // a matrix is stored [in,out]
	addOne              // to every value
	ungroup             // queries, keys and values lie by group: first all queries, then all keys, then all values
	afterPadding        // positions begin behind the padding's id
)

// never are parts of the names of tensors that no file needs.
var never = []string{"rotary_emb.inv_freq", "rope.freqs"}

// tensors lists what is to be written, in the order of the names.
func (j *job) tensors() ([]quant.Tensor, error) {
	prefix := j.prefix()
	stacks := map[string][]string{} // tensors of the directory, by where they go
	hows := map[string]change{}
	tied := j.config.flag(j.family.tied, "tie_word_embeddings")
	modules := j.modulePaths()
	for _, name := range j.in.Names() {
		inside := strings.TrimPrefix(name, prefix)
		if slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(name, m) }) || j.skips(inside) {
			continue
		}
		to, expert, how, err := j.place(name, inside)
		if err != nil {
			return nil, err
		}
		if to == "output.weight" && tied {
			continue
		}
		list := stacks[to]
		for len(list) <= expert {
			list = append(list, "")
		}
		if list[expert] != "" {
			return nil, fmt.Errorf("%s: tensors %q and %q are both %s: %w", j.in.Path(), list[expert], name, to, weights.ErrInvalid)
		}
		list[expert] = name
		stacks[to], hows[to] = list, how
	}
	if len(stacks["token_embd.weight"]) == 0 {
		return nil, fmt.Errorf("%s: the token table is missing: %w", j.in.Path(), weights.ErrInvalid)
	}
	var out []quant.Tensor
	for _, to := range slices.SortedFunc(maps.Keys(stacks), byLayer) {
		t, err := j.tensor(to, stacks[to], hows[to])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	if _, ok := stacks["output.weight"]; !ok && j.family.headed {
		t, err := j.tensor("token_embd.weight", stacks["token_embd.weight"], hows["token_embd.weight"])
		if err != nil {
			return nil, err
		}
		t.Name = "output.weight"
		out = append(out, t)
	}
	if j.family.rope {
		out = append(out, ropeTensors(j)...)
	}
	if j.family.more != nil {
		out = append(out, j.family.more(j)...)
	}
	return out, *j.config.err
}

// byLayer orders names of GGUF by layer, those without one first.
func byLayer(a, b string) int {
	na, nb := layerOf(a), layerOf(b)
	if na != nb {
		return na - nb
	}
	return strings.Compare(a, b)
}

func layerOf(name string) int {
	var n int
	if _, err := fmt.Sscanf(name, "blk.%d.", &n); err != nil {
		return -1
	}
	return n
}

// prefix is the one that the directory has before its names.
func (j *job) prefix() string {
	for _, p := range j.family.prefixes {
		for _, name := range j.in.Names() {
			if strings.HasPrefix(name, p) {
				return p
			}
		}
	}
	return ""
}

// modulePaths are the folders of sentence-transformers modules.
func (j *job) modulePaths() (out []string) {
	for _, m := range j.hf.Modules {
		if m.Path != "" {
			out = append(out, m.Path+"/")
		}
	}
	return out
}

func (j *job) skips(name string) bool {
	if strings.HasPrefix(name, "pooler.") && !j.in.Has("classifier.weight") {
		return true // only scores need it
	}
	has := func(part string) bool { return strings.Contains(name, part) }
	return slices.ContainsFunc(never, has) || slices.ContainsFunc(j.family.skip, has)
}

// oldEndings are those of norms in files of before 2020.
var oldEndings = map[string]string{".gamma": ".weight", ".beta": ".bias"}

// place finds the row of a tensor.
func (j *job) place(name, inside string) (to string, expert int, how change, err error) {
	dot := strings.LastIndexByte(inside, '.')
	if dot < 0 {
		dot = len(inside)
	}
	stem, end := inside[:dot], inside[dot:]
	if e, ok := oldEndings[end]; ok {
		end = e
	}
	for _, r := range j.family.names {
		layer, e, ok := match(r.from, stem)
		if !ok || end != ".weight" && end != ".bias" {
			continue
		}
		if layer >= j.layers || e > maxExperts {
			break
		}
		return strings.Replace(r.to, "{}", strconv.Itoa(layer), 1) + end, e, r.how, nil
	}
	return "", 0, 0, fmt.Errorf("%s: tensor %q has no place in a GGUF file of a %s model: %w", j.in.Path(), name, j.arch, weights.ErrUnsupported)
}

const maxExperts = 1 << 12

// match compares a name with a pattern: "{}" is a layer, "{e}" an expert.
func match(pattern, name string) (layer, expert int, ok bool) {
	ps, ns := strings.Split(pattern, "."), strings.Split(name, ".")
	if len(ps) != len(ns) {
		return 0, 0, false
	}
	for i, p := range ps {
		to := &layer
		switch p {
		case "{e}":
			to = &expert
			fallthrough
		case "{}":
			n, err := strconv.Atoi(ns[i])
			if err != nil || n < 0 || strconv.Itoa(n) != ns[i] {
				return 0, 0, false
			}
			*to = n
		default:
			if p != ns[i] {
				return 0, 0, false
			}
		}
	}
	return layer, expert, true
}

// tensor is one tensor of the file, made of one or of a stack.
func (j *job) tensor(to string, names []string, how change) (quant.Tensor, error) {
	parts := make([]weights.Tensor, len(names))
	for i, name := range names {
		if name == "" {
			return quant.Tensor{}, fmt.Errorf("%s: %s: expert %d is missing: %w", j.in.Path(), to, i, weights.ErrInvalid)
		}
		t, err := j.in.Get(name)
		if err != nil {
			return quant.Tensor{}, err
		}
		if i > 0 && !slices.Equal(t.Dims, parts[0].Dims) {
			return quant.Tensor{}, fmt.Errorf("%s: tensor %q: dimensions %v, expected %v, those of the first one: %w", j.in.Path(), name, t.Dims, parts[0].Dims, weights.ErrInvalid)
		}
		parts[i] = t
	}
	dims := slices.Clone(parts[0].Dims)
	if len(parts) > 1 {
		dims = append([]int{len(parts)}, dims...)
	}
	bad := func(want string) (quant.Tensor, error) {
		return quant.Tensor{}, fmt.Errorf("%s: tensor %q: dimensions %v, expected %s: %w", j.in.Path(), names[0], dims, want, weights.ErrInvalid)
	}
	out := quant.Tensor{Name: to, Dims: dims, DType: tensor.F32}
	each := quant.FromStore(parts[0])
	out.Rows = func(dst []float32, first, n int) error {
		cols, perPart := each.Cols(), each.NumRows()
		for r := range n {
			p := (first + r) / perPart
			if err := quant.FromStore(parts[p]).Rows(dst[r*cols:], (first+r)%perPart, 1); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case how == transpose && len(dims) == 2:
		if parts[0].DType.Quantized() {
			return bad("a type without blocks")
		}
		out.Dims, out.Rows = []int{dims[1], dims[0]}, columns(parts[0])
	case how == addOne:
		rows, cols := out.Rows, out.Cols()
		out.Rows = func(dst []float32, first, n int) error {
			err := rows(dst, first, n)
			for i := range dst[:n*cols] {
				dst[i]++
			}
			return err
		}
	case how == ungroup:
		order, ok := j.ungrouped(dims[0])
		if !ok {
			return bad(fmt.Sprintf("rows for %d heads of queries and %d of keys and values", j.heads, j.kvHeads))
		}
		reorder(&out, order)
	case how == afterPadding:
		skip := j.beforePositions()
		if len(dims) != 2 || dims[0] <= skip {
			return bad(fmt.Sprintf("more than %d rows", skip))
		}
		rows := out.Rows
		out.Dims = []int{dims[0] - skip, dims[1]}
		out.Rows = func(dst []float32, first, n int) error { return rows(dst, first+skip, n) }
	}
	if to == "token_types.weight" && len(dims) == 2 {
		out.Dims = []int{min(j.segments(), dims[0]), dims[1]}
	}
	if n := j.turnedHeads(to); n > 0 {
		if dims[0]%(2*n) != 0 {
			return bad(fmt.Sprintf("rows in %d heads of even width", n))
		}
		reorder(&out, turnedOrder(dims[0], n))
	}
	return out, nil
}

// columns reads the columns of a matrix as rows.
func columns(t weights.Tensor) func(dst []float32, first, n int) error {
	rows, cols := t.Dims[0], t.Dims[1]
	return func(dst []float32, first, n int) error {
		part := make([]float32, n)
		for r := range rows {
			at := t.DType.RowBytes(r*cols + first)
			if err := tensor.Dequantize(part, t.DType, t.Data[at:at+t.DType.RowBytes(n)]); err != nil {
				return err
			}
			for c, v := range part {
				dst[c*rows+r] = v
			}
		}
		return nil
	}
}
