package cpu

import (
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/weights"
)

// OpenModel opens the model of a file or folder until the end of the test.
func OpenModel(t testing.TB, path string) *model.Model {
	t.Helper()
	st, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
