package weights

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
)

// The ends of generation are a number or a list; what is none is refused.
func TestEndIDs(t *testing.T) {
	for _, c := range []struct {
		json string
		want []int32 // nil: refused
	}{
		{`{"eos_token_id":7}`, []int32{7}},
		{`{"eos_token_id":[7,-1,0]}`, []int32{7, 0}},
		{`{"eos_token_id":-1}`, []int32{}},
		{`{"eos_token_id":null}`, []int32{}},
		{`{}`, []int32{}}, // nothing ends generation, whatever config.json says
		{`{"eos_token_id":[null,7]}`, nil},
		{`{"eos_token_id":[null]}`, nil},
		{`{"eos_token_id":[[7]]}`, nil},
		{`{"eos_token_id":"7"}`, nil},
	} {
		generation, err := ParseConfig("generation_config.json", []byte(c.json))
		if err != nil {
			t.Fatal(err)
		}
		config, err := ParseConfig("config.json", []byte(`{"eos_token_id":9}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (&HFDir{Config: config}).EndIDs(); err != nil || !slices.Equal(got, []int32{9}) {
			t.Fatalf("config.json alone: %v, %v", got, err)
		}
		got, err := (&HFDir{Config: config, Generation: generation}).EndIDs()
		if refused := errors.Is(err, format.ErrInvalid) && strings.HasPrefix(err.Error(), "generation_config.json: field eos_token_id: "); refused != (c.want == nil) || (got == nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.json, got, err)
		}
	}
}
