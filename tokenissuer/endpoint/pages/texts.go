package pages

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// Language is a supported language, as a BCP 47 tag. The zero value is the default.
type Language string

// defaultLanguage is used if none of the reader's languages is available.
const defaultLanguage Language = "en"

// texts maps keys to the texts of one language. Placeholders are in braces: {count}.
type texts map[string]string

// loadTexts reads all files in texts/. Adding a file adds a language.
func (p *Pages) loadTexts() error {
	entries, err := files.ReadDir("texts")
	if err != nil {
		return err
	}
	p.texts = make(map[Language]texts, len(entries))
	for _, entry := range entries {
		content, err := files.ReadFile(path.Join("texts", entry.Name()))
		if err != nil {
			return err
		}
		var words texts
		if err := json.Unmarshal(content, &words); err != nil {
			return fmt.Errorf("texts/%s: %w", entry.Name(), err)
		}
		lang := Language(strings.TrimSuffix(entry.Name(), ".json"))
		p.texts[lang] = words
		p.languages = append(p.languages, lang)
	}
	return p.orderLanguages()
}

// orderLanguages puts the default language first, as the matcher expects.
func (p *Pages) orderLanguages() error {
	slices.SortFunc(p.languages, func(a, b Language) int {
		switch {
		case a == b:
			return 0
		case a == defaultLanguage:
			return -1
		case b == defaultLanguage:
			return 1
		}
		return strings.Compare(string(a), string(b))
	})
	tags := make([]language.Tag, len(p.languages))
	for i, lang := range p.languages {
		tag, err := language.Parse(string(lang))
		if err != nil {
			return fmt.Errorf("texts/%s.json: %w", lang, err)
		}
		tags[i] = tag
	}
	p.matcher = language.NewMatcher(tags)
	return nil
}

// Text returns the text of a key.
func (t texts) Text(key string) (string, error) {
	if words, ok := t[key]; ok {
		return words, nil
	}
	return "", fmt.Errorf("there is no text %q", key)
}

// fill returns the text of a key with its placeholders replaced.
func (t texts) fill(key string, oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(t[key])
}

// sentence is a text around a value that has its own element.
type sentence struct{ Before, Value, ISO, After string }

// moment is a time, formatted for people and for programs.
type moment struct{ words, iso string }

// Sentence splits the text of a key at its only placeholder, around a string or a moment. The value stays separate, so that the template
// can isolate its writing direction.
func (t texts) Sentence(key string, value any) (sentence, error) {
	words, err := t.Text(key)
	if err != nil {
		return sentence{}, err
	}
	before, rest, _ := strings.Cut(words, "{")
	_, after, found := strings.Cut(rest, "}")
	if !found {
		return sentence{}, fmt.Errorf("the text %q has no placeholder", key)
	}
	switch value := value.(type) {
	case string:
		return sentence{Before: before, Value: value, After: after}, nil
	case moment:
		return sentence{Before: before, Value: value.words, ISO: value.iso, After: after}, nil
	}
	return sentence{}, fmt.Errorf("the text %q: no words for a %T", key, value)
}

// InWords returns the scopes, with the built-in words for those without words.
func (t texts) InWords(scopes []Scope) []Scope {
	described := slices.Clone(scopes)
	for i, s := range described {
		if s.Words == "" {
			described[i].Words = t["scope."+s.Name]
		}
	}
	return described
}

// Role returns a role in words, or its name.
func (t texts) Role(name string) string {
	if words, ok := t["role."+name]; ok {
		return words
	}
	return name
}

// date formats a time in UTC, because the reader's time zone is unknown.
func (t texts) date(key string, at time.Time) moment {
	at = at.UTC()
	return moment{
		words: t.fill(key, "{day}", strconv.Itoa(at.Day()), "{month}", t["month."+strconv.Itoa(int(at.Month()))],
			"{year}", strconv.Itoa(at.Year()), "{time}", at.Format("15:04")),
		iso: at.Format(time.RFC3339),
	}
}

// Retry says when to retry, rounded up.
func (t texts) Retry(after time.Duration) string {
	seconds := int64(after / time.Second)
	if after%time.Second > 0 {
		seconds++
	}
	minutes, hours := (seconds+59)/60, (seconds+3599)/3600
	switch {
	case seconds < 5:
		return t["retry.moment"]
	case seconds < 60:
		return t.count("retry.seconds", seconds)
	case minutes == 1:
		return t["retry.minute"]
	case minutes < 60:
		return t.count("retry.minutes", minutes)
	case hours == 1:
		return t["retry.hour"]
	}
	return t.count("retry.hours", hours)
}

func (t texts) count(key string, n int64) string {
	return t.fill(key, "{count}", strconv.FormatInt(n, 10))
}
