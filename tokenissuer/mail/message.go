package mail

import (
	"html"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// Message is a letter that is written, in the language of its reader.
type Message struct {
	// ID is the same for each attempt to send it.
	ID string
	// To is the address of the recipient, as CheckAddress accepts it.
	To string
	// Date is when it was written.
	Date time.Time
	// Subject is one line. Text and HTML say the same.
	Subject, Text, HTML string
}

// Writer writes messages. Its fields are set before use.
type Writer struct {
	Words *words.Catalogues
	// Brand is the operator's name, as on the pages.
	Brand string
	// AccountURL is the page on which people see their sessions and factors.
	AccountURL string
}

// Write writes the message of a letter.
func (w Writer) Write(m store.Mail, l Letter) Message {
	lang, texts := w.Words.In(w.language(l.Languages))
	key := "mail." + string(l.Kind)
	detail := shown(l.Detail)
	body := key + ".text"
	switch l.Kind {
	case FactorAdded, FactorRemoved:
		if detail == "" {
			body = key + ".unnamed"
		}
	}
	fill := func(key string) string {
		return texts.Fill(key, "{brand}", shown(w.Brand), "{name}", shown(l.Name), "{detail}", detail, "{time}", texts.Moment(l.At).Words,
			"{until}", texts.Moment(l.Until).Words)
	}
	greeting := "mail.greeting"
	if name := shown(l.Name); name == "" || l.Name == l.To {
		greeting = "mail.greeting.unnamed"
	}
	parts := []part{{text: fill(greeting)}, {text: fill(body)}}
	switch {
	case l.Kind.HasLink():
		parts = append(parts, part{url: l.Link}, part{text: fill("mail.until")}, part{text: fill("mail.unasked")})
	case l.Kind == AccountExists, l.Kind == AccountElsewhere:
		parts = append(parts, part{url: w.AccountURL}, part{text: fill("mail.account_exists.unasked")})
	case l.Kind != Test:
		parts = append(parts, part{text: fill("mail.when")}, part{text: fill("mail.not_you")}, part{url: w.AccountURL})
	}
	parts = append(parts, part{text: fill("mail.automatic")})
	return Message{
		ID: m.ID, To: m.To, Date: m.CreatedAt, Subject: fill(key + ".subject"), Text: plainOf(parts), HTML: htmlOf(string(lang), parts),
	}
}

// language returns the language of a reader. A list with commas or weights is an Accept-Language (RFC 9110 §12.5.4), any other is
// ui_locales (OpenID Connect Core §3.1.2.1).
func (w Writer) language(languages string) words.Language {
	if strings.ContainsAny(languages, ",;") {
		return w.Words.Language("", []string{languages})
	}
	return w.Words.Language(languages, nil)
}

// part is a paragraph of a letter: a text, or a URL to open.
type part struct{ text, url string }

func plainOf(parts []part) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(p.text + p.url + "\r\n")
	}
	return b.String()
}

// htmlOf writes the parts as HTML, without images, scripts and styles. The direction of each paragraph is that of its text.
func htmlOf(lang string, parts []part) string {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="` + html.EscapeString(lang) + `"><head><meta charset="utf-8"></head><body>` + "\r\n")
	for _, p := range parts {
		url := html.EscapeString(p.url)
		if p.url != "" {
			url = `<a href="` + url + `">` + url + `</a>`
		}
		b.WriteString(`<p dir="auto">` + html.EscapeString(p.text) + url + "</p>\r\n")
	}
	b.WriteString("</body></html>\r\n")
	return b.String()
}
