package configuration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// Pages are the operator's name, colours, links and words on the pages. Files are read when the configuration is loaded.
type Pages struct {
	// Name stands at the top of each page. Default: Gatehouse.
	Name string `json:"name,omitempty"`
	// Logo is an image file: .svg, .png, .jpg or .webp, of at most 64 KiB.
	Logo string `json:"logo,omitempty"`
	// Accent is the colour of buttons and links, and Background that around the card, each as rrggbb for the light and for the dark scheme.
	// Text on a colour, or of it, must have a contrast of at least 4.5:1 (WCAG 2.2). Default: blue on grey.
	Accent     *pages.Colours `json:"accent,omitempty"`
	Background *pages.Colours `json:"background,omitempty"`
	// Links are the URLs below each page, of https or mailto, by what they lead to: help, privacy or imprint. Default: none.
	Links map[string]string `json:"links,omitempty"`
	// Notes are texts on the sign-in page, each about one application.
	Notes []Note `json:"notes,omitempty"`
	// Languages is a directory of catalogues: files like it.json with every text of the pages. A catalogue adds a language, or replaces
	// ours. Default: English, French, German and Spanish.
	Languages string `json:"languages,omitempty"`
}

// Note is a text of at most 500 characters on the sign-in page, for sign-ins at one client or host.
type Note struct {
	// Client is the client's id. Host is a host behind the gate, as browsers show it. A note has one of them.
	Client string `json:"client,omitempty"`
	Host   string `json:"host,omitempty"`
	// Language is the language of the text. The text without one is for all other languages, and must be there.
	Language string `json:"language,omitempty"`
	Text     string `json:"text"`
}

// maxLogo bounds the size of a logo in bytes: every page contains it.
const maxLogo = 64 << 10

// logoTypes are the media types of logos, by the file's suffix.
var logoTypes = map[string]string{
	".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
}

// parsePages reads:
//
//	pages {
//		name       <name>
//		logo       <file>
//		accent     <light> <dark>
//		background <light> <dark>
//		link       help|privacy|imprint <url>
//		note       client|host <id or host> [<language>] <text>
//		languages  <directory>
//	}
func parsePages(d *caddyfile.Dispenser, configured **Pages, at *Sources) error {
	if err := setting.Once(d, "pages", *configured != nil); err != nil {
		return err
	}
	c := orNew(configured)
	return options{
		"name":       checkedText(&c.Name, nil),
		"logo":       with(&c.Logo, at, parseLogo),
		"accent":     with(&c.Accent, at, parseColours),
		"background": with(&c.Background, at, parseColours),
		"link":       with(&c.Links, at, parseLink),
		"note":       with(&c.Notes, at, parseNote),
		"languages": func(d *caddyfile.Dispenser) error {
			at.note(d, "languages")
			return setting.TextOrPlaceholder(d, &c.Languages)
		},
	}.parseAlone(d, "unknown pages option %q")
}

func parseLogo(d *caddyfile.Dispenser, logo *string, at *Sources) error {
	at.note(d, "logo")
	if err := setting.TextOrPlaceholder(d, logo); err != nil || setting.IsPlaceholder(*logo) { // its suffix is known only when the server starts
		return err
	}
	if _, err := logoType(*logo); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

func parseColours(d *caddyfile.Dispenser, colours **pages.Colours, at *Sources) error {
	name := d.Val()
	at.note(d, name)
	if err := setting.Once(d, name, *colours != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) != 2 { // a # begins a comment
		return d.Errf("%s needs two colours, for the light and for the dark scheme, without a #: write it as `%s 2b50c8 9db3ff`", name, name)
	}
	*colours = &pages.Colours{Light: args[0], Dark: args[1]}
	return nil
}

func parseLink(d *caddyfile.Dispenser, links *map[string]string, at *Sources) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.ArgErr()
	}
	kind, url := args[0], args[1]
	if !slices.Contains(pages.LinkKinds, kind) {
		return d.Errf("unknown link %q%s", kind, setting.Known(slices.Values(pages.LinkKinds)))
	}
	if err := setting.Once(d, "link "+kind, (*links)[kind] != ""); err != nil {
		return err
	}
	if err := setting.RefuseRequest(d, url); err != nil {
		return err
	}
	at.note(d, "link", kind)
	if *links == nil {
		*links = make(map[string]string)
	}
	(*links)[kind] = url
	return nil
}

