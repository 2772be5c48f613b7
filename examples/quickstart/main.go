// Quickstart embeds texts with a model and compares the first with the others:
//
//	go run . MODEL "a cat on a mat" "a dog in the fog" "the stock market"
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"hotpath"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: quickstart MODEL TEXT TEXT...")
	}
	m, err := hotpath.Open(os.Args[1], hotpath.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	vectors, err := m.Embed(context.Background(), os.Args[2:], hotpath.EmbedOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for i, v := range vectors[1:] {
		var dot float32
		for k := range v {
			dot += v[k] * vectors[0][k]
		}
		fmt.Printf("%.3f %s\n", dot, os.Args[i+3])
	}
}
