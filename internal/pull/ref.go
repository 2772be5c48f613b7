package pull

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Ref names a model: a repository of a hub or a Python package, at a revision,
// and a part of it.
type Ref struct {
	Package  bool
	Repo     string // "org/name", "name", or that of a package
	Revision string // a branch, tag or commit; a package's version; "" for the newest
	Select   string // a file, or what distinguishes it, such as Q4_K_M; may be empty
}

const packagePrefix = "pip:"

var (
	repoName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)
	packageName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	revision    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+!-]*$`)
	version     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]*$`) // a folder's name too
)

// ParseRef reads a name as people write it:
//
//	org/name                 a model of the hub
//	org/name@v1.0            one of its revisions
//	org/name:Q4_K_M          one of its GGUF files, by quantization
//	org/name/file.gguf       one of its files
//	pip:name==1.0            a Python package that holds weights
//
// An address of the model's page is taken too.
func ParseRef(text string) (Ref, error) {
	fault := func(want string) (Ref, error) {
		return Ref{}, fmt.Errorf("%q: %w: expected %s", text, ErrName, want)
	}
	name, isPackage := strings.CutPrefix(text, packagePrefix)
	r := Ref{Package: isPackage, Repo: name}
	if isPackage {
		r.Repo, r.Select, _ = strings.Cut(r.Repo, ":")
		var versioned bool
		r.Repo, r.Revision, versioned = strings.Cut(r.Repo, "==")
		if !packageName.MatchString(r.Repo) || versioned && !version.MatchString(r.Revision) {
			return fault("pip:NAME or pip:NAME==VERSION")
		}
		r.Repo = normalName(r.Repo)
		return r, checkSelect(text, r.Select)
	}
	for _, prefix := range []string{DefaultEndpoint + "/", "https://hf.co/", "huggingface.co/", "hf.co/", "hf:"} {
		if rest, ok := strings.CutPrefix(r.Repo, prefix); ok {
			r.Repo = strings.TrimSuffix(rest, "/")
			break
		}
	}
	// The selection may stand before or behind the revision.
	if before, after, ok := strings.Cut(r.Repo, "@"); ok {
		r.Repo, r.Revision = before, after
		r.Revision, r.Select, _ = strings.Cut(r.Revision, ":")
		if r.Revision == "" || !revision.MatchString(r.Revision) || strings.Contains(r.Revision, "..") {
			return fault("a branch, tag or commit behind the @")
		}
	}
	if before, after, ok := strings.Cut(r.Repo, ":"); ok {
		if r.Select != "" {
			return fault("one selection behind a colon")
		}
		r.Repo, r.Select = before, after
	}
	if parts := strings.SplitN(r.Repo, "/", 3); len(parts) == 3 {
		if r.Select != "" {
			return fault("a file or a selection behind a colon, not both")
		}
		r.Repo, r.Select = parts[0]+"/"+parts[1], parts[2]
	}
	if !repoName.MatchString(r.Repo) || strings.Contains(r.Repo, "..") || strings.Contains(r.Repo, "--") {
		return fault("org/name, org/name:FILE, org/name@REVISION or pip:NAME")
	}
	return r, checkSelect(text, r.Select)
}

func checkSelect(text, s string) error {
	if s != "" && (path.Clean("/"+s) != "/"+s || strings.ContainsAny(s, "\\\x00")) {
		return fmt.Errorf("%q: %w: expected a file of the model behind the name", text, ErrName)
	}
	return nil
}

// String is the name as ParseRef takes it.
func (r Ref) String() string {
	s := r.Repo
	if r.Package {
		if s = packagePrefix + s; r.Revision != "" {
			s += "==" + r.Revision
		}
	} else if r.Revision != "" {
		s += "@" + r.Revision
	}
	if r.Select != "" {
		s += ":" + r.Select
	}
	return s
}

var separators = regexp.MustCompile(`[-_.]+`)

// normalName is how indexes spell the name of a package.
func normalName(s string) string { return strings.ToLower(separators.ReplaceAllString(s, "-")) }
