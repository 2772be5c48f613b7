package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wholeTexts are the endings of files that are one text each.
var wholeTexts = []string{".txt", ".md"}

// folder reads the files of a folder and of those in it, by name: a .txt or
// .md file is one text, a .jsonl file one object a line. --input lines and
// jsonl make every one of these files what they say. Other files and hidden
// ones are left alone.
func (t *texts) folder(f *textFlags, std streams) error {
	var files []string
	root := filepath.Clean(f.file) + string(filepath.Separator) // walks a folder that is a link, too
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
		case isText(path) && regular(path, d):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: the directory holds no text: expected files that end in .jsonl, %s", f.file, strings.Join(wholeTexts, ", "))
	}
	if err != nil {
		return err
	}
	t.progress = newCount(len(files), std)
	t.start(func() error {
		for _, path := range files {
			if err := t.readFile(f, path); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func isText(path string) bool {
	ending := filepath.Ext(path)
	return ending == ".jsonl" || slices.Contains(wholeTexts, ending)
}

// regular follows links: a pipe would never end.
func regular(path string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readFile reads one file of a folder. Its name goes with its texts.
func (t *texts) readFile(f *textFlags, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	name, err := filepath.Rel(f.file, path)
	if err != nil {
		return err
	}
	quoted, _ := json.Marshal(filepath.ToSlash(name)) // a string always encodes
	carry := []field{{"file", quoted}}
	if objects := inputKinds[f.input](path); objects || f.input == "lines" {
		defer t.progress.addDone(1, 0) // when it was read: its lines come later
		return t.lines(path, file, f.parser(objects), carry)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(file, maxLine+1)); err != nil {
		return err
	}
	in := text{where: path, size: 1, body: strings.TrimRight(strings.TrimPrefix(body.String(), "\ufeff"), "\r\n"), carry: carry}
	if body.Len() > maxLine {
		in.body, in.err = "", errors.New("the text is longer than 64 MiB")
	}
	if slices.Contains(t.output, "file") {
		in.carry = nil
	}
	t.send(in)
	return nil
}
