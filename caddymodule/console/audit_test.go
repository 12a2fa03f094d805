package console

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// TestO42HostileLinesAreText: an audit line with markup, a link, reversed text or other types in any member, or none at all → the page has them as
// text, and links lead to the console alone.
func TestO42HostileLinesAreText(t *testing.T) {
	p, err := pages.New(pages.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	const markup = `"><script>alert(1)</script>`
	v := &visit{parts: &Parts{Pages: p}, operator: operator{everywhere: true}}
	for name, line := range map[string]string{
		"markup":      `{"msg":"M","subject":"M","client_id":"M","reason":"M","host":"M","path":"M","by":"M","missing":"M","M":"M","cause":"M"}`,
		"account":     `{"msg":"sign-in refused","account":"M","operator":"M"}`,
		"script":      `{"msg":"x","subject":"javascript:alert(1)","client_id":"../../x","admin":"//evil.example"}`,
		"other types": `{"msg":["M"],"subject":{"M":1},"reason":7,"host":null,"path":true,"M":[{"M":"M"}]}`,
		"direction":   `{"msg":"\u202egpj.exe","subject":"\u202e","reason":"\u2066x"}`,
		"empty":       `{}`,
	} {
		event := admin.AuditEvent{ID: "a.b", Time: time.Unix(0, 0), Line: []byte(strings.ReplaceAll(line, "M", `\"><script>alert(1)</script>`))}
		row := auditRow(v, &event)
		page := pages.Console{Title: "console.place.audit", SignOutURL: "/", Blocks: []pages.Block{{Table: &pages.Table{
			Head: heads("console.audit.when", "console.audit.event", "console.session.who", "console.audit.where", "console.audit.by"), Rows: []pages.Row{row},
		}}}}
		body, err := p.Render("en", page)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(string(body), "<script>alert") {
			t.Errorf("%s: %s", name, body)
		}
		if name == "markup" && !strings.Contains(string(body), "&lt;script&gt;alert") {
			t.Errorf("%s is not shown: %s", markup, body)
		}
		for _, cells := range row.Cells {
			for _, cell := range cells {
				if cell.URL != "" && !strings.HasPrefix(cell.URL, Base+"/") {
					t.Errorf("%s: a link leads to %s", name, cell.URL)
				}
			}
		}
	}
}

// TestO45ReasonsAreExplained: each reason that has an explanation → words for it and for what mends it, and any other one is shown as its code.
func TestO45ReasonsAreExplained(t *testing.T) {
	p, err := pages.New(pages.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, texts := p.In("en")
	said := func(key string) {
		if _, is := texts[key]; !is {
			t.Errorf("there is no text %s", key)
		}
	}
	for reason := range explanations {
		found, words := explanationOf(reason)
		said(words.Key)
		said("console.mend." + found.mend)
		for _, page := range found.pages {
			said(mendLinks[page])
		}
	}
	for reason, key := range map[string]string{"path_dot_segment": "console.reason.path_unclear", "panic": "console.reason.unknown", "": "console.reason.unknown"} {
		if found, words := explanationOf(reason); words.Key != key || texts["console.mend."+found.mend] == "" {
			t.Errorf("%q: %+v", reason, words)
		}
	}
	l := auditLine{ID: "a.b", rest: map[string]string{"reason": "panic"}}
	if cell := reasonOf(&l); cell.Text != "panic" || !cell.Code || !cell.Phrase.IsEmpty() {
		t.Errorf("%+v", cell)
	}
}

// TestO46ThingsOfOtherIssuersHaveNoNames: an event that names a person of ours, and one of another issuer that has the same id → the name with the
// id and a link to the person, and the id alone; an id without a name → a link.
func TestO46ThingsOfOtherIssuersHaveNoNames(t *testing.T) {
	v := &visit{operator: operator{everywhere: true}, names: map[string]string{"u-ada": "Ada"}}
	for line, want := range map[string][]pages.Cell{
		`{"subject":"u-ada"}`:                  {link("Ada", Base+"/people/person?id=u-ada"), {Text: "u-ada", Tone: "quiet"}},
		`{"subject":"u-ada","trust":"corp"}`:   {text("u-ada")},
		`{"subject":"u-gone"}`:                 {link("u-gone", Base+"/people/person?id=u-gone")},
		`{"subject":"u-ada","account":"Ada"}`:  {link("Ada", Base+"/people/person?id=u-ada")},
		`{"subject":"u-gone","account":"a@b"}`: {link("a@b", Base+"/people/person?id=u-gone")},
	} {
		l := lineOf(&admin.AuditEvent{Line: []byte(line)})
		if got := whoOf(v, &l); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}
