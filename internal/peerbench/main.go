// Command peerbench measures hotpath and the engines it is compared with side
// by side: `make peers` runs it.
//
// Every engine is a process of its own that loads its model once and then
// answers requests (worker.go is hotpath's, scripts/peers holds the others').
// They take turns in one run, A B B A, on the same cores, so that what the
// machine does meanwhile meets all of them alike; one works at a time and the
// others are watched to be idle. Ways of hotpath itself are one process, which
// goes from way to way call by call (ways.go). Answers are held against PyTorch in f32
// first: an engine that is fast and wrong is not in the table.
//
// It sits above package hotpath and nothing imports it. Errors of a peer cost
// that peer its rows; errors of hotpath, and wrong answers of it, end with
// status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"hotpath/internal/atomicfile"
	"hotpath/internal/kernel/isa"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := runWorker(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "peerbench worker:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runGroups(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "peerbench: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

func runGroups(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	only := f.String("only", "", "groups to measure, comma separated; minilm means minilm and minilm-…")
	works := f.String("works", "", "works to measure, by parts of their names, separated by semicolons")
	rounds := f.Int("rounds", 15, "turns of each engine")
	cores := f.String("cores", firstCores(2), "cores that everything runs on, or all; as many threads are used")
	cache := f.String("cache", ".cache/peers", "what scripts/peers/setup.sh made")
	models := f.String("models", ".cache/models", "what scripts/fetch_models.sh fetched")
	jsonFile := f.String("json", "", "write all samples to this file; one line per row where it ends in .jsonl")
	docs := f.String("docs", "", "put the tables between the markers of this Markdown file")
	list := f.Bool("list", false, "list the groups and end")
	if err := f.Parse(args); err != nil {
		return errors.Join(flag.ErrHelp, err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("argument %q, expected flags only", f.Arg(0))
	}
	if *rounds < 1 {
		return fmt.Errorf("%d rounds, expected 1 or more", *rounds)
	}
	if *works != "" && *docs != "" {
		return errors.New("--works with --docs, expected one of them: a table of the documentation has all works of its group")
	}
	if *cores == "all" {
		*cores = firstCores(isa.MaxThreads)
	}
	coreList := strings.Split(*cores, ",")
	p := place{cache: *cache, models: *models, threads: len(coreList)}
	groups, err := choose(groups(p), *only)
	if err != nil {
		return err
	}
	if groups = narrow(groups, *works); len(groups) == 0 {
		return fmt.Errorf("no work of these groups is called %q", *works)
	}
	if *list {
		for _, g := range groups {
			fmt.Printf("%-16s %s\n", g.Name, g.Title)
		}
		return nil
	}
	r := &Report{
		Date: time.Now().Format("2006-01-02"), CPU: isa.Host().Brand, System: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: *cores, Threads: p.threads, Rounds: *rounds, Hotpath: revision(ctx), Topology: topology(),
	}
	b := bench{cores: *cores, rounds: *rounds}
	var failed []error
	for _, g := range groups {
		if g.Make != nil {
			if err := g.Make(); err != nil {
				return fmt.Errorf("%s: %w", g.Name, err)
			}
		}
		got, err := b.measure(ctx, g)
		if err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		r.Groups = append(r.Groups, got)
		fmt.Println(r.text(got))
		failed = append(failed, got.failure())
	}
	if *jsonFile != "" {
		data, err := r.json(strings.HasSuffix(*jsonFile, ".jsonl"))
		if err != nil {
			return err
		}
		if err := atomicfile.WriteFile(*jsonFile, data); err != nil {
			return err
		}
	}
	if *docs != "" {
		if err := r.writeDocs(*docs); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// choose picks groups by name, or by the part of the name before a hyphen. Without
// names it picks those that need not be asked for.
func choose(all []Group, only string) ([]Group, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(all), func(g Group) bool { return g.Asked }), nil
	}
	var out []Group
	for _, want := range strings.Split(only, ",") {
		found := false
		for _, g := range all {
			if g.Name == want || strings.HasPrefix(g.Name, want+"-") {
				found = true
				if !slices.ContainsFunc(out, func(o Group) bool { return o.Name == g.Name }) {
					out = append(out, g)
				}
			}
		}
		if !found {
			var names []string
			for _, g := range all {
				names = append(names, g.Name)
			}
			return nil, fmt.Errorf("group %q, expected one of %s", want, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// narrow keeps the works whose name holds one of some words, and the groups that
// have any.
func narrow(all []Group, words string) []Group {
	var out []Group
	for _, g := range all {
		g.Works = slices.DeleteFunc(slices.Clone(g.Works), func(w Work) bool {
			return !slices.ContainsFunc(strings.Split(words, ";"), func(word string) bool { return strings.Contains(w.Name, word) })
		})
		if len(g.Works) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// firstCores names the first n cores that this process may use.
func firstCores(n int) string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		var cores []string
		for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			low, high, ranged := strings.Cut(part, "-")
			a, err := strconv.Atoi(low)
			if err != nil {
				break
			}
			b := a
			if ranged {
				b, _ = strconv.Atoi(high)
			}
			for c := a; c <= b && len(cores) < n; c++ {
				cores = append(cores, strconv.Itoa(c))
			}
		}
		if len(cores) > 0 {
			return strings.Join(cores, ",")
		}
	}
	return "0,1"
}

// revision is the commit that is measured: of the build if that knows it, or of the
// checkout. "" if neither is known.
func revision(ctx context.Context) string {
	if built != "" {
		return built
	}
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// built is the commit, which make scale-build sets.
var built string

// place says where things are and how many threads every engine gets.
type place struct {
	cache, models string
	threads       int
}

func (p place) made(name string) string { return filepath.Join(p.cache, "models", name) }
func (p place) real(name string) string { return filepath.Join(p.models, name) }
