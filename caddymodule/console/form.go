package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
)

// form is a page with a form. What a person has typed is shown again when the change is refused.
type form struct {
	sheet
	fields []pages.ConsoleField
	submit pages.Phrase
	danger bool
	// cancel is the page to which a person goes who does not want the change; empty: none is offered.
	cancel string
	// reads: the form changes nothing, so that an old sign-in may send it.
	reads bool
	// send makes the change.
	send func(values url.Values) (result, error)
}

// versionField is the field with the version of a thing as the page shows it. The API refuses the form once the thing has another one, as after
// the same form, which a browser sends again when the page that followed it is reloaded.
func versionField(version string) pages.ConsoleField {
	return pages.ConsoleField{Name: "version", Kind: "hidden", Value: version}
}

// result is what follows a change: another page, to which the browser is sent with words about what was done, or a page that is shown at
// once, such as one with a secret.
type result struct {
	url   string
	done  bool // the page says that the change was made
	sheet *sheet
}

// serveForm shows a form, or sends it.
func (v *visit) serveForm(build func(*visit) (*form, error)) error {
	f, err := build(v)
	if err != nil {
		return err
	}
	if v.r.Method != http.MethodPost {
		if !v.operator.fresh && !f.reads {
			f.notices = append(f.notices, askAgain(v, false))
		}
		return showForm(v, http.StatusOK, f)
	}
	sent, err := requests.ParseForm(v.w, v.r)
	if err == nil {
		err = v.identifyAgain()
	}
	if err != nil {
		return err
	}
	values := make(url.Values)
	for i, field := range f.fields {
		f.fields[i] = typed(field, sent)
		if value := sent.Get(field.Name); value != "" {
			values.Set(field.Name, value)
		}
	}
	if !v.operator.fresh && !f.reads {
		f.notices = append(f.notices, askAgain(v, true))
		return showForm(v, http.StatusForbidden, f)
	}
	v.r = v.r.WithContext(context.WithoutCancel(v.r.Context())) // a change is recorded even if the browser disconnects
	done, err := f.send(values)
	var wrong *fieldFault
	var refused *admin.Refusal
	switch {
	case errors.As(err, &wrong):
		wrong.mark(f.fields)
		f.notices = append(f.notices, pages.ConsoleNotice{Phrase: pages.Say("console.form.faults"), Failed: true})
		return showForm(v, http.StatusBadRequest, f)
	case errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed:
		return showChanged(v, build, sent)
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusNotFound:
		f.notices = append(f.notices, pages.ConsoleNotice{Phrase: pages.Phrase{Text: refused.Error()}, Failed: true})
		return showForm(v, refused.Status, f)
	case err != nil:
		return err
	case done.sheet != nil:
		return v.show(http.StatusOK, *done.sheet)
	}
	location := done.url
	if done.done {
		location = withDone(location)
	}
	v.w.Header()["Location"] = []string{location}
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

func showForm(v *visit, status int, f *form) error {
	page := f.sheet
	page.blocks = append(page.blocks, pages.Block{Form: &pages.ConsoleForm{
		Action: v.r.URL.RequestURI(), Fields: f.fields, Submit: f.submit, Danger: f.danger, CancelURL: f.cancel,
	}})
	return v.show(status, page)
}

// showChanged shows the form again with what was typed, and beside each field what another operator has made of it since. The version in the
// form is the new one, so that it can be sent again.
func showChanged(v *visit, build func(*visit) (*form, error), sent requests.Form) error {
	f, err := build(v)
	if err != nil {
		return err
	}
	for i, field := range f.fields {
		if field.Kind == "hidden" {
			continue
		}
		again := typed(field, sent)
		if shown(again) != shown(field) {
			again.Now = pages.Say("console.form.now", "value", shown(field))
		}
		f.fields[i] = again
	}
	f.notices = append(f.notices, pages.ConsoleNotice{Phrase: pages.Say("console.form.changed"), Failed: true})
	return showForm(v, http.StatusConflict, f)
}

// typed returns a field with what was sent. A password is typed again.
func typed(field pages.ConsoleField, sent requests.Form) pages.ConsoleField {
	value := sent.Get(field.Name)
	switch field.Kind {
	case "password":
	case "check":
		field.Checked = value != ""
	case "choice":
		choices := make([]pages.Choice, len(field.Choices))
		for i, c := range field.Choices {
			c.Chosen = c.Value == value
			choices[i] = c
		}
		field.Choices = choices
	default:
		field.Value = value
	}
	return field
}

// shown returns the value that a field shows.
func shown(field pages.ConsoleField) string {
	switch field.Kind {
	case "check":
		if field.Checked {
			return "✓"
		}
		return "–"
	case "choice":
		for _, c := range field.Choices {
			if c.Chosen {
				return c.Value
			}
		}
		return ""
	}
	return strings.Join(strings.Fields(field.Value), " ")
}

// fieldFault is the error of a form with a value that is refused.
type fieldFault struct {
	field string
	why   pages.Phrase
}

func (f *fieldFault) Error() string { return "the field " + f.field + " is refused" }

func (f *fieldFault) mark(fields []pages.ConsoleField) {
	for i := range fields {
		if fields[i].Name == f.field {
			fields[i].Fault = f.why
		}
	}
}

// askAgain says that the sign-in is too old for a change, and leads to another one. After a form was sent, that is in another tab, so that
// what was typed is not lost.
func askAgain(v *visit, sent bool) pages.ConsoleNotice {
	key := "console.form.again"
	if sent {
		key = "console.form.again_sent"
	}
	return pages.ConsoleNotice{
		Phrase: pages.Say(key), Failed: sent,
		Link: &pages.ConsoleLink{Phrase: pages.Say("console.form.sign_in"), URL: againURL(v.r.URL.RequestURI(), false), NewTab: sent},
	}
}

// againURL returns the address that asks for a fresh sign-in and leads to another one; with another account if that is asked for.
func againURL(address string, another bool) string {
	if another {
		return "/oauth/sign_in?" + url.Values{"return": {address}, "prompt": {"select_account"}}.Encode()
	}
	return to(againPath, "to", address)
}

// again leads on after a fresh sign-in, which the gate has asked for.
func again(v *visit) error {
	address := v.query("to")
	if !isPage(address) {
		address = Base
	}
	v.w.Header()["Location"] = []string{address}
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// isPage reports whether an address is that of a page of the console.
func isPage(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || u.EscapedPath() != u.Path {
		return false
	}
	path, below := strings.CutPrefix(u.Path, Base)
	found, is := routes[path]
	return below && is && found.file == nil
}

// withDone adds to an address that a change was made.
func withDone(location string) string {
	separator := "?"
	if strings.Contains(location, "?") {
		separator = "&"
	}
	return location + separator + "done=yes"
}
