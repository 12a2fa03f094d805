package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"time"

	"golang.org/x/text/language"
)

//go:embed *.html style.css texts/*.json
var files embed.FS

// defaultName stands on the pages of an operator who has given none.
const defaultName = "Gatehouse"

// Page is one of the types of this package that can be rendered: SignIn, Consent, Account, SignOut, Problem.
type Page interface {
	// template is the file, without .html, that the page is made of.
	template() string
	// heading is the key of the text that is the title and the h1.
	heading() string
	// failed reports whether the title has to say that something went wrong with the form that was sent.
	failed() bool
}

func (SignIn) template() string { return "signin" }
func (SignIn) heading() string  { return "signin.title" }
func (s SignIn) failed() bool   { return s.Notice.Failed() }

func (Consent) template() string { return "consent" }
func (Consent) heading() string  { return "consent.title" }
func (Consent) failed() bool     { return false }

func (Account) template() string { return "account" }
func (Account) heading() string  { return "account.title" }
func (Account) failed() bool     { return false }

func (SignOut) template() string { return "signout" }
func (SignOut) failed() bool     { return false }
func (s SignOut) heading() string {
	if s.Done {
		return "signout.done.title"
	}
	return "signout.title"
}

func (Problem) template() string  { return "problem" }
func (p Problem) heading() string { return "problem." + string(p.Code) + ".title" }
func (Problem) failed() bool      { return false }

// Pages renders pages. It is safe for concurrent use.
type Pages struct {
	brand     brand
	style     template.CSS
	templates map[string]*template.Template
	texts     map[Language]texts
	// languages begins with the default one; matcher knows them in the same order.
	languages []Language
	matcher   language.Matcher
	// policy is the Content-Security-Policy but for the targets of forms.
	policy string
}

// brand is a Brand that has been checked.
type brand struct {
	name string
	logo template.URL
	// mark: the name is the default one, and our own mark stands beside it.
	mark bool
}

// New returns the pages of a brand. It refuses a logo that cannot be embedded: one that is not PNG, JPEG, WebP or SVG,
// or that is larger than 64 KiB.
func New(b Brand) (*Pages, error) {
	p := &Pages{brand: brand{name: b.Name}}
	if b.Name == "" {
		p.brand.name, p.brand.mark = defaultName, b.Logo == nil
	}
	if b.Logo != nil {
		url, err := b.Logo.dataURL()
		if err != nil {
			return nil, fmt.Errorf("logo: %w", err)
		}
		p.brand.logo = url
	}
	style, err := files.ReadFile("style.css")
	if err != nil {
		return nil, err
	}
	p.style = template.CSS(style) //nolint:gosec // it is our own file, and the policy needs it byte for byte
	p.policy = policy(style)
	if err := p.loadTexts(); err != nil {
		return nil, err
	}
	return p, p.parseTemplates()
}

// parseTemplates joins each page's file to the layout.
func (p *Pages) parseTemplates() error {
	p.templates = make(map[string]*template.Template)
	for _, page := range []Page{SignIn{}, Consent{}, Account{}, SignOut{}, Problem{}} {
		name := page.template()
		parsed, err := template.ParseFS(files, "layout.html", name+".html")
		if err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
		p.templates[name] = parsed
	}
	return nil
}

// Render returns the HTML of a page in a language; one that there is not is the default one. It fails for a Notice, a
// Done or a ProblemCode that this package does not name.
func (p *Pages) Render(lang Language, page Page) ([]byte, error) {
	if _, known := p.texts[lang]; !known {
		lang = p.languages[0]
	}
	v := view{pages: p, texts: p.texts[lang], Language: lang, Page: page}
	var out bytes.Buffer
	if err := p.templates[page.template()].ExecuteTemplate(&out, "layout", v); err != nil {
		return nil, fmt.Errorf("page %s: %w", page.template(), err)
	}
	return out.Bytes(), nil
}

// view is what the templates see: a page, and the words for it.
type view struct {
	texts
	pages    *Pages
	Language Language
	Page     Page
}

// Name is the page's template, by which the style sheet tells the pages apart.
func (v view) Name() string { return v.Page.template() }

// Brand is the operator's name.
func (v view) Brand() string { return v.pages.brand.name }

// Logo is the operator's image, or empty.
func (v view) Logo() template.URL { return v.pages.brand.logo }

// Mark reports whether to draw our own mark.
func (v view) Mark() bool { return v.pages.brand.mark }

// Style is the style sheet.
func (v view) Style() template.CSS { return v.pages.style }

// Heading is the page's h1.
func (v view) Heading() (string, error) { return v.Text(v.Page.heading()) }

// Title is what the browser's tab says: an error first, because a screen reader begins with it.
func (v view) Title() (string, error) {
	title, err := v.Heading()
	if err != nil {
		return "", err
	}
	if v.Page.failed() {
		title = v.fill("title.error", "{title}", title)
	}
	return v.fill("title.page", "{title}", title, "{brand}", v.Brand()), nil
}

// Failed reports whether a notice is about something that went wrong.
func (n Notice) Failed() bool { return n != NoNotice && n != SignInAgain }

// Mismatch reports whether the fields themselves are wrong.
func (n Notice) Mismatch() bool { return n == WrongCredentials }

// Waits reports whether a notice is followed by when to try again.
func (n Notice) Waits() bool { return n == TooManyAttempts || n == Busy }

// Waits reports whether a problem passes by itself, so that the page says when to try again.
func (c ProblemCode) Waits() bool { return c == Throttled || c == Unavailable }

// WayOn is the address of the account page for problems that end a visit: what the page itself advises happens elsewhere,
// at the application or in the browser's history. Empty: none.
func (p Problem) WayOn() string {
	switch p.Code {
	case Expired, Forged, Decided, NotFound:
		return p.AccountURL
	}
	return ""
}

// Day is a date.
func (v view) Day(t time.Time) moment { return v.date("date.day", t) }

// Moment is a date and a time of day.
func (v view) Moment(t time.Time) moment { return v.date("date.moment", t) }
