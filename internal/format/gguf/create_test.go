package gguf

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// streamed is a Writer whose one tensor comes from write.
func streamed(t *testing.T, write func(io.Writer) error) *Writer {
	t.Helper()
	var w Writer
	for _, err := range []error{
		w.Set("k", "v"),
		w.AddStream("t", tensor.F32, []int{2, 3}, write),
		w.Add("u", tensor.F16, []int{1}, []byte{1, 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return &w
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	want := bytes.Repeat([]byte{7}, 24)
	w := streamed(t, func(out io.Writer) error {
		for range 6 {
			if _, err := out.Write(want[:4]); err != nil {
				return err
			}
		}
		return nil
	})
	for range 2 { // the second time over the first
		if err := w.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := mustParse(t, data).Data("t"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	onlyFile(t, path)
}

// A link stays one: what it leads to is written, whether it is there or not.
func TestWriteFileThroughLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(at("far"), 0o700), os.Symlink("far/model.gguf", at("near.gguf")), os.Symlink("near.gguf", at("nearer.gguf")),
		os.Symlink("self.gguf", at("self.gguf")), os.Symlink("none/model.gguf", at("lost.gguf")))
	if err != nil {
		t.Fatal(err)
	}
	w := streamed(t, func(out io.Writer) error { _, err := out.Write(make([]byte, 24)); return err })
	for range 2 { // the target is not there, then it is
		if err := w.WriteFile(at("nearer.gguf")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Readlink(at("nearer.gguf")); err != nil {
			t.Errorf("a link was replaced: %v", err)
		}
		if _, err := os.Readlink(at("near.gguf")); err != nil {
			t.Errorf("the link behind it was replaced: %v", err)
		}
		onlyFile(t, at("far/model.gguf"))
		if err := os.Chmod(at("far/model.gguf"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteFile(at("near.gguf")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(at("far/model.gguf")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: expected the mode that the file had", info.Mode(), err)
	}
	for name, want := range map[string]error{"self.gguf": syscall.ELOOP, "lost.gguf": os.ErrNotExist} {
		if err := w.WriteFile(at(name)); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), at(name)) {
			t.Errorf("%s: %v, expected %v", name, err, want)
		}
		if _, err := os.Readlink(at(name)); err != nil {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
}

// Whatever goes wrong, what was there stays, and nothing else does.
func TestWriteFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	for name, c := range map[string]struct {
		write func(io.Writer) error
		is    error
	}{
		"disk":  {func(io.Writer) error { return full }, full},
		"short": {func(out io.Writer) error { _, err := out.Write(make([]byte, 23)); return err }, format.ErrInvalid},
		"long":  {func(out io.Writer) error { _, err := out.Write(make([]byte, 25)); return err }, format.ErrInvalid},
	} {
		err := streamed(t, c.write).WriteFile(path)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", name, err)
		}
		onlyFile(t, path)
		if b, _ := os.ReadFile(path); string(b) != "old" {
			t.Errorf("%s: the old file holds %q", name, b)
		}
	}
	none := func(io.Writer) error { return nil }
	if err := streamed(t, none).WriteFile(filepath.Join(path, "x")); err == nil {
		t.Error("wrote below a file")
	}
	if err := streamed(t, none).WriteFile(filepath.Dir(path)); !errors.Is(err, format.ErrInvalid) {
		t.Errorf("a directory: %v", err)
	}
}

func TestWriteFileFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	if err := streamed(t, func(io.Writer) error { return nil }).WriteFile("/dev/full"); !errors.Is(err, format.ErrInvalid) {
		t.Errorf("%v, expected a device to be refused", err)
	}
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := streamed(t, func(out io.Writer) error { _, err := out.Write(make([]byte, 24)); return err })
	if _, err := w.WriteTo(f); err == nil {
		t.Error("a full disk was not noticed")
	}
}

func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("%v beside %s, %v", entries, path, err)
	}
}
