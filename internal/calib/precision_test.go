package calib

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	slow := Class{"i16g32", 1, 1, 1.05}
	far := Class{"i4g64", 0.9999, 0.9994, 3}
	fit := Class{"i8g32", 0.9998, 0.9996, 1.5}
	faster := Class{"i4g32", 0.9998, 0.9995, 1.6}
	for _, c := range []struct {
		others []Class
		want   string
	}{
		{nil, ""}, {[]Class{slow}, ""}, {[]Class{far}, ""}, {[]Class{far, fit, slow}, "i8g32"}, {[]Class{fit, faster}, "i4g32"},
	} {
		if got := (Precision{Texts: 1, Default: slow, Others: c.others}).Choose(); got != c.want {
			t.Errorf("%v: %q, expected %q", c.others, got, c.want)
		}
	}
	for _, c := range []Class{slow, far} {
		if ok, why := c.Fit(); ok || why == "" {
			t.Errorf("%v: %t, %q", c, ok, why)
		}
	}
}

func TestPrecisionIsKept(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", filepath.Join(t.TempDir(), "o[1")) // the name of a folder is no pattern
	t.Setenv(Env, "")
	k := NewFileKey("a.gguf", 1000, "abc")
	if _, ok := CachedPrecision(k); ok || AnyPrecision() {
		t.Error("something is kept before anything was measured")
	}
	p := Precision{Texts: 3, Default: Class{"bf16", 1, 0.9999, 2}, Others: []Class{{"i8g32", 0.99, 0.98, 1.2}}}
	file, err := StorePrecision(k, p)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := CachedPrecision(k)
	if !ok || got.Default != p.Default || len(got.Others) != 1 || !AnyPrecision() {
		t.Errorf("%+v, %t", got, ok)
	}
	other := k
	other.Hash = "abd"
	if _, ok := CachedPrecision(other); ok {
		t.Error("another file's figures are taken")
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"half":         string(good[:len(good)/2]),
		"beyond one":   strings.Replace(string(good), "0.9999", "1.9999", 1),
		"no name":      strings.Replace(string(good), `"bf16"`, `""`, 1),
		"no texts":     strings.Replace(string(good), `"texts": 3`, `"texts": 0`, 1),
		"another file": strings.Replace(string(good), "a.gguf", "b.gguf", 1),
	} {
		if data == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if p, ok := CachedPrecision(k); ok {
			t.Errorf("%s: read as %+v", name, p)
		}
	}
	t.Setenv(Env, Off)
	if _, ok := CachedPrecision(k); ok || AnyPrecision() {
		t.Error("switched off, but read")
	}
}

func FuzzDecodePrecision(f *testing.F) {
	k := FileKey{Version: version, Model: "m"}
	f.Add(fmt.Appendf(nil, `{"key":{"version":%d,"model":"m","bytes":0,"hash":"","cpu":"","tier":""},"costs":{"texts":1,"default":{"class":"bf16","cosine_mean":1,"cosine_worst":1,"speed":1}}}`, version))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := fuzzLoad(t, data, k, decodePrecision)
		if err != nil {
			return
		}
		if err := p.check(); err != nil {
			t.Errorf("accepted: %v", err)
		}
		_ = p.Choose()
	})
}
