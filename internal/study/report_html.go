package study

import (
	"fmt"
	"html"
	"strings"
)

// pageStyle is the look of the HTML report, light and dark.
const pageStyle = `
:root{--bg:#f5f6f8;--card:#fff;--ink:#1d2433;--dim:#667085;--line:#e6e9ef;--accent:#2f6fd0;--soft:#eef4fd;--good:#1f7a55}
@media (prefers-color-scheme:dark){:root{--bg:#0f1219;--card:#161a23;--ink:#e6e9f0;--dim:#98a2b3;--line:#2a3040;--accent:#6ea4f5;--soft:#1a2436;--good:#55c596}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:40px 24px 80px}header p{color:var(--dim);margin:.2em 0 1.6em}h1{font-size:28px;line-height:1.2;margin:0 0 .2em}
h2{font-size:19px;margin:0 0 .7em}section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:22px 24px;margin:18px 0;overflow-x:auto}
section.advice{background:var(--soft);border-color:transparent}.advice ul{margin:0;padding-left:1.2em}.advice li{margin:.35em 0}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;width:100%}th{font-weight:600;color:var(--dim);text-align:left;border-bottom:1px solid var(--line);padding:6px 10px 6px 0;vertical-align:bottom}
td{border-bottom:1px solid var(--line);padding:6px 10px 6px 0;vertical-align:top}tr:last-child td{border-bottom:0}.n{text-align:right}td.n,td.w{white-space:nowrap}td.n.long{white-space:normal;text-align:left}
figure{margin:18px 0 4px}figure svg{max-width:100%;height:auto;display:block}figure svg.hp{width:900px}figcaption{color:var(--dim);font-size:13px;margin-top:6px}
.facts td:first-child{color:var(--dim);white-space:nowrap;width:1%;padding-right:22px}nav{font-size:13px;color:var(--dim);margin-bottom:18px}nav a{color:var(--accent);text-decoration:none;margin-right:14px}
@media (max-width:700px){main{padding:24px 12px 60px}section{padding:16px}figure{overflow-x:auto}figure svg{min-width:640px;max-width:none}}
@media print{body{background:#fff}section{break-inside:avoid}}
`

// HTML is the report as one page that needs nothing else.
func (r *Report) HTML() string {
	var b strings.Builder
	esc := html.EscapeString
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>%s</title>\n<style>%s</style></head><body><main>\n",
		esc(r.Title), pageStyle)
	fmt.Fprintf(&b, "<header><h1>%s</h1><p>%s</p></header>\n<nav>", esc(r.Title), esc(r.Question))
	for i, s := range r.Sections {
		fmt.Fprintf(&b, `<a href="#s%d">%s</a>`, i, esc(s.Title))
	}
	b.WriteString("</nav>\n<section class=\"advice\"><h2>Advice</h2><ul>")
	for _, a := range r.Advice {
		fmt.Fprintf(&b, "<li>%s</li>", esc(a))
	}
	b.WriteString("</ul></section>\n")
	for i, s := range r.Sections {
		fmt.Fprintf(&b, "<section id=\"s%d\"><h2>%s</h2>\n", i, esc(s.Title))
		for _, t := range s.Text {
			fmt.Fprintf(&b, "<p>%s</p>\n", esc(t))
		}
		if s.Table != nil {
			s.Table.html(&b)
		}
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "<figure>%s<figcaption>%s</figcaption></figure>\n", f.SVG[strings.Index(f.SVG, "<svg"):], esc(f.Caption))
		}
		b.WriteString("</section>\n")
	}
	b.WriteString("<section class=\"facts\"><h2>Facts</h2><table>")
	fmt.Fprintf(&b, "<tr><td>measured</td><td>%s</td></tr>", r.Created.UTC().Format("2006-01-02 15:04 UTC"))
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td></tr>", esc(f.Name), esc(f.Value))
	}
	b.WriteString("</table></section>\n</main></body></html>\n")
	return b.String()
}

func (t *Table) html(b *strings.Builder) {
	row := func(tag string, cells []string) {
		b.WriteString("<tr>")
		for i, c := range cells {
			class := ""
			if i < t.Left && len([]rune(c)) <= 24 {
				class = ` class="w"`
			}
			if i >= t.Left {
				class = ` class="n"`
				if len([]rune(c)) > 32 { // words after all
					class = ` class="n long"`
				}
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, class, html.EscapeString(c), tag)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<table><thead>")
	row("th", t.Head)
	b.WriteString("</thead><tbody>")
	for _, cells := range t.Rows {
		row("td", cells)
	}
	b.WriteString("</tbody></table>\n")
}
