package main

import (
	"strings"
	"testing"
)

// TestBusyProcessesEnd: ways take turns beside busy processes, which end with them.
func TestBusyProcessesEnd(t *testing.T) {
	stop, err := startBusy(2)
	if err != nil {
		t.Fatal(err)
	}
	stop() // returns when both have ended
	if err := keepBusy(strings.NewReader("")); err != nil {
		t.Error(err)
	}
}
