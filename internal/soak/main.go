// Command soak runs hotpath for a long time, the library and the command, with
// random calls, mistakes, cancellations and kills, and holds what is left of it:
//
//	make soak SOAKTIME=20m SEED=7
//
// Rounds alternate. In a round of the library many goroutines call models that are
// opened and closed meanwhile; in a round of the command processes run, are
// interrupted or killed, and run again. Answers of complete calls are compared with
// known ones. Between rounds everything is closed, and memory, goroutines, open
// files, mappings and temporary files are counted: they must not grow. The seed
// fixes the calls; the moment of a cancellation depends on the machine. The exit
// status is 1 if anything was found.
//
// It imports the public package alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"
)

type settings struct {
	hotpath string // the command
	root    string // of the checkout
	models  string // folder of real models; may be missing
	length  time.Duration
	round   time.Duration
	workers int
	seed    uint64
}

func main() {
	var s settings
	flag.StringVar(&s.hotpath, "hotpath", "bin/hotpath", "the command to run")
	flag.StringVar(&s.root, "root", ".", "root of the checkout, for its fixtures")
	flag.StringVar(&s.models, "models", ".cache/models", "folder of real models, used where it has them")
	flag.DurationVar(&s.length, "time", 20*time.Minute, "how long to go on")
	flag.DurationVar(&s.round, "round", 10*time.Second, "length of one round")
	flag.IntVar(&s.workers, "workers", 6, "goroutines that call the library")
	flag.Uint64Var(&s.seed, "seed", 0, "of what is called; random if 0")
	flag.Parse()
	if s.seed == 0 {
		s.seed = rand.Uint64N(1 << 32)
	}
	if err := s.soak(); err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(1)
	}
}

func (s *settings) soak() (err error) {
	fmt.Printf("soak: seed %d, %v in rounds of %v (SEED=%[1]d repeats the calls)\n", s.seed, s.length, s.round)
	if s.hotpath, err = filepath.Abs(s.hotpath); err != nil {
		return err
	}
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "hotpath-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// Files that the library itself may leave are counted too.
	for _, name := range []string{"tmp", "cache"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o700); err != nil {
			return err
		}
	}
	os.Setenv("TMPDIR", filepath.Join(work, "tmp"))
	os.Setenv("HOTPATH_CACHE", filepath.Join(work, "cache"))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var f findings
	lib, err := newLibrary(s, &f)
	if err != nil {
		return err
	}
	cmds, err := newCommands(s, work, &f)
	if err != nil {
		return err
	}
	var m meter
	end := time.Now().Add(s.length)
	for round := 0; time.Now().Before(end) && ctx.Err() == nil; round++ {
		lib.round(ctx, round)
		m.take(filepath.Join(work, "tmp"))
		cmds.round(ctx, round)
		fmt.Printf("soak: round %d: %d calls (%d cut short), %d commands (%d killed); %v\n", round, lib.calls.Load(), lib.cut.Load(), cmds.ran, cmds.killed, m.last())
	}
	m.judge(&f)
	m.print()
	return f.err()
}

// findings are what went wrong; equal ones are counted.
type findings struct {
	mu    sync.Mutex
	order []string
	count map[string]int
}

// addFinding takes note of a finding: kind tells it from others, detail is shown for
// the first of its kind.
func (f *findings) addFinding(kind, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[string]int{}
	}
	if f.count[kind]++; f.count[kind] == 1 {
		f.order = append(f.order, kind)
		fmt.Printf("soak: FOUND %s: %s\n", kind, detail)
	}
}

func (f *findings) err() error {
	if len(f.order) == 0 {
		fmt.Println("soak: nothing found")
		return nil
	}
	for _, kind := range f.order {
		fmt.Printf("soak: found %d times: %s\n", f.count[kind], kind)
	}
	return fmt.Errorf("%d kinds of findings", len(f.order))
}
