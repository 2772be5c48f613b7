package hotpath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/model"
)

// task is a row of the table of tasks.
type task struct {
	name string
	// named are prompts of a model's own that serve the task, best first. They
	// and also are other names of it.
	named []string
	also  []string
}

// tasks are what EmbedOptions.Task can be. Names of prompts are those that
// sentence-transformers and the models that it publishes use.
var tasks = []task{
	{"query", []string{"query", "Retrieval-query", "search_query"}, []string{"retrieval", "search"}},
	{"document", []string{"document", "passage", "corpus", "Retrieval-document", "search_document"}, nil},
	{"question-answering", []string{"question-answering", "QuestionAnswering"}, []string{"qa"}},
	{"fact-verification", []string{"fact-verification", "FactChecking"}, []string{"fact-checking"}},
	{"classification", []string{"classification", "Classification"}, nil},
	{"clustering", []string{"clustering", "Clustering"}, nil},
	{"similarity", []string{"similarity", "STS", "SentenceSimilarity"}, []string{"semantic-similarity", "sentence-similarity"}},
	{"code-retrieval", []string{"code-retrieval", "CodeRetrieval"}, []string{"code"}},
}

// family is what is known of models whose files do not say it themselves.
type family struct {
	is      func(c *model.Config) bool
	prompts map[string]string // by task
	dims    []int             // that the model was trained to be cut to, its own included
}

// families is the table of them, from their model cards.
var families = []family{
	{
		// EmbeddingGemma. A document may have a title: "title: T | text: " as a
		// prompt of one's own.
		is: func(c *model.Config) bool { return c.Arch == "gemma3" && !c.Causal },
		prompts: map[string]string{
			"query":              "task: search result | query: ",
			"document":           "title: none | text: ",
			"question-answering": "task: question answering | query: ",
			"fact-verification":  "task: fact checking | query: ",
			"classification":     "task: classification | query: ",
			"clustering":         "task: clustering | query: ",
			"similarity":         "task: sentence similarity | query: ",
			"code-retrieval":     "task: code retrieval | query: ",
		},
		dims: []int{128, 256, 512, 768},
	},
	{
		is: func(c *model.Config) bool { return c.Arch == "nomic-bert" },
		prompts: map[string]string{
			"query":          "search_query: ",
			"document":       "search_document: ",
			"classification": "classification: ",
			"clustering":     "clustering: ",
		},
	},
}

func findFamily(c *model.Config) family {
	for _, f := range families {
		if f.is(c) {
			return f
		}
	}
	return family{}
}

// Tasks lists the names that EmbedOptions.Task can have. Which of them a model
// has a prompt for, Model.Info tells.
func Tasks() []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.name
	}
	return out
}

// findTask is the name of a task, however it is spelled; "" if there is none.
func findTask(name string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	for _, t := range tasks {
		for _, other := range slices.Concat([]string{t.name}, t.named, t.also) {
			if plain(name) == plain(other) {
				return t.name
			}
		}
	}
	return ""
}

// prompts are the texts that a model wants before its inputs.
type prompts struct {
	named  map[string]string // by the model's own names
	preset string            // the name of the one that is used unless asked otherwise, "" for none
	tasks  map[string]string // by task
}

// findPrompts joins what a model's files name with what is known of its family.
func findPrompts(c *model.Config) prompts {
	p := prompts{named: c.Prompts, preset: c.DefaultPrompt, tasks: map[string]string{}}
	maps.Copy(p.tasks, findFamily(c).prompts)
	for _, t := range tasks {
		for _, name := range t.named {
			if text, ok := p.named[name]; ok && (text != "" || p.tasks[t.name] == "") {
				p.tasks[t.name] = text
				break
			}
		}
	}
	return p
}

// find is the text that options ask for.
func (p *prompts) find(o *EmbedOptions) (string, error) {
	given := 0
	for _, asked := range []bool{o.Prompt != "", o.PromptName != "", o.Task != "", o.NoPrompt} {
		if asked {
			given++
		}
	}
	switch {
	case given > 1:
		return "", fmt.Errorf("%w: Prompt, PromptName, Task and NoPrompt exclude each other, expected at most one", ErrInput)
	case o.Prompt != "" || o.NoPrompt:
		return o.Prompt, nil
	case o.PromptName != "":
		text, ok := p.named[o.PromptName]
		if !ok {
			return "", fmt.Errorf("%w: prompt %q, expected one of the model's prompts: %s", ErrInput, o.PromptName, listed(p.named))
		}
		return text, nil
	case o.Task != "":
		name := findTask(o.Task)
		text, ok := p.tasks[name]
		switch {
		case name == "":
			return "", fmt.Errorf("%w: task %q, expected one of %s", ErrInput, o.Task, strings.Join(Tasks(), ", "))
		case !ok:
			return "", fmt.Errorf("%w: the model has no prompt for task %s, expected one of its tasks: %s", ErrInput, o.Task, listed(p.tasks))
		}
		return text, nil
	}
	return p.named[p.preset], nil
}

func listed(m map[string]string) string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(m)), ", "), "none")
}

// trainedDims are the lengths that the model's vectors can be cut to, nil where
// nothing is known.
func trainedDims(c *model.Config) []int {
	if c.MatryoshkaDims != nil {
		return c.MatryoshkaDims
	}
	return findFamily(c).dims
}
