package train

import (
	"context"
	"math"

	"hotpath/internal/dataset"
	"hotpath/internal/format/jsonview"
)

// single writes one text as a sequence of its own.
func (e *encoder) single(l *dataset.Line, v jsonview.Value) error {
	text, _ := v.Text()
	begin := len(e.out.ids)
	e.out.ids = e.ids(e.out.ids, text, true, false)
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	e.unmarked()
	return e.sequence(begin, at(l, v))
}

// unmarked gives new tokens no flags, where others have some.
func (e *encoder) unmarked() {
	for e.spec.kind.flagged() && len(e.out.flags) < len(e.out.ids) {
		e.out.flags = append(e.out.flags, 0)
	}
}

// pairs is an anchor, its positive and hard negatives, by the order of columns.
func (e *encoder) pairs(l *dataset.Line) error {
	texts := textColumns(l.Object)
	if len(texts) < 2 || len(texts) > maxSeqs {
		return l.ErrorAt(l.Object, "fields %s: %d columns of text, expected 2 to %d: an anchor, its positive, and negatives", shownKeys(l.Object), len(texts), maxSeqs)
	}
	for _, v := range texts {
		if err := e.single(l, v); err != nil {
			return err
		}
	}
	e.example(0)
	return nil
}

// scored is one text, or two that are compared, with a number.
func (e *encoder) scored(l *dataset.Line) error {
	texts := textColumns(l.Object)
	if v, ok := l.Object.Get("text"); ok {
		texts = []jsonview.Value{v}
		if _, err := l.Text("text"); err != nil {
			return err
		}
	}
	if len(texts) == 0 || len(texts) > 2 {
		return l.ErrorAt(l.Object, "fields %s: %d columns of text beside \"score\", expected 1 or 2", shownKeys(l.Object), len(texts))
	}
	v, ok := l.Object.Get("score")
	score, isNumber := v.Float()
	if !ok || !isNumber || math.Abs(score) > math.MaxFloat32 {
		found := "none"
		if ok {
			found = string(v.Raw())
		}
		return l.ErrorAt(fieldOr(l, v, ok), "field \"score\": expected a number that fits 32 bits, found %.*s", maxShown, found)
	}
	for _, text := range texts {
		if err := e.single(l, text); err != nil {
			return err
		}
	}
	e.example(score)
	return nil
}

// fieldOr is a field, or the object where it has none.
func fieldOr(l *dataset.Line, v jsonview.Value, ok bool) jsonview.Value {
	if ok {
		return v
	}
	return l.Object
}

// labelled is one text, or a pair in one sequence, with a class.
func (e *encoder) labelled(l *dataset.Line) error {
	texts := textColumns(l.Object)
	if v, ok := l.Object.Get("text"); ok {
		texts = []jsonview.Value{v}
		if _, err := l.Text("text"); err != nil {
			return err
		}
	}
	if len(texts) == 0 || len(texts) > 2 {
		return l.ErrorAt(l.Object, "fields %s: %d columns of text beside \"label\", expected 1 or 2", shownKeys(l.Object), len(texts))
	}
	v, ok := l.Object.Get("label")
	label, isInt := v.Int()
	most := maxLabel
	if e.spec.labels > 0 {
		most = e.spec.labels - 1
	}
	if !ok || !isInt || label < 0 || label > int64(most) {
		found := "none"
		if ok {
			found = string(v.Raw())
		}
		return l.ErrorAt(fieldOr(l, v, ok), "field \"label\": expected a class, a whole number from 0 to %d, found %.*s", most, maxShown, found)
	}
	if len(texts) == 1 {
		if err := e.single(l, texts[0]); err != nil {
			return err
		}
	} else if err := e.pair(l, texts[0], texts[1]); err != nil {
		return err
	}
	e.example(float64(label))
	return nil
}

// maxLabel is the largest class; a float32 holds it exactly.
const maxLabel = 1 << 20

// pair writes two texts as one sequence, as a cross-encoder reads them.
func (e *encoder) pair(l *dataset.Line, a, b jsonview.Value) error {
	p, err := e.spec.pairs()
	if err != nil {
		return l.ErrorAt(l.Object, "a pair of texts: %v", err)
	}
	one, _ := a.Text()
	two, _ := b.Text()
	begin := len(e.out.ids)
	e.pairing.Done = e.ctx.Done()
	var whole int
	e.part = e.part[:0]
	e.out.ids, e.part, whole = p.Append(e.out.ids, e.part, one, two, &e.pairing)
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	e.unmarked()
	for i, segment := range e.part {
		if segment != 0 {
			e.out.flags[begin+i] |= flagSecond
		}
	}
	if n := len(e.out.ids) - begin; whole > n && !e.spec.truncate {
		return l.ErrorAt(l.Object, "%d tokens, expected at most %d: shorten it, or set truncate", whole, n)
	}
	return e.sequence(begin, at(l, l.Object))
}
