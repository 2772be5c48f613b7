// Command tokbench times the tokenizer for scripts/bench_tokenizers.py, which holds it against another:
//
//	tokbench TOKENIZER TEXT
//
// TOKENIZER is a tokenizer.json or a .gguf file, TEXT a file. It reads words from standard input, and for
// each it prints the seconds and the number of tokens of one pass over the text: lines, document, or
// batch, which is the lines on all threads.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tokenizer"
)

func main() {
	if err := runBench(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tokbench:", err)
		os.Exit(1)
	}
}

func runBench(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("expected TOKENIZER and TEXT")
	}
	tok, err := open(args[0])
	if err != nil {
		return err
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	text := string(data)
	lines := strings.Split(text, "\n")
	var b tokenizer.Batch
	o := tokenizer.Options{Special: true, ParseSpecial: true}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		texts, threads := lines, 1
		switch in.Text() {
		case "document":
			texts = []string{text}
		case "batch":
			threads = 0
		case "lines":
		default:
			return fmt.Errorf("%q, expected lines, document or batch", in.Text())
		}
		start := time.Now()
		tok.EncodeBatch(&b, texts, o, threads)
		took := time.Since(start)
		count := 0
		for i := range b.Len() {
			count += len(b.IDs(i))
		}
		fmt.Println(took.Seconds(), count)
	}
	return in.Err()
}

func open(path string) (*tokenizer.Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(path, ".gguf") {
		return tokenizer.FromJSON(path, data, nil)
	}
	file, err := gguf.Parse(path, data)
	if err != nil {
		return nil, err
	}
	return tokenizer.FromGGUF(file)
}
