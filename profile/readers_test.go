package profile

import "io"

// Readers are what reads profiles: packages that import this one. Tests of this
// package reach them here, because a test inside of it cannot import them.
var Readers struct {
	Text        func(w io.Writer, p *Profile) error
	Export      func(path string, p *Profile) error
	Compare     func(w io.Writer, a, b *Profile) error // nothing, where nothing ran
	EachFormat  func(p *Profile) error                 // writes it in each of them
	FlameOfLost func(w io.Writer, p *Profile) error
}
