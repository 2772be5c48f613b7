package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const maxIndexPage = 64 << 20 // bytes

// release is one file of a package in an index.
type release struct {
	name    string // of the file
	version string
	wheel   bool
	any     bool // for every machine
	url     string
	size    int64 // -1 where the index does not say
	sha256  string
	yanked  bool
}

// findRelease asks an index for the file of a package that fits best.
func (p *Puller) findRelease(ctx context.Context, ref Ref) (release, error) {
	address := p.Index + "/" + ref.Repo + "/"
	header := http.Header{"Accept": {"application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"}}
	body, from, kind, err := p.get(ctx, address, header, maxIndexPage)
	if err != nil {
		return release{}, fmt.Errorf("%s: %w", ref, err)
	}
	pick := picker{ref: ref}
	if strings.Contains(kind, "json") {
		err = jsonReleases(ctx, body, pick.offer)
	} else {
		err = htmlReleases(ctx, string(body), pick.offer)
	}
	if err != nil {
		return release{}, fmt.Errorf("%s: %s: %w", ref, from.Redacted(), err)
	}
	best := pick.best
	if best.name == "" {
		return release{}, fmt.Errorf("%s: the index has no matching file: %w", ref, ErrNotFound)
	}
	if !hashName(best.sha256, 64, 64) {
		return release{}, fmt.Errorf("%s: the index has no SHA-256 of %s, so it cannot be checked", ref, best.name)
	}
	at, err := from.Parse(best.url) // it may be relative to the page
	if err != nil {
		return release{}, fmt.Errorf("%s: %s: %w", ref, best.name, err)
	}
	if from.Scheme == "https" && at.Scheme != "https" {
		return release{}, fmt.Errorf("%s: the address of %s is not https", ref, best.name)
	}
	if at.Host == from.Host && at.User == nil {
		at.User = from.User
	}
	at.Fragment = ""
	best.url = at.String()
	return best, nil
}

// jsonReleases offers the files of a page one by one, so that a page costs
// little more memory than its size.
func jsonReleases(ctx context.Context, body []byte, offer func(release)) error {
	err := eachOf(ctx, body, "files", func(dec *json.Decoder) error {
		var f struct {
			Name   string `json:"filename"`
			URL    string `json:"url"`
			Size   *int64 `json:"size"`
			Hashes struct {
				SHA256 string `json:"sha256"`
			} `json:"hashes"`
			Yanked json.RawMessage `json:"yanked"` // true, or the reason
		}
		if err := dec.Decode(&f); err != nil {
			return err
		}
		r := release{name: f.Name, url: f.URL, size: -1, sha256: f.Hashes.SHA256}
		if f.Size != nil {
			r.size = *f.Size
		}
		yanked := string(f.Yanked)
		r.yanked = yanked == "true" || strings.HasPrefix(yanked, `"`) && yanked != `""`
		offer(r)
		return nil
	}, nil)
	if err != nil {
		return fmt.Errorf("expected the files of a package: %w", err)
	}
	return nil
}

var href = regexp.MustCompile(`(?is)href\s*=\s*["']([^"']*)["']`)

// htmlReleases offers the links of a page: <a ATTRIBUTES>NAME</a>.
func htmlReleases(ctx context.Context, page string, offer func(release)) error {
	for ctx.Err() == nil {
		begin := strings.IndexByte(page, '<')
		if begin < 0 {
			return nil
		}
		page = page[begin+1:]
		if len(page) < 2 || page[0]|0x20 != 'a' || !strings.ContainsRune(" \t\r\n\f", rune(page[1])) {
			continue
		}
		attributes, rest, ok := strings.Cut(page, ">")
		if !ok {
			return nil
		}
		page = rest
		end := strings.IndexByte(page, '<')
		if end < 0 {
			return nil
		}
		if len(page) < end+4 || !strings.EqualFold(page[end:end+4], "</a>") {
			continue
		}
		h := href.FindStringSubmatch(attributes)
		if h == nil {
			continue
		}
		r := release{name: strings.TrimSpace(html.UnescapeString(page[:end])), url: html.UnescapeString(h[1]), size: -1, yanked: strings.Contains(attributes, "data-yanked")}
		if u, err := url.Parse(r.url); err == nil {
			r.sha256 = strings.TrimPrefix(u.Fragment, "sha256=")
		}
		offer(r)
	}
	return context.Cause(ctx)
}

// parse reads the version out of a file's name, and reports whether it is a
// file of the package in a form that can be unpacked. Name and version become
// names on this machine, so others than bare names are none of the package.
func (r *release) parse(pkg string) bool {
	return bareName(r.name) && r.split(pkg) && version.MatchString(r.version)
}

func (r *release) split(pkg string) bool {
	if base, ok := strings.CutSuffix(r.name, ".whl"); ok {
		parts := strings.Split(base, "-")
		if len(parts) < 5 || normalName(parts[0]) != pkg {
			return false
		}
		r.version, r.wheel, r.any = parts[1], true, parts[len(parts)-1] == "any"
		return true
	}
	for _, ending := range []string{".tar.gz", ".zip"} {
		if base, ok := strings.CutSuffix(r.name, ending); ok {
			at := strings.LastIndexByte(base, '-')
			if at < 0 || normalName(base[:at]) != pkg {
				return false
			}
			r.version = base[at+1:]
			return true
		}
	}
	return false
}

// picker keeps the best of the files that it is offered: of the version asked
// for, else of the newest that is neither a trial nor withdrawn; a wheel for
// every machine before other files.
type picker struct {
	ref  Ref
	best release // without a name while there is none
}

func (k *picker) offer(r release) {
	if !r.parse(k.ref.Repo) || k.ref.Revision != r.version && (k.ref.Revision != "" || r.yanked) {
		return
	}
	rank := func(r release) int {
		switch {
		case r.any:
			return 2
		case r.wheel:
			return 1
		}
		return 0
	}
	if b := k.best; b.name == "" || cmp.Or(compareVersions(r.version, b.version), rank(r)-rank(b), cmp.Compare(b.name, r.name)) > 0 {
		k.best = r
	}
}

var trial = regexp.MustCompile(`(?i)(a|b|c|rc|alpha|beta|pre|preview|dev)[-_.]?\d*`)

// compareVersions orders versions; trials come before all others.
func compareVersions(a, b string) int {
	isTrial := func(s string) int {
		if trial.MatchString(s) {
			return 0
		}
		return 1
	}
	if d := isTrial(a) - isTrial(b); d != 0 {
		return d
	}
	x, y := numbers(a), numbers(b)
	for i := range max(len(x), len(y)) {
		var p, q int
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return cmp.Compare(p, q)
		}
	}
	return strings.Compare(a, b)
}

func numbers(s string) (out []int) {
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(part) // a number too large for an int is the largest int
		out = append(out, n)
	}
	return out
}
