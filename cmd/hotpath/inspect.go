package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/format"
	"hotpath/internal/weights"
)

// inspection is what inspect prints. A sound file of an architecture that
// hotpath does not know has no Config and says why.
type inspection struct {
	Path        string       `json:"path"`
	Format      string       `json:"format"`
	Arch        string       `json:"architecture,omitempty"` // as the file says
	Config      *description `json:"config,omitempty"`
	Vocabulary  *vocabulary  `json:"vocabulary,omitempty"`
	Unsupported string       `json:"unsupported,omitempty"`
	Tensors     []tensorInfo `json:"tensors"`
	Types       []typeCount  `json:"types"`
	Elements    int64        `json:"elements"`
	Bytes       int64        `json:"bytes"`
	Metadata    []metaEntry  `json:"metadata"`
}

// description is the library's Info for scripts.
type description struct {
	Arch       string `json:"architecture"`
	Name       string `json:"name,omitempty"`
	Layers     int    `json:"layers"`
	Dim        int    `json:"dim"`
	Heads      int    `json:"heads"`
	KVHeads    int    `json:"kv_heads"`
	HeadDim    int    `json:"head_dim"`
	FFN        int    `json:"ffn"`
	Vocab      int    `json:"vocab"`
	MaxTokens  int    `json:"max_tokens"`
	Embeds     bool   `json:"can_embed"`
	Generates  bool   `json:"can_generate"`
	Chats      bool   `json:"chat_template"`
	Pooling    string `json:"pooling,omitempty"`
	Parameters int64  `json:"parameters"`
	Cost       cost   `json:"cost_per_token"`
	// Compute is what this machine makes of it.
	Compute *compute `json:"compute"`
}

// cost is what one token costs, and each token that it attends to besides.
type cost struct {
	FLOPs          int64  `json:"flops"` // 0 where the library cannot tell
	AttentionFLOPs int64  `json:"attention_flops_per_context_token"`
	KVBytes        int64  `json:"kv_bytes,omitempty"`
	KVType         string `json:"kv_type,omitempty"`
}

type tensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Dims  []int  `json:"dims"` // outermost first
	Bytes int64  `json:"bytes,omitempty"`
	// Unread: hotpath does not read this encoding, or so many dimensions.
	Unread bool `json:"unread,omitempty"`
}

type typeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes,omitempty"`
}

func newInspect(std streams) *cobra.Command {
	var format formatFlag
	var tensors, calibrate bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "What is in a model: architecture, shapes, types, sizes, cost per token",
		Long: `What is in a model: architecture, shapes, types, sizes, cost per token, and the
compute classes that this machine uses for its products. Only headers are read.

--calibrate runs the model and measures how the default compute class, and faster
ones, change its vectors against f32. The figures are kept in the user's cache
and shown from then on. A faster class is used if every cosine is at least
0.9995; HOTPATH_CALIBRATION=off ignores the figures.`,
		Example: `  hotpath inspect model.gguf
  hotpath inspect model.gguf --tensors
  hotpath inspect all-MiniLM-L6-v2 --calibrate
  hotpath inspect all-MiniLM-L6-v2 --format json`,
		Args: fileArgs(cobra.ExactArgs(1), "MODEL"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			path, err := modelPath(cmd.Context(), paths[0])
			if err != nil {
				return err
			}
			var found *hotpath.PrecisionReport
			if calibrate {
				r, err := hotpath.CalibratePrecision(cmd.Context(), path, hotpath.Options{})
				if err != nil {
					return notPulled(path, err)
				}
				if r.Note != "" {
					fmt.Fprintln(std.err, "hotpath: inspect --calibrate:", oneLine(r.Note))
				}
				found = &r
			}
			in, err := inspect(path)
			if err != nil {
				return err
			}
			if found != nil && in.Config != nil {
				in.Config.Compute.Calibration = newCalibration(found)
			}
			if format.value == "json" {
				return document(std.out, in)
			}
			return in.print(std.out, tensors)
		},
	}
	format.addFlag(cmd, "text", "json")
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list every tensor in the text output too")
	cmd.Flags().BoolVar(&calibrate, "calibrate", false, "measure how compute classes change the model's vectors, and keep it")
	return cmd
}

