package pages

import (
	"errors"
	"fmt"
	"html/template"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// Settings are what an operator decides about the pages.
type Settings struct {
	// Name is shown at the top of each page. Default: Gatehouse.
	Name string
	// Logo is shown beside the name. It may be nil.
	Logo *Logo
	// Accent is the colour of buttons and links, and Background that of the page around the card. They may be nil.
	Accent, Background *Colours
	// Links are shown below each page, in this order.
	Links []Link
	// Notes are shown on the sign-in page.
	Notes []Note
	// Words are the texts of the pages. Default: those that we ship.
	Words *words.Catalogues
}

// Fault is an error in one of the Settings.
type Fault struct {
	// Setting is the name of the setting: logo, accent, background, link and its kind, or note and what it is about.
	Setting string
	Err     error
}

func (f *Fault) Error() string { return f.Setting + ": " + f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// Link is a link below each page.
type Link struct {
	// Kind is help, privacy or imprint. The text is in the catalogues.
	Kind string
	// URL is of https, or mailto.
	URL string
}

// LinkKinds are the kinds of links.
var LinkKinds = []string{"help", "privacy", "imprint"}

// NoteFor is what a note is about: a client, by its id, or a host behind the gate. The zero value is neither.
type NoteFor struct{ Client, Host string }

func (n NoteFor) String() string {
	if n.Host != "" {
		return "host " + n.Host
	}
	return "client " + n.Client
}

// Note is a text on the sign-in page about an application. The note without a language is for all languages without one of their own.
type Note struct {
	About    NoteFor
	Language string
	Text     string
}

// maxNote bounds a note in characters.
const maxNote = 500

// defaultName is shown where the operator has given no name.
const defaultName = "Gatehouse"

// brand is what each page shows of the Settings, checked.
type brand struct {
	name string
	logo template.URL
	// mark shows our own mark beside the default name.
	mark  bool
	links []Link
}

func (s *Settings) brand() (b brand, err error) {
	b.name, b.links = s.Name, s.Links
	if s.Name == "" {
		b.name, b.mark = defaultName, s.Logo == nil
	}
	if s.Logo != nil {
		if b.logo, err = s.Logo.dataURL(); err != nil {
			return b, &Fault{"logo", err}
		}
	}
	for _, link := range s.Links {
		if err := link.check(); err != nil {
			return b, &Fault{"link " + link.Kind, err}
		}
	}
	return b, nil
}

// check accepts URLs of https with a host, and of mailto with one address.
func (l Link) check() error {
	// The URL is not quoted in the errors, because it may contain a password.
	u, err := url.Parse(l.URL)
	switch {
	case err != nil || strings.ContainsFunc(l.URL, isUnseen):
		return errors.New("this is not a URL")
	case u.Scheme == "mailto":
		if address, err := mail.ParseAddress(u.Opaque); err != nil || address.Address != u.Opaque {
			return errors.New("use mailto with one address, as mailto:help@example.com")
		}
	case u.Scheme != "https" || u.Opaque != "":
		return errors.New("use an address of https or mailto")
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("take the user name and password out of the URL")
	}
	return nil
}

// isUnseen reports whether a reader does not see a character.
func isUnseen(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// noteKey identifies a note. The language is empty in the note for all other languages.
type noteKey struct {
	NoteFor
	language words.Language
}

// notes returns the notes by application and language.
func (s *Settings) notes(catalogues *words.Catalogues) (map[noteKey]string, error) {
	notes := make(map[noteKey]string, len(s.Notes))
	for _, note := range s.Notes {
		key := noteKey{NoteFor: note.About}
		err := note.check()
		if err == nil && note.Language != "" {
			key.language, err = catalogueOf(catalogues, note.Language)
		}
		if _, twice := notes[key]; err == nil && twice {
			err = errors.New("there are two texts for the same language")
		}
		if err != nil {
			return nil, &Fault{"note " + note.About.String(), err}
		}
		notes[key] = note.Text
	}
	for key := range notes {
		if _, general := notes[noteKey{NoteFor: key.NoteFor}]; !general {
			return nil, &Fault{"note " + key.NoteFor.String(), errors.New("add a text without a language, for readers of all others")}
		}
	}
	return notes, nil
}

// catalogueOf returns the language of a tag, which must have a catalogue.
func catalogueOf(catalogues *words.Catalogues, tag string) (words.Language, error) {
	lang, err := words.Parse(tag)
	if err != nil {
		return "", err
	}
	if found, _ := catalogues.In(lang); found != lang {
		return "", fmt.Errorf("the pages do not speak %s: use %s, or add a catalogue with `languages`", lang, strings.Join(catalogues.Languages(), ", "))
	}
	return lang, nil
}

func (n Note) check() error {
	switch {
	case (n.About.Client == "") == (n.About.Host == ""):
		return errors.New("a note is about a client or a host")
	case n.About.Host != "" && !namedHost.MatchString(n.About.Host):
		return errors.New("write the host as browsers show it, in lower case and without https://")
	case strings.TrimSpace(n.Text) == "":
		return errors.New("the text is empty")
	case !utf8.ValidString(n.Text) || strings.ContainsFunc(n.Text, unicode.IsControl):
		return errors.New("the text has a line break or another control character: write it on one line")
	case utf8.RuneCountInString(n.Text) > maxNote:
		return fmt.Errorf("the text has more than %d characters: link to a page with `link help` instead", maxNote)
	}
	return nil
}
