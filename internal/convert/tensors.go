package convert

import (
	"fmt"
	"maps"
	"math"
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
	var out []quant.Tensor
	for _, to := range slices.SortedFunc(maps.Keys(stacks), byLayer) {
		t, err := j.tensor(to, stacks[to], hows[to])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
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
			return quant.Tensor{}, fmt.Errorf("%s: tensor %q: dimensions %v, expected %v as the first: %w", j.in.Path(), name, t.Dims, parts[0].Dims, weights.ErrInvalid)
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
		skip := 1 + j.config.countOr(1, "pad_token_id")
		if len(dims) != 2 || dims[0] <= skip {
			return bad(fmt.Sprintf("more than %d rows", skip))
		}
		rows := out.Rows
		out.Dims = []int{dims[0] - skip, dims[1]}
		out.Rows = func(dst []float32, first, n int) error { return rows(dst, first+skip, n) }
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

// turnedHeads is the number of heads whose rows are turned; 0 for none.
func (j *job) turnedHeads(to string) int {
	if !j.family.turned {
		return 0
	}
	stem := to[strings.LastIndexByte(strings.TrimSuffix(strings.TrimSuffix(to, ".weight"), ".bias"), '.')+1:]
	switch strings.TrimSuffix(strings.TrimSuffix(stem, ".weight"), ".bias") {
	case "attn_q":
		return j.heads
	case "attn_k":
		return j.kvHeads
	}
	return 0
}

// turnedOrder puts the two halves of each head's rows in turn.
func turnedOrder(rows, heads int) []int {
	width := rows / heads
	order := make([]int, rows)
	for i := range order {
		h, at := i/width, i%width
		order[i] = h*width + at/2 + at%2*(width/2)
	}
	return order
}

// ungrouped is the order that puts all queries first, then all keys, then all
// values. The directory has a group for each head of keys: its queries, its
// keys, its values.
func (j *job) ungrouped(rows int) ([]int, bool) {
	groups, per := j.kvHeads, j.heads/max(j.kvHeads, 1)
	if groups < 1 || per < 1 || rows%(groups*(per+2)) != 0 {
		return nil, false
	}
	width := rows / (groups * (per + 2))
	var order []int
	for _, part := range [][2]int{{0, per}, {per, per + 1}, {per + 1, per + 2}} {
		for g := range groups {
			for i := (g*(per+2) + part[0]) * width; i < (g*(per+2)+part[1])*width; i++ {
				order = append(order, i)
			}
		}
	}
	return order, true
}

// reorder takes rows, or the elements of a vector, in another order.
func reorder(t *quant.Tensor, order []int) {
	rows := t.Rows
	if len(t.Dims) == 1 {
		n := t.Dims[0]
		t.Rows = func(dst []float32, first, _ int) error {
			src := make([]float32, n)
			err := rows(src, first, 1)
			for i, from := range order {
				dst[i] = src[from]
			}
			return err
		}
		return
	}
	cols := t.Cols()
	t.Rows = func(dst []float32, first, n int) error {
		for r := range n {
			if err := rows(dst[r*cols:], order[first+r], 1); err != nil {
				return err
			}
		}
		return nil
	}
}

// given is a small tensor that no file of the directory has.
func given(name string, values []float32) quant.Tensor {
	return quant.Tensor{Name: name, Dims: []int{len(values)}, DType: tensor.F32, Rows: func(dst []float32, _, _ int) error {
		copy(dst, values)
		return nil
	}}
}

// ropeTensors are the factors of wavelengths that stretch rotary positions.
func ropeTensors(j *job) []quant.Tensor { return append(llamaFreqs(j), longFactors(j)...) }

// llamaFreqs are Llama 3's factors of wavelengths.
func llamaFreqs(j *job) []quant.Tensor {
	p, ok := j.ropeOf()
	if !ok || strings.ToLower(p.text("", "rope_type", "type")) != "llama3" {
		return nil
	}
	base, ok := p.float("rope_theta")
	if !ok {
		base = j.config.floatOr(j.family.theta(), "rope_theta")
	}
	factor, low, high := p.floatOr(8, "factor"), p.floatOr(1, "low_freq_factor"), p.floatOr(4, "high_freq_factor")
	first := float64(p.countOr(8192, "original_max_position_embeddings"))
	out := make([]float32, j.headDim/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(j.headDim))
		switch {
		case wave < first/high:
			out[i] = 1
		case wave > first/low:
			out[i] = float32(factor)
		default:
			smooth := (first/wave - low) / (high - low)
			out[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return []quant.Tensor{given("rope_freqs.weight", out)}
}

// longFactors are the factors of wavelengths for short and for long texts.
func longFactors(j *job) (out []quant.Tensor) {
	p, ok := j.ropeOf()
	if !ok {
		return nil
	}
	for name, key := range map[string]string{"rope_factors_long.weight": "long_factor", "rope_factors_short.weight": "short_factor"} {
		if list := p.floats(key); list != nil {
			out = append(out, given(name, list))
		}
	}
	slices.SortFunc(out, func(a, b quant.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// denseKey is how GGUF calls a dense layer behind the pooling.
func denseKey(path string) string {
	if path == "2_Dense" {
		return "dense_2"
	}
	return "dense_3"
}

// denseLayers are EmbeddingGemma's layers behind the pooling.
func denseLayers(j *job) (out []quant.Tensor) {
	for _, m := range j.hf.Modules {
		if m.Kind() != "Dense" {
			continue
		}
		t, err := j.in.Get(m.Path + "/linear.weight")
		if err != nil {
			j.config.keep(err)
			return nil
		}
		if j.in.Has(m.Path + "/linear.bias") {
			j.config.keep(fmt.Errorf("%s: tensor %q, which GGUF files cannot have: %w", j.in.Path(), m.Path+"/linear.bias", weights.ErrUnsupported))
		}
		one := quant.FromStore(t)
		one.Name, one.DType, one.Data = denseKey(m.Path)+".weight", tensor.F32, nil
		out = append(out, one)
	}
	return out
}
