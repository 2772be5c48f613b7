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
	"slices"
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
	var all []release
	if strings.Contains(kind, "json") {
		all, err = jsonReleases(body)
	} else {
		all = htmlReleases(string(body))
	}
	if err != nil {
		return release{}, fmt.Errorf("%s: %s: %w", ref, from.Redacted(), err)
	}
	best, err := pickRelease(ref, all)
	if err != nil {
		return release{}, err
	}
	if !hashName(best.sha256, 64, 64) {
		return release{}, fmt.Errorf("%s: the index has no SHA-256 of %s, so it cannot be checked", ref, best.name)
	}
	at, err := from.Parse(best.url) // it may be relative to the page
	if err != nil {
		return release{}, fmt.Errorf("%s: %s: %w", ref, best.name, err)
	}
	if from.Scheme == "https" && at.Scheme != "https" {
		return release{}, fmt.Errorf("%s: %s lies at an address that is not https", ref, best.name)
	}
	if at.Host == from.Host && at.User == nil {
		at.User = from.User
	}
	at.Fragment = ""
	best.url = at.String()
	return best, nil
}

func jsonReleases(body []byte) ([]release, error) {
	var page struct {
		Files []struct {
			Name   string            `json:"filename"`
			URL    string            `json:"url"`
			Size   *int64            `json:"size"`
			Hashes map[string]string `json:"hashes"`
			Yanked any               `json:"yanked"` // true, or the reason
		} `json:"files"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("expected the files of a package: %w", err)
	}
	var out []release
	for _, f := range page.Files {
		r := release{name: f.Name, url: f.URL, size: -1, sha256: f.Hashes["sha256"]}
		if f.Size != nil {
			r.size = *f.Size
		}
		reason, isText := f.Yanked.(string)
		r.yanked = f.Yanked == true || isText && reason != ""
		out = append(out, r)
	}
	return out, nil
}

var (
	anchor = regexp.MustCompile(`(?is)<a\s([^>]*)>([^<]*)</a>`)
	href   = regexp.MustCompile(`(?is)href\s*=\s*["']([^"']*)["']`)
)

func htmlReleases(page string) []release {
	var out []release
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		h := href.FindStringSubmatch(m[1])
		if h == nil {
			continue
		}
		r := release{name: strings.TrimSpace(html.UnescapeString(m[2])), url: html.UnescapeString(h[1]), size: -1, yanked: strings.Contains(m[1], "data-yanked")}
		if u, err := url.Parse(r.url); err == nil {
			r.sha256 = strings.TrimPrefix(u.Fragment, "sha256=")
		}
		out = append(out, r)
	}
	return out
}

// parse reads the version out of a file's name, and reports whether it is a
// file of the package in a form that can be unpacked.
func (r *release) parse(pkg string) bool {
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

// pickRelease takes the version asked for, else the newest that is neither a
// trial nor withdrawn; a wheel for every machine before other files.
func pickRelease(ref Ref, all []release) (release, error) {
	var fit []release
	for _, r := range all {
		if r.parse(ref.Repo) && (ref.Revision == r.version || ref.Revision == "" && !r.yanked) {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return release{}, fmt.Errorf("%s: the index has no file of it that fits: %w", ref, ErrNotFound)
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
	return slices.MaxFunc(fit, func(a, b release) int {
		return cmp.Or(compareVersions(a.version, b.version), rank(a)-rank(b), cmp.Compare(b.name, a.name))
	}), nil
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
			return p - q
		}
	}
	return strings.Compare(a, b)
}

func numbers(s string) (out []int) {
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(part) // a number too large for a version is 0
		out = append(out, n)
	}
	return out
}
