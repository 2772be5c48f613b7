package pull

import (
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names come from indexes, hubs and archives, which may be hostile. A name
// becomes part of a path on this machine only if it passes one of these checks.
const (
	maxName  = 255  // bytes of one name
	maxPath  = 1024 // bytes of a path within a model
	maxDepth = 32   // names in such a path
)

// bareName reports whether a name from outside is that of a file without a
// folder.
func bareName(name string) bool {
	return len(name) <= maxName && localPath(name) && path.Base(name) == name
}

// localPath reports whether a name from outside is a plain path that stays in
// the folder that it is joined to.
func localPath(name string) bool {
	return len(name) <= maxPath && strings.Count(name, "/") < maxDepth &&
		name != "." && filepath.IsLocal(name) && path.Clean(name) == name &&
		utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
}
