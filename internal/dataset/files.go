// Package dataset reads the files of training data: it finds them, cuts them
// into blocks of whole lines that workers share, and reads JSON lines.
//
// It imports format/jsonview; tokenizer/learn and train import it. Errors wrap
// ErrData, or are those of the system or the context, and name the file, and
// the line and the column where there are any.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrData reports training data that cannot be used.
var ErrData = errors.New("invalid training data")

// maxFile bounds a file.
const maxFile = 1 << 46

// File is one file of training data.
type File struct {
	Path  string
	Size  int64
	Lines bool // it holds a JSON object per line
}

// Files finds the files that paths name, in the order of paths and of names
// within a directory, of which the .txt and .jsonl files count.
func Files(ctx context.Context, paths []string) ([]File, error) {
	var files []File
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if files, err = addFile(files, path, info); err != nil {
				return nil, err
			}
			continue
		}
		before := len(files)
		root := filepath.Clean(path) + string(filepath.Separator) // walks a directory that is a link, too
		err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil || d.IsDir() || !isText(file) {
				return err
			}
			info, err := os.Stat(file)
			if err == nil {
				files, err = addFile(files, file, info)
			}
			return err
		})
		if err == nil && len(files) == before {
			err = fmt.Errorf("%s: no .txt and no .jsonl file in this directory: %w", path, ErrData)
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func isText(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".txt" || ext == ".jsonl"
}

// addFile takes a regular file: opening a pipe would wait for its writer.
func addFile(files []File, path string, info fs.FileInfo) ([]File, error) {
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: expected a regular file: %w", path, ErrData)
	}
	return append(files, File{Path: path, Size: info.Size(), Lines: strings.EqualFold(filepath.Ext(path), ".jsonl")}), nil
}
