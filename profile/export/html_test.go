package export

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/compare"
)

const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;]]>` + "\x00\u2028"

// evilProfile has hostile names wherever a name can stand.
func evilProfile(t testing.TB) *profile.Profile {
	p := fixture(t)
	p.Facts.Model, p.Facts.CPU = hostile, hostile
	for i := range p.Plans {
		s := &p.Plans[i]
		s.Name, s.Phase = hostile, hostile
		for k := range s.Steps {
			s.Steps[k].Name, s.Steps[k].Op, s.Steps[k].Kernel = "blk/"+hostile, hostile, hostile
		}
		for k := range s.Lanes {
			s.Lanes[k] = hostile
		}
	}
	for i := range p.Scopes {
		p.Scopes[i].Name = hostile
	}
	p.Counters[0].Name = hostile
	p.Warnings = append(p.Warnings, hostile)
	return p
}

// The page is one file that loads nothing, and no name in it becomes markup.
func TestHTMLIsSelfContainedAndSafe(t *testing.T) {
	evil := evilProfile(t)
	c, err := compare.Compare([]*profile.Profile{evil}, []*profile.Profile{evil}, hostile, hostile)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"report":     func(w io.Writer) error { return writeHTML(w, evil) },
		"comparison": func(w io.Writer) error { return ComparisonHTML(w, c) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if n := strings.Count(page, "<script"); n != 2 {
			t.Errorf("%s: %d script elements, want 2", name, n)
		}
		if strings.Contains(page, "<img") || strings.Contains(page, "{{.") {
			t.Errorf("%s: a name became markup, or a part is missing", name)
		}
		// The namespace of SVG is a name; nothing else looks like an address.
		loads := regexp.MustCompile(`(?i)https?:|//cdn|url\(|@import|<[a-z]+[^>]*\ssrc=|<link`)
		if m := loads.FindAllString(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1); len(m) > 0 {
			t.Errorf("%s: refers to %q", name, m)
		}
		data := regexp.MustCompile(`(?s)id="data">(.*?)</script>`).FindStringSubmatch(page)
		if data == nil || !json.Valid([]byte(data[1])) || strings.ContainsAny(data[1], "<>&") {
			t.Errorf("%s: the data is not JSON that is safe in a page", name)
		}
	}
}

func TestFlameSVG(t *testing.T) {
	for _, p := range []*profile.Profile{fixture(t), evilProfile(t), profile.NewRecorder(profile.Options{}).Snapshot()} {
		for _, f := range flameValues {
			var b bytes.Buffer
			if err := FlameSVG(&b, p, f.value, profile.FlameLayers); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), "prefers-color-scheme:dark") || strings.Count(b.String(), `class="hpf"`) != 1 {
				t.Errorf("%s has no dark look, or one that leaves the picture", f.value)
			}
			d := xml.NewDecoder(&b)
			frames := 0
			for {
				token, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s is no XML: %v", f.value, err)
				}
				if e, ok := token.(xml.StartElement); ok {
					if e.Name.Space != "http://www.w3.org/2000/svg" || e.Name.Local == "script" || e.Name.Local == "img" {
						t.Errorf("element %v", e.Name)
					}
					if e.Name.Local == "g" {
						frames++
					}
				}
			}
			if len(p.Plans) > 0 && frames < 10 {
				t.Errorf("%s has %d frames", f.value, frames)
			}
		}
	}
	if _, err := ParseFlameValue("size"); err == nil || !strings.Contains(err.Error(), "time, bytes, lost") {
		t.Errorf("error %v", err)
	}
}

// Every level of the tree is the sum of the one below, and the root is the wall
// time.
func TestTreeAddsUp(t *testing.T) {
	p := fixture(t)
	root := p.Tree()
	if diff := root.Time - p.Ledger.Wall; diff > 20 || diff < -20 { // lane times are divided
		t.Errorf("the tree has %d ns, the runs %d", root.Time, p.Ledger.Wall)
	}
	var flops int64
	for i := range p.Plans {
		for k := range p.Plans[i].Stats {
			flops += p.Plans[i].Stats[k].FLOPs
		}
	}
	if root.FLOPs != flops {
		t.Errorf("the tree has %d FLOPs, the steps %d", root.FLOPs, flops)
	}
	kinds := map[string]int{}
	var walk func(n *profile.TreeNode)
	walk = func(n *profile.TreeNode) {
		kinds[n.Kind]++
		if len(n.Children) == 0 {
			return
		}
		var sum profile.TreeNode
		for _, c := range n.Children {
			sum.Time, sum.Lost, sum.FLOPs, sum.Bytes, sum.Calls = sum.Time+c.Time, sum.Lost+c.Lost, sum.FLOPs+c.FLOPs, sum.Bytes+c.Bytes, sum.Calls+c.Calls
			walk(c)
		}
		if sum.Time != n.Time || sum.Lost != n.Lost || sum.FLOPs != n.FLOPs || sum.Bytes != n.Bytes || sum.Calls != n.Calls {
			t.Errorf("%s %s: %+v, its children add up to %+v", n.Kind, n.Name, n, sum)
		}
	}
	walk(root)
	for _, kind := range []string{"model", "plan", "layer", "block", "node", "op", "kernel", "wait"} {
		if kinds[kind] == 0 {
			t.Errorf("the tree has no %s", kind)
		}
	}
}
