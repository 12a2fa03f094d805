package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"sync"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

//go:embed *.html *.css
var files embed.FS

// Page is a page of this package: SignIn, SecondFactor, Enrolment, Codes, AskLetter, UseLink, Consent, Device, DeviceDecided, FormPost, Account, SignOut, Front, AtHost, Denied, Problem or Console.
type Page interface {
	// template returns the name of the page's file, without .html.
	template() string
	// heading returns the key of the text for title and h1.
	heading() string
	// failed reports whether the submitted form had an error, which the title then mentions.
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
func (a Account) failed() bool   { return a.Tokens != nil && a.Tokens.Fault != "" || a.Profile.failed() }

func (SignOut) template() string { return "signout" }
func (SignOut) failed() bool     { return false }
func (s SignOut) heading() string {
	if s.Done {
		return "signout.done.title"
	}
	return "signout.title"
}

// Return returns the attribute of the link back to the application.
func (s SignOut) Return() template.HTMLAttr { return address("href", s.ReturnURL) }

func (Front) template() string { return "front" }
func (Front) heading() string  { return "front.title" }
func (Front) failed() bool     { return false }

func (AtHost) template() string  { return "host" }
func (a AtHost) heading() string { return "host." + string(a.Code) + ".title" }
func (a AtHost) failed() bool    { return false }

func (Denied) template() string { return "denied" }
func (Denied) heading() string  { return "denied.title" }
func (Denied) failed() bool     { return false }

func (Problem) template() string  { return "problem" }
func (p Problem) heading() string { return "problem." + string(p.Code) + ".title" }
func (Problem) failed() bool      { return false }

// Pages renders pages, in the languages of its catalogues. It is safe for concurrent use.
type Pages struct {
	*words.Catalogues
	brand brand
	style template.CSS
	// console is the look of the console, whose style sheet has more.
	console   look
	notes     map[noteKey]string
	templates map[string]*template.Template // of parsedTemplates
	// policy is the Content-Security-Policy without form targets.
	policy string
}

// look is a style sheet with its policy.
type look struct {
	style  template.CSS
	policy string
}

// New returns the pages of an operator. It refuses settings that cannot be shown with a Fault.
func New(s Settings) (*Pages, error) {
	p := &Pages{Catalogues: s.Words}
	var err error
	if p.Catalogues == nil {
		if p.Catalogues, err = words.Load(""); err != nil {
			return nil, err
		}
	}
	if p.brand, err = s.brand(); err != nil {
		return nil, err
	}
	if p.notes, err = s.notes(p.Catalogues); err != nil {
		return nil, err
	}
	style, err := files.ReadFile("style.css")
	if err != nil {
		return nil, err
	}
	colours, err := s.style(style)
	if err != nil {
		return nil, err
	}
	style = append(style, colours...)
	p.style = template.CSS(style) //lint:ignore gosec our own file and checked colours, which the policy's digest covers byte for byte
	p.policy = policy(style)
	more, err := files.ReadFile("console.css")
	if err != nil {
		return nil, err
	}
	style = append(style, more...)
	p.console = look{template.CSS(style), policy(style)} //lint:ignore gosec likewise
	p.templates, err = parsedTemplates()
	return p, err
}

// Brand returns the operator's name.
func (p *Pages) Brand() string { return p.brand.name }

// parsedTemplates combines each page's file with the layout, by name. What an operator can set is in the data of the templates, so that all
// Pages share them.
var parsedTemplates = sync.OnceValues(func() (map[string]*template.Template, error) {
	templates := make(map[string]*template.Template)
	for _, page := range []Page{SignIn{}, SecondFactor{}, Enrolment{}, Codes{}, AskLetter{}, UseLink{}, Consent{}, Device{}, DeviceDecided{}, FormPost{}, Account{}, SignOut{}, Front{}, AtHost{}, Denied{}, Problem{}, Console{}} {
		name := page.template()
		parsed, err := template.ParseFS(files, "layout.html", name+".html")
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", name, err)
		}
		templates[name] = parsed
	}
	return templates, nil
})

