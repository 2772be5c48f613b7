package compare

import (
	"testing"

	"hotpath/profile"
)

// fixture is the recording that the tests of package profile make, whose every
// number is known.
func fixture(t testing.TB) *profile.Profile {
	t.Helper()
	p, err := profile.ReadFile("../testdata/fixture.json")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
