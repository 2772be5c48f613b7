package optest

import (
	"fmt"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
)

// apart is the CPU with every fusion but that of siblings.
type apart struct{ *cpu.Backend }

func (a apart) Patterns() []plan.Pattern {
	return slices.DeleteFunc(a.Backend.Patterns(), func(p plan.Pattern) bool { return p.Siblings != nil })
}

// TestSiblingsKeepTheirBits: what products of one input give does not depend on
// whether they are one step, on any tier and in any compute class.
func TestSiblingsKeepTheirBits(t *testing.T) {
	for _, tier := range isa.Available() {
		for _, p := range []cpu.Precision{cpu.F32, cpu.BF16, cpu.I16G32, cpu.I8G32} {
			t.Run(fmt.Sprintf("%s/%s", tier, p), func(t *testing.T) {
				defer isa.Use(tier)()
				be, err := cpu.New(cpu.Options{Workers: 3, Precision: p})
				if err != nil {
					t.Fatal(err)
				}
				defer be.Close()
				for _, c := range siblings() {
					for _, bind := range binds {
						run := func(be plan.Backend) ([][]float32, int) {
							b, outs, err := Forward(c, bind)
							if err != nil {
								t.Fatal(err)
							}
							r, err := b.Open(be, Options{}, outs...)
							if err != nil {
								t.Fatal(err)
							}
							defer r.Session.Close()
							if err := r.Run(); err != nil {
								t.Fatal(err)
							}
							res := make([][]float32, len(outs))
							for i := range outs {
								if res[i], err = r.Output(i); err != nil {
									t.Fatal(err)
								}
							}
							return res, len(r.Session.Program().Plans[0].Steps)
						}
						want, separate := run(apart{be})
						got, steps := run(be)
						if steps >= separate {
							t.Errorf("%s: %d steps, %d without the fusion of siblings", c.Name, steps, separate)
						}
						for i := range want {
							if !slices.Equal(got[i], want[i]) {
								t.Errorf("%s, T %d: output %d differs from that of separate steps", c.Name, bind.T, i)
							}
						}
					}
				}
			})
		}
	}
}
