package gguf

import (
	"fmt"
	"testing"
)

// A tensor of a split model is found by one look, not by a look into each file.
func TestJoinedFilesHaveOneIndex(t *testing.T) {
	const files = 100
	part := func(i int) *File {
		name := fmt.Sprintf("t%d", i)
		return &File{name: fmt.Sprintf("%d.gguf", i), tensors: []Tensor{{Name: name}}, index: map[string]int{name: 0}}
	}
	f := part(0)
	for i := 1; i < files; i++ {
		if err := f.Join(part(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.holders) != files-1 {
		t.Errorf("%d tensors of other files in the index, expected %d", len(f.holders), files-1)
	}
	for i := range files {
		if got, ok := f.Tensor(fmt.Sprintf("t%d", i)); !ok || got.Name != fmt.Sprintf("t%d", i) {
			t.Errorf("t%d: %v %v", i, got, ok)
		}
	}
	if err := f.Join(part(7)); err == nil {
		t.Error("a tensor of two files was taken")
	}
}
