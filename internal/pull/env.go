package pull

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Env is a Puller as the environment asks for it: HF_ENDPOINT, HF_TOKEN (or the
// file that the hub's own login leaves), HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME
// and HF_HUB_OFFLINE; HOTPATH_CACHE for packages and models of one's own; PIP_INDEX_URL, PIP_CERT and
// pip's configuration files.
func Env() (*Puller, error) {
	cache, err := cacheHome()
	if err != nil {
		return nil, err
	}
	home := envOr("HF_HOME", filepath.Join(cache, "huggingface"))
	own := envOr("HOTPATH_CACHE", filepath.Join(cache, "hotpath"))
	p := &Puller{
		Endpoint: strings.TrimRight(envOr("HF_ENDPOINT", DefaultEndpoint), "/"),
		HubCache: envOr("HF_HUB_CACHE", filepath.Join(home, "hub")),
		Packages: filepath.Join(own, "packages"),
		Models:   filepath.Join(own, "models"),
		Token:    os.Getenv("HF_TOKEN"),
		Offline:  truth(os.Getenv("HF_HUB_OFFLINE")),
	}
	if p.Token == "" && !truth(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		// A file that is not there or not for us means that nobody is logged in.
		text, _ := readShort(envOr("HF_TOKEN_PATH", filepath.Join(home, "token")))
		p.Token = string(text)
	}
	if p.Token = strings.TrimSpace(p.Token); strings.ContainsAny(p.Token, "\r\n") {
		return nil, fmt.Errorf("HF_TOKEN: expected one line")
	}
	p.Index, p.CertFile = pipSettings()
	return p, nil
}

// maxShort bounds files of settings: the environment may name a device, which
// has no end.
const maxShort = 4 << 20

func readShort(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxShort+1))
	if err == nil && len(text) > maxShort {
		text, err = nil, fmt.Errorf("%s: more than %d bytes", path, maxShort)
	}
	return text, err
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

func truth(s string) bool {
	return slices.Contains([]string{"1", "on", "yes", "true"}, strings.ToLower(s))
}

// cacheHome is where programs of this user keep what can be fetched again.
func cacheHome() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no folder for pulled models: set HF_HOME, XDG_CACHE_HOME or HOME: %w", err)
	}
	return filepath.Join(home, ".cache"), nil
}

// pipSettings are the index and the certificates that pip would use; empty
// where nobody chose any.
func pipSettings() (index, cert string) {
	index, cert = os.Getenv("PIP_INDEX_URL"), os.Getenv("PIP_CERT")
	home, _ := os.UserHomeDir()
	for _, file := range []string{ // the first that says something wins
		os.Getenv("PIP_CONFIG_FILE"),
		join(os.Getenv("VIRTUAL_ENV"), "pip.conf"),
		join(envOr("XDG_CONFIG_HOME", join(home, ".config")), "pip/pip.conf"),
		join(home, ".pip/pip.conf"),
		"/etc/pip.conf",
	} {
		values := readPipConfig(file)
		if index == "" {
			index = values["index-url"]
		}
		if cert == "" {
			cert = values["cert"]
		}
	}
	return strings.TrimRight(index, "/"), cert
}

func join(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// readPipConfig reads the sections of a pip.conf that are about downloads. A
// file that cannot be read says nothing.
func readPipConfig(path string) map[string]string {
	out := map[string]string{}
	f, err := os.Open(path)
	if err != nil {
		return out
	}
	defer f.Close()
	section := ""
	for lines := bufio.NewScanner(io.LimitReader(f, maxShort)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.ReplaceAll(strings.TrimSpace(key), "_", "-"); !ok || strings.HasPrefix(key, "#") || strings.HasPrefix(key, ";") {
			continue
		}
		// What is said about downloading is closer than what is said about all.
		if section == "download" || section == "global" && out[key] == "" {
			out[key] = strings.TrimSpace(value)
		}
	}
	return out
}

// trust adds a file of certificates to the system's.
func trust(file string) (*tls.Config, error) {
	text, err := readShort(file)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: expected certificates in PEM", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}
