//go:build amd64 || arm64

package int8

import (
	"testing"
	"unsafe"
)

// TestArgsLieAsTheAssemblyReadsThem: the generator has these offsets as
// numbers.
func TestArgsLieAsTheAssemblyReadsThem(t *testing.T) {
	var d dotArgs
	var q quantArgs
	for name, at := range map[string][2]uintptr{
		"dot.a": {unsafe.Offsetof(d.a), 8}, "dot.lda": {unsafe.Offsetof(d.lda), 64}, "dot.groups": {unsafe.Offsetof(d.groups), 96},
		"dot.buf": {unsafe.Offsetof(d.buf), 120}, "dot.ahead": {unsafe.Offsetof(d.ahead), 208},
		"quant.rows": {unsafe.Offsetof(q.rows), 56}, "quant.masks": {unsafe.Offsetof(q.masks), 80}, "quant.min": {unsafe.Offsetof(q.min), 96},
	} {
		if at[0] != at[1] {
			t.Errorf("%s is at %d, the assembly reads it at %d", name, at[0], at[1])
		}
	}
}
