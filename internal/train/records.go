package train

import (
	"fmt"
	"slices"
	"strings"

	"hotpath/internal/dataset"
	"hotpath/internal/format/jsonview"
)

// recordForm is a form that objects of a .jsonl file can have.
type recordForm struct {
	name   string
	fields []string // that an object must have
	kind   Kind
	make   func(e *encoder, l *dataset.Line) error
}

// recordForms are looked through in this order.
var recordForms = []*recordForm{
	{"chat", []string{"messages"}, Answer, (*encoder).chat},
	{"preference", []string{"chosen", "rejected"}, Preference, (*encoder).preference},
	{"instruction", []string{"instruction", "output"}, Answer, (*encoder).instruction},
	{"completion", []string{"prompt", "completion"}, Answer, (*encoder).completion},
	{"scored text", []string{"text", "score"}, Scored, (*encoder).scored},
	{"labelled text", []string{"text", "label"}, Labelled, (*encoder).labelled},
	{"text", []string{"text"}, Text, (*encoder).document},
}

// Forms of two or more columns of text with any names.
var (
	pairForm       = &recordForm{"pairs", nil, Pairs, (*encoder).pairs}
	scoredColumns  = &recordForm{"scored pairs", nil, Scored, (*encoder).scored}
	labelledColumn = &recordForm{"labelled pairs", nil, Labelled, (*encoder).labelled}
)

// reserved are the columns that are no texts.
var reserved = []string{"label", "score"}

// dataSynonyms are what other programs call the fields, by their names here.
var dataSynonyms = map[string]string{
	"conversations": "messages", "conversation": "messages", "dialogue": "messages",
	"content": "text", "body": "text", "document": "text",
	"response": "output", "answer": "output", "question": "instruction", "query": "instruction",
	"accepted": "chosen", "preferred": "chosen", "refused": "rejected", "target": "label", "class": "label", "similarity": "score",
}

// formOf finds the form of the first object of the data. With plain, a field text is
// a document even if the object has other fields, such as a label or a score.
func formOf(l *dataset.Line, plain bool) (*recordForm, error) {
	has := func(name string) bool { _, ok := l.Object.Get(name); return ok }
	for _, form := range recordForms {
		if plain && (form.kind == Scored || form.kind == Labelled) {
			continue
		}
		if allOf(form.fields, has) {
			return form, nil
		}
	}
	// A field of a known form that stands alone is a mistake, not a column.
	known := has("chosen") || has("rejected") || has("instruction") || has("completion")
	if n := len(textColumns(l.Object)); n >= 2 && !known && !misspelt(l.Object) {
		switch {
		case has("score"):
			return scoredColumns, nil
		case has("label"):
			return labelledColumn, nil
		}
		return pairForm, nil
	}
	return nil, l.ErrorAt(l.Object, "fields %s: expected %s%s", shownKeys(l.Object), wantedFields, suggestion(l.Object))
}

const wantedFields = `"text", "messages", "instruction" and "output", "prompt" and "completion", "chosen" and "rejected", or two or more columns of text`

func allOf(names []string, has func(string) bool) bool {
	for _, name := range names {
		if !has(name) {
			return false
		}
	}
	return true
}

// fits reports an object that lacks a field of the form, which the objects
// before it have.
func (form *recordForm) fits(l *dataset.Line) error {
	for _, name := range form.fields {
		if _, ok := l.Object.Get(name); !ok {
			return l.ErrorAt(l.Object, "fields %s: expected %q, as the objects before it have (%s)%s", shownKeys(l.Object), name, form.name, suggestion(l.Object))
		}
	}
	return nil
}

// textColumns are the texts of an object, in the order of its fields: strings, and
// the strings of lists.
func textColumns(object jsonview.Value) []jsonview.Value {
	var texts []jsonview.Value
	for key, v := range object.Members() {
		name, _ := key.Text()
		switch {
		case slices.Contains(reserved, name):
		case v.Kind() == jsonview.String:
			texts = append(texts, v)
		case v.Kind() == jsonview.Array:
			for item := range v.Items() {
				if item.Kind() == jsonview.String {
					texts = append(texts, item)
				}
			}
		}
	}
	return texts
}

func keysOf(object jsonview.Value) (names []string) {
	for key := range object.Members() {
		name, _ := key.Text()
		names = append(names, name)
	}
	return names
}

// shownKeys are the first fields of an object, for errors.
func shownKeys(object jsonview.Value) string {
	names := keysOf(object)
	if len(names) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, name := range names[:min(len(names), 5)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.40q", name)
	}
	if len(names) > 5 {
		fmt.Fprintf(&b, " and %d more", len(names)-5)
	}
	return b.String()
}

// fieldNames are all that recordForms ask for.
func fieldNames() []string {
	names := slices.Clone(reserved)
	for _, form := range recordForms {
		names = append(names, form.fields...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// misspelt reports whether an object has one field of a form, and another field whose
// name is close to a field of that form but is not one.
func misspelt(object jsonview.Value) bool {
	names := keysOf(object)
	for _, name := range names {
		near := nearest(name, fieldNames(), nil)
		if near == "" || near == name || slices.Contains(reserved, near) {
			continue
		}
		for _, form := range recordForms {
			rest := slices.DeleteFunc(slices.Clone(form.fields), func(f string) bool { return f == near })
			if slices.Contains(form.fields, near) && len(rest) > 0 && allOf(rest, func(f string) bool { return slices.Contains(names, f) }) {
				return true
			}
		}
	}
	return false
}

// suggestion is the nearest right word for the first field that is none.
func suggestion(object jsonview.Value) string {
	all := fieldNames()
	for _, name := range keysOf(object) {
		if slices.Contains(all, name) {
			continue
		}
		if near := nearest(name, all, dataSynonyms); near != "" {
			return fmt.Sprintf(" (did you mean %q for %.40q?)", near, name)
		}
	}
	return ""
}
