package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath"
)

// state is what this run makes, for openResume.
func (e *embedding) state(ctx context.Context, f *embedFlags, format *vectorFormat) (resumeState, error) {
	info, err := e.model.Info()
	if err != nil {
		return resumeState{}, err
	}
	digest, err := e.model.Digest(ctx)
	if err != nil {
		return resumeState{}, err
	}
	// Options that do not suit the model are refused before there is a file.
	o := e.options
	v, err := e.model.Embed(ctx, []string{"text"}, hotpath.EmbedOptions{
		Pooling: o.Pooling, NoNormalize: o.NoNormalize, Dim: o.Dim, Task: o.Task, Prompt: o.Prompt, PromptName: o.PromptName, NoPrompt: o.NoPrompt,
	})
	if errors.Is(err, hotpath.ErrInput) {
		return resumeState{}, &usageError{err} // the options do not suit the model
	}
	if err != nil {
		return resumeState{}, err
	}
	// The classes are part of the precision: what auto means depends on the
	// machine and on what was calibrated.
	classes := map[string]bool{}
	for _, c := range info.Classes {
		classes[c.Class] = true
	}
	precision := strings.TrimSpace(info.Precision + " " + strings.Join(slices.Sorted(maps.Keys(classes)), "+"))
	return resumeState{
		Model:    fmt.Sprintf("%s %s of %d parameters in %d bytes", info.Arch, info.Name, info.Params, info.BytesOnDisk),
		Content:  digest,
		Options:  fmt.Sprintf("precision %s, pooling %q, normalize %t, task %q, prompt %q %q %t, truncate %t, chunks %t %d %d", precision, o.Pooling, !o.NoNormalize, o.Task, o.PromptName, o.Prompt, !o.NoPrompt, !o.NoTruncate, o.Chunk, o.ChunkTokens, o.ChunkOverlap),
		Format:   format.name,
		Quantize: f.quantize,
		Dim:      len(v[0]),
	}, nil
}

// endResumed completes an output that grew in place.
func (e *embedding) endResumed() error {
	if err := e.resume.missing(); err != nil {
		return err
	}
	if e.resume.seen == e.resume.skip {
		if err := e.resume.begin(); err != nil {
			return err
		}
	}
	if err := e.out.flush(); err != nil {
		return err
	}
	if e.out.format.header > 0 {
		if _, err := e.out.file.WriteAt([]byte(e.out.header()), 0); err != nil {
			return err
		}
	}
	if err := e.resume.save(e.out.n, e.out.failed, true); err != nil {
		return err
	}
	return e.out.end()
}

// interrupted keeps what is done of a run that an error or a signal ended.
func (e *embedding) interrupted() {
	// An error now has a reason already, and what is not kept is made again.
	if err := e.out.flush(); err != nil || e.resume == nil {
		return
	}
	if r := e.resume; r.seen > r.skip && r.seen == e.out.n {
		_ = r.save(e.out.n, e.out.failed, false)
	}
}
