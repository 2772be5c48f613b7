package profile

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The process is what was before the recorder, scopes, and the rest; scopes that are
// open at the same time count once.
func TestWholeProcess(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	ctx := WithRecorder(context.Background(), rec)
	_, one := Scope(ctx, "one")
	clock.advance(100)
	_, two := Scope(WithRecorder(context.Background(), rec), "two") // beside it
	clock.advance(50)
	one()
	clock.advance(25)
	two()
	clock.advance(1000)
	if got := rec.scopes.top.until(0); got != 175 {
		t.Errorf("%d ns in scopes, expected 175", got)
	}
	p := rec.Snapshot()
	if p.Process == nil || p.Process.Before < 0 || p.Process.Recorder <= 0 || p.Wall() != p.Process.Before+p.End-p.Start {
		t.Fatalf("%+v, wall %d", p.Process, p.Wall())
	}
	var text bytes.Buffer
	if err := Readers.Text(&text, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nPROCESS  ", "in scopes", "    one", "    two", "outside of any scope", "recording itself"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	p.Process.Scoped = -1
	if _, err := Read("p", encode(t, p)); err == nil {
		t.Error("a process with less than no time in scopes was read")
	}
}

// The first run of a plan is the cold one.
func TestColdRuns(t *testing.T) {
	p := fixture(t)
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Ledger.Runs > 0 && s.First != testWall {
			t.Errorf("plan %s: the first run took %d", s.ID, s.First)
		}
	}
	if ns, runs := p.Cold(); runs != 2 || ns != 2*testWall {
		t.Errorf("%d cold runs of %d ns", runs, ns)
	}
}
