package bench

import (
	"regexp"
	"slices"
	"testing"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// On every tier each class of products has its ceiling and each storage type
// its cases, what has no kernel has none, and all of them are not too many.
func TestMatmulCases(t *testing.T) {
	key := regexp.MustCompile(`^Matmul/class=([^/]+)/type=([^/]+)/kernel=([^/]+)/(tile=)?`)
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			e := newTestEnv(t, Options{Threads: 2})
			cases := matmulCases(e)
			if len(cases) > 2000 {
				t.Errorf("%d cases", len(cases))
			}
			var ceilings []string
			for _, c := range ceilingCases(e) {
				ceilings = append(ceilings, c.Name)
			}
			seen := map[string]bool{} // what was found of classes, kernels and types
			for _, c := range cases {
				m := key.FindStringSubmatch(c.Name)
				if m == nil {
					t.Fatalf("case %s", c.Name)
				}
				for _, s := range []string{m[1], m[1] + " " + m[3], m[1] + " " + m[2], m[1] + " " + m[4]} {
					seen[s] = true
				}
				if !slices.Contains(ceilings, "Ceiling/class="+m[1]) {
					t.Fatalf("%s has no ceiling among %q", c.Name, ceilings)
				}
			}
			want := map[string]bool{"i16g32": i16.Fast(), "i16g32 tile=": i16.Fast(), "bf16 rows": tier >= isa.AMX, "bf16 rounded": tier >= isa.AMX,
				"bf16 panels": true, "f32 tile=": true, "bf16 tile=": true, "i8g32 tile=": true}
			for _, d := range tensor.Codecs() {
				want["f32 "+d.String()] = true
				if d.Quantized() {
					want["bf16 "+d.String()], want["i16g32 "+d.String()] = true, i16.Fast()
				}
			}
			for s, want := range want {
				if seen[s] != want {
					t.Errorf("cases of %q: %v, expected %v", s, seen[s], want)
				}
			}
		})
	}
}

// Types that are measured on tiles row by row are those that are decoded there.
func TestFewTypes(t *testing.T) {
	if !bf16.Tiles() {
		t.Skip("this machine has no tiles")
	}
	for _, d := range tensor.Codecs() {
		const n, k = 16, 256
		w, err := gemm.NewStored(make([]byte, n*d.RowBytes(k)), d, n, k)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(fewTypes, d); got != bf16.CanFew(w) {
			t.Errorf("%v is measured: %v, expected %v", d, got, !got)
		}
	}
}

// Tiles cover a product once, and none is larger than it says.
func TestTileCut(t *testing.T) {
	const m, n, panels = 100, 96, 6
	for _, size := range []tile{{}, {16, 32}, {7, 16}, {64, 5}, {1000, 1000}} {
		var seen [m][panels]int
		part := size.cut(func(_, m0, m1, p0, p1 int) {
			if size.rows > 0 && (m1-m0 > size.rows || (p1-p0)*(n/panels) > max(size.cols, n/panels)) {
				t.Errorf("%v: a call has rows %d to %d, panels %d to %d", size, m0, m1, p0, p1)
			}
			for r := m0; r < m1; r++ {
				for p := p0; p < p1; p++ {
					seen[r][p]++
				}
			}
		}, n, panels)
		part(0, 3, m, 1, panels)
		for r := range seen {
			for p, times := range seen[r] {
				want := 0
				if r >= 3 && p >= 1 {
					want = 1
				}
				if times != want {
					t.Fatalf("%v: row %d of panel %d is multiplied %d times, expected %d", size, r, p, times, want)
				}
			}
		}
	}
}

// Weights are encoded once, and nobody shares their memory.
func TestWeightsAreCopies(t *testing.T) {
	e := newTestEnv(t, Options{Threads: 1})
	a, err := e.weights(tensor.Q4_K, 2, 256)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(a)
	clear(a)
	b, err := e.weights(tensor.Q4_K, 2, 256)
	if err != nil || !slices.Equal(b, want) || len(e.encoded) != 1 {
		t.Errorf("%d kept, the same: %v, %v", len(e.encoded), slices.Equal(b, want), err)
	}
	if _, err := e.weights(tensor.Q4_K, 2, 100); err == nil {
		t.Error("half a block is encoded")
	}
}
