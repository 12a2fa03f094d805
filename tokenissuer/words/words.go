// Package words holds the texts that people read: of the pages, and of anything else that speaks to them. A catalogue has the texts of one
// language, in a JSON file that is named by its BCP 47 tag: an object of keys and texts. Placeholders stand in braces: {count}.
//
// catalogue.go is a catalogue and how its texts are filled, read.go reads and checks the files, choose.go finds the language of a reader.
// catalogues/ has the languages that we ship, and console/ what the operator's console says in them. The English ones decide which keys and
// placeholders a catalogue has. A catalogue of an operator may lack texts of the console, which are then in English.
package words

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Language is the BCP 47 tag of a catalogue. The zero value is the default.
type Language string

// Default is the language for readers of none of the others.
const Default Language = "en"

//go:embed catalogues/*.json console/*.json
var shipped embed.FS

// Catalogues are the catalogues of one configuration. They are safe for concurrent use.
type Catalogues struct {
	texts map[Language]Catalogue
	// languages has the default first; matcher has the same order.
	languages []Language
	matcher   language.Matcher
}

// Load returns the catalogues that we ship and those in the directory dir, which replace ours of the same language. Without a directory
// it returns ours.
func Load(dir string) (*Catalogues, error) {
	ours, err := shippedTexts()
	if err != nil {
		return nil, err
	}
	texts := maps.Clone(ours)
	if dir != "" {
		if err := addDirectory(texts, dir); err != nil {
			return nil, err
		}
	}
	c := &Catalogues{texts: texts}
	var tags []language.Tag
	for lang := range texts {
		c.languages = append(c.languages, lang)
	}
	slices.SortFunc(c.languages, func(a, b Language) int {
		switch {
		case a == b:
			return 0
		case a == Default:
			return -1
		case b == Default:
			return 1
		}
		return strings.Compare(string(a), string(b))
	})
	for _, lang := range c.languages {
		tags = append(tags, language.Make(string(lang)))
	}
	c.matcher = language.NewMatcher(tags)
	return c, nil
}

// In returns the catalogue of a language and that language, or those of the default if there is no such catalogue.
func (c *Catalogues) In(lang Language) (Language, Catalogue) {
	if texts, known := c.texts[lang]; known {
		return lang, texts
	}
	return c.languages[0], c.texts[c.languages[0]]
}

// Languages returns the available languages, with the default first (RFC 8414 §2, ui_locales_supported).
func (c *Catalogues) Languages() []string {
	names := make([]string, len(c.languages))
	for i, lang := range c.languages {
		names[i] = string(lang)
	}
	return names
}

// Parse returns the language of a tag in its canonical form.
func Parse(tag string) (Language, error) {
	if !isTag(tag) {
		return "", fmt.Errorf("%.64q is not a language tag: use one like it, pt-BR or zh-Hant", tag)
	}
	parsed, err := language.Parse(tag)
	if base, _, _ := parsed.Raw(); err != nil || base.String() == "und" {
		return "", fmt.Errorf("%q names no known language: use a tag like it, pt-BR or zh-Hant", tag)
	}
	return Language(parsed.String()), nil
}

// isTag reports whether a text has the form of a language tag (RFC 5646 §2.1): subtags of at most eight letters and digits.
func isTag(text string) bool {
	if len(text) > maxTag {
		return false
	}
	for subtag := range strings.SplitSeq(text, "-") {
		if subtag == "" || len(subtag) > 8 || strings.Trim(subtag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}
