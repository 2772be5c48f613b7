package main

import "hotpath"

// About what texts have.
const (
	bytesPerToken = 4
	tokensPerText = 32 // of a file
	together      = 64 // prompts that are answered at a time
)

// expect is about what the texts ask of a model, with so many tokens generated for each.
// It is nothing if nobody knows how much there is to read.
func (t *texts) expect(generate int) hotpath.Workload {
	if t.bytes == 0 {
		return hotpath.Workload{}
	}
	tokens := int(t.bytes/bytesPerToken) + 2
	texts := t.count
	if texts == 0 {
		texts = max(1, tokens/tokensPerText)
	}
	return hotpath.Workload{Texts: texts, Tokens: tokens, Generate: generate * ((texts + together - 1) / together)}
}
