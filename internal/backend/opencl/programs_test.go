package opencl

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// compiled opens a fake device with a folder and compiles some programs, twice over.
func compiled(t *testing.T, f *fake, folder string) {
	t.Helper()
	b, err := newBackend(Options{Cache: folder}, f)
	if err != nil {
		t.Fatal(err)
	}
	wanted := []code{plain("k_embed"), plain("k_norm"), plain("k_route"), plain("k_norm")}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := b.prepare(wanted); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A program is compiled once per device, by whoever wants it first; a second start takes
// kept binaries, and replaces those that are broken or that the driver refuses.
func TestProgramsAreKept(t *testing.T) {
	folder := t.TempDir()
	start := func(what string, builds, loads int, change func(f *fake)) {
		t.Helper()
		f := newFake()
		if change != nil {
			change(f)
		}
		compiled(t, f, folder)
		if f.builds != builds || f.loads != loads {
			t.Errorf("%s: %d programs were compiled and %d were loaded, expected %d and %d", what, f.builds, f.loads, builds, loads)
		}
	}
	start("the first start", 3, 0, nil)
	start("the second", 0, 3, nil)
	files, err := filepath.Glob(filepath.Join(folder, "opencl-programs", "*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files are kept, expected 3: %v", len(files), err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	for i, broken := range [][]byte{nil, data[:20], data} {
		if err := os.WriteFile(files[i], broken, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	start("broken files", 3, 0, nil)
	start("the files that replaced them", 0, 3, nil)
	start("a driver that refuses them", 3, 0, func(f *fake) { f.refuses = true })
	start("another driver", 3, 0, func(f *fake) { f.about.Driver = "2" })
	start("PoCL", 3, 0, func(f *fake) { f.about.Platform = pocl })
}

// A program that does not compile is an error each time, and no binary is kept.
func TestProgramsThatFailAreTriedAgain(t *testing.T) {
	f, folder := newFake(), t.TempDir()
	b, err := newBackend(Options{Cache: folder}, f)
	if err != nil {
		t.Fatal(err)
	}
	f.failBuild = failure("clBuildProgram", -11)
	if err := b.prepare([]code{plain("k_embed")}); err == nil {
		t.Error("no error of a program that does not compile")
	}
	if err := b.prepare([]code{plain("k_embed")}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if f.builds != 2 {
		t.Errorf("%d programs were compiled, expected 2", f.builds)
	}
}

// The oldest binaries are removed where there are many.
func TestOldProgramsAreRemoved(t *testing.T) {
	folder := t.TempDir()
	k := newBinaries(folder, newFake().about)
	for i := range mostBinaries + 3 {
		k.store(newFake(), 1, "text", string(rune('a'+i)))
	}
	entries, err := os.ReadDir(k.folder)
	if err != nil || len(entries) != mostBinaries {
		t.Errorf("%d files are kept, expected %d: %v", len(entries), mostBinaries, err)
	}
	if _, ok := k.load(newFake(), "text", string(rune('a'+mostBinaries+2))); !ok {
		t.Error("the newest file is gone")
	}
}