// Render returns the HTML of a page in a language, or in the default one if the language is unavailable. It fails for an unknown Notice,
// Done or ProblemCode.
func (p *Pages) Render(lang words.Language, page Page) ([]byte, error) {
	v := view{pages: p, Page: page}
	v.Language, v.Catalogue = p.In(lang)
	var out bytes.Buffer
	if err := p.templates[page.template()].ExecuteTemplate(&out, "layout", v); err != nil {
		return nil, fmt.Errorf("page %s: %w", page.template(), err)
	}
	return out.Bytes(), nil
}

// view is the data of the templates: a page and the texts of its language.
type view struct {
	words.Catalogue
	pages    *Pages
	Language words.Language
	Page     Page
}

// Name returns the page's template name, which the style sheet uses.
func (v view) Name() string { return v.Page.template() }

// Brand returns the operator's name.
func (v view) Brand() string { return v.pages.brand.name }

// Logo returns the operator's logo, or "".
func (v view) Logo() template.URL { return v.pages.brand.logo }

// Mark reports whether to show our own mark.
func (v view) Mark() bool { return v.pages.brand.mark }

// Links returns the operator's links in the footer.
func (v view) Links() []Link { return v.pages.brand.links }

// Note returns the operator's note for an application in the page's language, or "".
func (v view) Note(about NoteFor) string {
	if note, has := v.pages.notes[noteKey{about, v.Language}]; has {
		return note
	}
	return v.pages.notes[noteKey{about, ""}]
}

// InWords returns the scopes, with the built-in words for those without words.
func (v view) InWords(scopes []Scope) []Scope {
	described := slices.Clone(scopes)
	for i, s := range described {
		if s.Words == "" {
			described[i].Words = v.Catalogue["scope."+s.Name]
		}
	}
	return described
}

// Style returns the style sheet.
func (v view) Style() template.CSS {
	if _, is := v.Page.(Console); is {
		return v.pages.console.style
	}
	return v.pages.style
}

// Script returns the page's script, or "".
func (v view) Script() template.JS { return scriptOf(v.Page) }

// Heading returns the page's h1.
func (v view) Heading() (string, error) { return v.Text(v.Page.heading()) }

// Title returns the page's title. An error comes first, because screen readers begin with the title.
func (v view) Title() (string, error) {
	title, err := v.Heading()
	if err != nil {
		return "", err
	}
	if v.Page.failed() {
		title = v.Fill("title.error", "{title}", title)
	}
	return v.Fill("title.page", "{title}", title, "{brand}", v.Brand()), nil
}

// Failed reports whether a notice is an error.
func (n Notice) Failed() bool { return n != NoNotice && n != SignInAgain }

// Mismatch reports whether the entered values are wrong.
func (n Notice) Mismatch() bool {
	return n == WrongCredentials || n == WrongCode || n == WrongUserCode || n == NoAddress || n == ForeignAddress
}

// AboutProvider reports whether a notice is about a provider.
func (n Notice) AboutProvider() bool { return slices.Contains(ProviderNotices, n) }

// Waits reports whether a notice says when to try again.
func (n Notice) Waits() bool {
	return n == TooManyAttempts || n == TooManyCodes || n == TooManyLetters || n == Busy
}

// Waits reports whether a problem is temporary, so that the page says when to try again.
func (c ProblemCode) Waits() bool { return c == Throttled || c == Unavailable }

// WayOn returns the URL of the account page for problems that end a visit; "" for others.
func (p Problem) WayOn() string {
	switch p.Code {
	case Expired, Forged, Decided, NotFound, LinkBroken, LinkExpired, LinkSpent, AddressTaken, RegistrationClosed:
		return p.AccountURL
	}
	return ""
}
