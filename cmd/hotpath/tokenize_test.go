package main

import (
	"testing"

	"hotpath/internal/testmodels"
)

func TestDecodeRefusesUnknownIDs(t *testing.T) {
	llama := testmodels.Dir(t, "llama")
	for ids, word := range map[string]string{
		"99999999 -4":     "id 99999999 ",
		"74 -4":           "id -4 ",
		"[74, 2000000]":   "id 2000000 ",
		"74,2147483648":   "2147483648",
		"-1":              "id -1 ",
		"99999999\tHello": "id 99999999 ",
	} {
		fails(t, exitFailed, []string{"tokenize", "-m", llama, "--decode", "--", ids}, "argument 1", word)
	}
	if out := ok(t, "tokenize", "-m", llama, "--decode", "74 71"); out != "he\n" {
		t.Errorf("74 71 decodes to %q", out)
	}
}
