package hotpath_test

import (
	"context"
	"fmt"

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