func parseNote(d *caddyfile.Dispenser, notes *[]Note, at *Sources) error {
	args := d.RemainingArgs()
	if len(args) != 3 && len(args) != 4 {
		return d.ArgErr()
	}
	note := Note{Text: args[len(args)-1]}
	switch args[0] {
	case "client":
		note.Client = args[1]
	case "host":
		note.Host = args[1]
	default:
		return d.Errf("a note is about a client or a host: write it as `note client <id> <text>` or `note host <host> <text>`")
	}
	if len(args) == 4 {
		note.Language = args[2]
	}
	at.note(d, "note", args[0], args[1])
	*notes = append(*notes, note)
	return nil
}

// read reads the files and makes the pages.
func (c *Pages) read(s *Settings, at *Sources) error {
	if c == nil {
		c = new(Pages)
	}
	shown := pages.Settings{Name: c.Name, Accent: c.Accent, Background: c.Background}
	for _, read := range []func(*pages.Settings, *Sources) error{c.readLogo, c.readLinks, c.readNotes, c.readLanguages} {
		if err := read(&shown, at); err != nil {
			return err
		}
	}
	var err error
	s.Pages, err = pages.New(shown)
	var fault *pages.Fault
	if errors.As(err, &fault) {
		return at.At(err, fault.Setting)
	}
	return err
}

func (c *Pages) readLogo(s *pages.Settings, at *Sources) error {
	if c.Logo == "" {
		return nil
	}
	path, err := setting.Resolve("logo", c.Logo)
	if err == nil {
		s.Logo, err = readLogo(path)
	}
	return at.At(err, "logo")
}

func (c *Pages) readLinks(s *pages.Settings, at *Sources) error {
	for kind := range c.Links {
		if !slices.Contains(pages.LinkKinds, kind) {
			return fmt.Errorf("unknown link %q%s", kind, setting.Known(slices.Values(pages.LinkKinds)))
		}
	}
	for _, kind := range pages.LinkKinds {
		text, has := c.Links[kind]
		if !has {
			continue
		}
		url, err := setting.Resolve("link "+kind, text)
		if err != nil {
			return at.At(err, "link", kind)
		}
		s.Links = append(s.Links, pages.Link{Kind: kind, URL: url})
	}
	return nil
}

func (c *Pages) readNotes(s *pages.Settings, at *Sources) error {
	for _, note := range c.Notes {
		if note.Client == store.BuiltInClientID {
			return at.At(fmt.Errorf("note client %s: sign-ins at hosts have a note for each host: write it as `note host <host> <text>`", note.Client), "note", "client", note.Client)
		}
		s.Notes = append(s.Notes, pages.Note{About: pages.NoteFor{Client: note.Client, Host: note.Host}, Language: note.Language, Text: note.Text})
	}
	return nil
}

func (c *Pages) readLanguages(s *pages.Settings, at *Sources) (err error) {
	dir := ""
	if c.Languages != "" {
		if dir, err = setting.Resolve("languages", c.Languages); err != nil {
			return at.At(err, "languages")
		}
	}
	s.Words, err = words.Load(dir)
	return at.At(err, "languages")
}

// logoType returns the media type of a logo.
func logoType(path string) (string, error) {
	media, known := logoTypes[strings.ToLower(filepath.Ext(path))]
	if !known {
		return "", fmt.Errorf("logo %s: use a file that ends in .svg, .png, .jpg or .webp", path)
	}
	return media, nil
}

// readLogo reads the file of a logo.
func readLogo(path string) (*pages.Logo, error) {
	media, err := logoType(path)
	if err != nil {
		return nil, err
	}
	// A pipe or a device could keep the server from starting.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("logo %s: this is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	if len(data) > maxLogo {
		return nil, fmt.Errorf("logo %s: it has more than %d bytes, and every page carries it", path, maxLogo)
	}
	return &pages.Logo{MediaType: media, Data: data}, nil
}
