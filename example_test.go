package hotpath_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"hotpath"
)

func ExampleModel_Embed() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	vectors, err := m.Embed(context.Background(), []string{"a stitch in time"}, hotpath.EmbedOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(vectors), len(vectors[0]) == m.Dim())
	// Output: 1 true
}

// Where the program imports hotpath/cuda or hotpath/opencl, "auto" takes a card if it is
// faster for what the model is opened for. Two short texts are not worth opening one.
func ExampleOptions_device() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{
		Device: "auto",
		Expect: hotpath.Workload{Texts: 2, Tokens: 20},
	})
	if errors.Is(err, hotpath.ErrDevice) {
		fmt.Println("the card failed:", err) // never with auto, which takes the CPU then
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Device, m.DeviceNote() == "", m.DeviceChoice() != "")
	// Output: cpu true true
}

// Any number of texts, here three, in bounded memory.
func ExampleModel_EmbedStream() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	texts := func(yield func(string, error) bool) {
		for s := bufio.NewScanner(strings.NewReader("a stitch in time\n\nsaves nine")); s.Scan(); {
			if !yield(s.Text(), nil) {
				return
			}
		}
	}
	for e, err := range m.EmbedStream(context.Background(), texts, hotpath.EmbedOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Index, e.Tokens, len(e.Vector) == m.Dim())
	}
	// Output:
	// 0 9 true
	// 1 2 true
	// 2 7 true
}

func ExampleModel_Rerank() {
	m, err := hotpath.Open("internal/model/testdata/encoders/rerank-bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	docs := []string{"on the hill", "by the sea"}
	ranked, err := m.Rerank(context.Background(), "where is the harbour", docs)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(ranked), ranked[0].Score >= ranked[1].Score)
	// Output: 2 true
}

func ExampleModel_Tokenize() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	ids := m.Tokenize("in time", true)
	for _, id := range ids {
		fmt.Print(m.Token(id), " ")
	}
	fmt.Println(m.Detokenize(ids, false))
	// Output: [CLS] in time [SEP] in time
}

func ExampleModel_Info() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Arch, info.EmbedDim, info.Pooling, info.MaxTokens, info.CanEmbed, info.CanGenerate)
	// Output: bert 32 mean 96 true false
}

// A text that is too long can be an error instead of being cut.
func ExampleTooLongError() {
	m, err := hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	texts := []string{"short", strings.Repeat("rain ", 100)}
	_, err = m.Embed(context.Background(), texts, hotpath.EmbedOptions{NoTruncate: true})
	var long *hotpath.TooLongError
	if errors.As(err, &long) {
		fmt.Println(long.Index, long.Max, errors.Is(err, hotpath.ErrTooLong))
	}
	// Output: 1 96 true
}

func ExampleOpen() {
	_, err := hotpath.Open("README.md", hotpath.Options{})
	fmt.Println(errors.Is(err, hotpath.ErrNotModel))
	_, err = hotpath.Open("internal/testmodels/testdata/bert", hotpath.Options{Precision: "f64"})
	fmt.Println(errors.Is(err, hotpath.ErrInput))
	// Output:
	// true
	// true
}

func ExampleModel_Generate() {
	m, err := hotpath.Open("internal/testmodels/testdata/llama", hotpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	n := 0
	o := hotpath.GenerateOptions{MaxTokens: 5, Temperature: 0.8, Seed: 1, Raw: true, IgnoreEOS: true}
	for tok, err := range m.Generate(context.Background(), "Rain fell on", o) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if tok.ID >= 0 {
			n++
		}
	}
	fmt.Println(n, "tokens")
	// Output: 5 tokens
}
