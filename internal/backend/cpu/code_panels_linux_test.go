package cpu

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// TestPackingGivesPagesBack: of a weight that was packed, no pages of the file but
// those that it shares with others stay in this process's memory.
func TestPackingGivesPagesBack(t *testing.T) {
	const n, k = 1024, 2048
	d := tensor.Q4_1
	path := filepath.Join(t.TempDir(), "packed.gguf")
	var w gguf.Writer
	if err := w.Set("general.architecture", "llama"); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("w", d, []int{n, k}, make([]byte, n*d.RowBytes(k))); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	st, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	file, err := st.Get("w")
	if err != nil {
		t.Fatal(err)
	}
	var sum byte
	for i := 0; i < len(file.Data); i += page {
		sum += file.Data[i]
	}
	if got := residentBytes(t, path); got < int64(len(file.Data)) {
		t.Fatalf("%d bytes of the file are resident after all %d were read (%d)", got, len(file.Data), sum)
	}
	b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
	be, err := New(Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	p, err := be.Pack(plan.Weight{Value: b.Weight("w", graph.RoleUp, tensor.Static(n, k)), DType: d, Data: file.Data, Drop: func() { st.Drop(file) }}, codePanels[d])
	if err != nil {
		t.Fatal(err)
	}
	if p.Bytes() != int64(len(file.Data)) {
		t.Errorf("panels have %d bytes, the file %d", p.Bytes(), len(file.Data))
	}
	if got := residentBytes(t, path); got > 4*page {
		t.Errorf("%d bytes of the file are resident after packing, expected at most %d", got, 4*page)
	}
}

// residentBytes is how much of a mapped file is in this process's memory.
func residentBytes(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("this system does not tell resident pages: %v", err)
	}
	defer f.Close()
	inside := false
	var sum, kb int64
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = strings.HasSuffix(s.Text(), path)
		}
		if n, _ := fmt.Sscanf(s.Text(), "Rss: %d kB", &kb); inside && n == 1 {
			sum += kb << 10
		}
	}
	return sum
}
