//go:build !nomodels

package builtin

import (
	_ "embed"
	"unsafe"
)

//go:embed hotpath-embedder.gguf
var embedder string

//go:embed hotpath-generator.gguf
var generator string

var models = []Model{{Embedder, bytesOf(embedder)}, {Generator, bytesOf(generator)}}

// bytesOf is s where it lies, so that pages are read from the program's file
// when they are first needed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