// inspect reads headers only; no weight is touched.
func inspect(path string) (in *inspection, err error) {
	st, err := weights.Open(path)
	if err != nil {
		return nil, notPulled(path, err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	in = &inspection{Path: path, Format: st.Format().String(), Arch: architecture(st), Vocabulary: readVocabulary(path, st)}
	if err := in.listTensors(st); err != nil {
		return nil, err
	}
	if f := st.GGUF(); f != nil {
		in.Metadata = ggufMetadata(f)
	} else {
		in.Metadata = configMetadata(st.HF().Config)
	}
	if len(in.Tensors) == 0 {
		in.Unsupported = path + ": it holds no weights"
		return in, nil
	}
	in.Config, err = describe(path)
	if errors.Is(err, weights.ErrUnsupported) || errors.Is(err, weights.ErrNoTensor) {
		in.Unsupported, err = err.Error(), nil
	}
	return in, err
}

func (in *inspection) listTensors(st *weights.Store) error {
	in.Tensors = []tensorInfo{}
	counts := map[string]*typeCount{}
	add := func(t tensorInfo) {
		in.Tensors = append(in.Tensors, t)
		elements, err := format.ByteSize(t.Dims, 1, 1)
		if err != nil {
			elements = 0 // dimensions of an unknown encoding are not checked against any bytes
		}
		n := int64(elements)
		c := counts[t.Type]
		if c == nil {
			c = &typeCount{Type: t.Type}
			counts[t.Type] = c
		}
		c.Tensors++
		c.Elements += n
		c.Bytes += t.Bytes
		in.Elements += n
		in.Bytes += t.Bytes
	}
	for _, name := range st.Names() {
		t, err := st.Get(name)
		if err == nil {
			add(tensorInfo{Name: name, Type: t.DType.Info().Name, Dims: t.Dims, Bytes: int64(len(t.Data))})
			continue
		}
		// Encodings that hotpath does not read are still worth listing; tables
		// of positions in I64 lie beside many encoders.
		if !errors.Is(err, weights.ErrUnsupported) {
			return err
		}
		encoding, dims, _ := st.Describe(name)
		add(tensorInfo{Name: name, Type: encoding, Dims: dims, Unread: true})
	}
	in.Types = []typeCount{}
	for _, c := range counts {
		in.Types = append(in.Types, *c)
	}
	slices.SortFunc(in.Types, func(a, b typeCount) int {
		return cmp.Or(cmp.Compare(b.Elements, a.Elements), cmp.Compare(a.Type, b.Type))
	})
	return nil
}

func describe(path string) (_ *description, err error) {
	m, err := hotpath.Open(path, hotpath.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	// A tensor in an encoding that is not read (a table of positions in I64)
	// does not keep a model from running; Info has filled in the rest.
	i, err := m.Info()
	if err != nil && !errors.Is(err, hotpath.ErrUnsupported) {
		return nil, err
	}
	return &description{
		Arch: i.Arch, Name: i.Name, Layers: i.Layers, Dim: i.Dim, Heads: i.Heads, KVHeads: i.KVHeads, HeadDim: i.HeadDim,
		FFN: i.FFN, Vocab: i.Vocab, MaxTokens: i.MaxTokens, Embeds: i.CanEmbed, Generates: i.CanGenerate,
		Chats: i.ChatTemplate, Pooling: i.Pooling, Parameters: i.Params,
		Cost: cost{
			FLOPs:          i.FLOPsPerToken,
			AttentionFLOPs: 4 * int64(i.Layers) * int64(i.Heads) * int64(i.HeadDim), // scores, and the sum of values
			KVBytes:        i.KVBytesPerToken,
			KVType:         i.KVType,
		},
		Compute: newCompute(i),
	}, nil
}
