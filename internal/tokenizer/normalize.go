package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before it is cut into pieces. src is valid UTF-8; normalize appends to dst.
// A normalizer that needs buffers takes them from s.norm[1] on; s.norm[0] is the caller's.
type normalizer interface {
	normalize(dst, src []byte, s *Scratch) []byte
	growth() growth
}

// normalizers holds the normalizers of tokenizer.json by type. A nil normalizer changes nothing.
var normalizers map[string]func(p *jsonPart) (normalizer, error)

func init() { // a Sequence reads the table that it stands in
	normalizers = map[string]func(p *jsonPart) (normalizer, error){
		"BertNormalizer": readBertNormalizer,
		"NFC":            fixed[normalizer](form{norm.NFC}),
		"NFD":            fixed[normalizer](form{norm.NFD}),
		"NFKC":           fixed[normalizer](form{norm.NFKC}),
		"NFKD":           fixed[normalizer](form{norm.NFKD}),
		"Lowercase":      fixed[normalizer](lowercase{}),
		"StripAccents":   fixed[normalizer](stripMarks{classMark}),
		"Sequence":       readNormalizerSequence,
		"Strip":          readStrip,
		"Replace":        readReplace,
		"Prepend":        readPrepend,
		"Nmt":            fixed[normalizer](nmt{}),
		"Precompiled":    readPrecompiled,
		"ByteLevel":      fixed[normalizer](spellBytes{}),
	}
}

// fixed makes a table's entry of a part that has no settings.
func fixed[T any](v T) func(*jsonPart) (T, error) {
	return func(*jsonPart) (T, error) { return v, nil }
}

// normalizerChain applies one after the other.
type normalizerChain []normalizer

func readNormalizerSequence(p *jsonPart) (normalizer, error) {
	parts, err := p.list("normalizers")
	if err != nil {
		return nil, err
	}
	var chain normalizerChain
	total := same
	for _, part := range parts {
		n, err := lookup(normalizers, part)
		if err != nil {
			return nil, err
		}
		total = total.then(n.growth())
		if err := part.within(total); err != nil {
			return nil, err
		}
		if inner, ok := n.(normalizerChain); ok {
			chain = append(chain, inner...) // flat, so that the two buffers suffice
		} else {
			chain = append(chain, n)
		}
	}
	return chain, nil
}

func (c normalizerChain) normalize(dst, src []byte, s *Scratch) []byte {
	for i, n := range c {
		if i == len(c)-1 {
			return n.normalize(dst, src, s)
		}
		buf := &s.norm[1+i%2]
		*buf = n.normalize((*buf)[:0], src, s)
		src = *buf
	}
	return append(dst, src...)
}

// follower is a normalizer that knows itself what becomes of the first character: of the n bytes of src that
// come from it. The others are asked with a text that ends behind it.
type follower interface {
	follow(src []byte, n int, s *Scratch) int
}

// follow normalizes, and tells how many bytes of the result come from the first n of src, which come from the
// first character of the text. To the reference every piece that begins among them is the first one, and if
// there are none, no piece is.
func follow(norm normalizer, dst, src []byte, n int, s *Scratch) ([]byte, int) {
	chain, ok := norm.(normalizerChain)
	if !ok {
		chain = normalizerChain{norm}
	}
	for i, norm := range chain {
		buf := &s.norm[1+i%2]
		*buf = norm.normalize((*buf)[:0], src, s)
		if f, ok := norm.(follower); ok {
			n = f.follow(src, n, s)
		} else {
			n = followClip(norm, *buf, src[:n], s)
		}
		src = *buf
	}
	return append(dst, src...), n
}

func followClip(norm normalizer, out, first []byte, s *Scratch) int {
	s.clip = append(append(s.clip[:0], first...), 'a')
	s.text = norm.normalize(s.text[:0], s.clip, s)
	s.spare = norm.normalize(s.spare[:0], s.clip[len(first):], s)
	n := len(s.text) - len(s.spare)
	if n <= 0 || bytes.HasPrefix(out, s.text[:n]) {
		return max(0, n)
	}
	// It was joined with what follows, or marks have changed places: what still is as it was, and the rune
	// that the rest went into.
	for n = 0; n < len(out); {
		_, size := utf8.DecodeRune(out[n:])
		same := n+size <= len(s.text) && bytes.Equal(out[n:n+size], s.text[n:n+size])
		if n += size; !same {
			break
		}
	}
	return n
}

type lowercase struct{}

func (lowercase) normalize(dst, src []byte, _ *Scratch) []byte {
	for i := 0; i < len(src); {
		if c := src[i]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		dst = appendLower(dst, r)
		i += n
	}
	return dst
}

// stripMarks removes the characters of a class.
type stripMarks struct{ class class }

func (m stripMarks) normalize(dst, src []byte, _ *Scratch) []byte {
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			dst = append(dst, src[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		if !classOf(r).is(m.class) {
			dst = append(dst, src[i:i+n]...)
		}
		i += n
	}
	return dst
}

// form is a Unicode normalization form.
type form struct{ f norm.Form }

func (n form) normalize(dst, src []byte, _ *Scratch) []byte {
	for len(src) > 0 {
		// Characters newer than the reference's tables stay as they are, and part the text for it.
		end, skip, marks := len(src), 0, 0
		for i := 0; i < len(src); {
			if src[i] < utf8.RuneSelf {
				i++
				marks = 0
				continue
			}
			r, size := utf8.DecodeRune(src[i:])
			if classOf(r).is(classVerbatim) {
				end, skip = i, size
				break
			}
			if norm.NFKD.Properties(src[i:i+size]).CCC() != 0 || classOf(r).is(classMark) {
				marks++
			} else {
				marks = 0
			}
			if marks > maxMarks {
				return n.long(dst, src)
			}
			i += size
		}
		tail := n.f.Append(dst[len(dst):], src[:end]...) // apart: it would look back at what stays as it is
		dst = append(dst, tail...)
		dst = append(dst, src[end:end+skip]...)
		src = src[end+skip:]
	}
	return dst
}

// maxMarks is how many marks in a row x/text normalizes as Unicode says; beyond 30 (and each may
// decompose into two) it inserts U+034F to make the text "stream-safe", which the reference does not.
const maxMarks = 10

// long normalizes text with long runs of marks, character by character.
func (n form) long(dst, src []byte) []byte {
	decompose, compose := norm.NFD, n.f == norm.NFC || n.f == norm.NFKC
	if n.f == norm.NFKC || n.f == norm.NFKD {
		decompose = norm.NFKD
	}
	type char struct {
		r   rune
		ccc uint8
	}
	var chars []char
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		d := decompose.Bytes(src[i : i+size])
		if classOf(r).is(classVerbatim) {
			d = src[i : i+size]
		}
		for len(d) > 0 {
			r, n := utf8.DecodeRune(d)
			chars = append(chars, char{r, norm.NFD.Properties(d[:n]).CCC()})
			d = d[n:]
		}
		i += size
	}
	for i := 0; i < len(chars); {
		j := i + 1
		for j < len(chars) && chars[j].ccc != 0 {
			j++
		}
		run := chars[i:j]
		slices.SortStableFunc(run, func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = j
	}
	if compose {
		// starter is the last one with class 0; last the class of what was kept after it.
		out, starter, last := chars[:0], -1, uint8(0)
		for _, c := range chars {
			if starter >= 0 && (starter == len(out)-1 || last < c.ccc && last != 0) {
				if r, ok := composed(out[starter].r, c.r); ok {
					out[starter].r = r
					continue
				}
			}
			out = append(out, c)
			if last = c.ccc; c.ccc == 0 {
				starter = len(out) - 1
			}
		}
		chars = out
	}
	for _, c := range chars {
		dst = utf8.AppendRune(dst, c.r)
	}
	return dst
}

// composed gives the one character that canonically equals a and b.
func composed(a, b rune) (rune, bool) {
	var buf [16]byte
	c := norm.NFC.AppendString(buf[:0], string([]rune{a, b}))
	r, n := utf8.DecodeRune(c)
	return r, n == len(c)
}
