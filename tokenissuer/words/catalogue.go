package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Catalogue maps keys to the texts of one language.
type Catalogue map[string]string

// Text returns the text of a key.
func (c Catalogue) Text(key string) (string, error) {
	if text, ok := c[key]; ok {
		return text, nil
	}
	return "", fmt.Errorf("there is no text %q", key)
}

// Fill returns the text of a key with its placeholders replaced.
func (c Catalogue) Fill(key string, oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(c[key])
}

// Sentence is a text around a value that has its own element. ISO is the value for programs if it is a time.
type Sentence struct{ Before, Value, ISO, After string }

// Moment is a time, formatted for people and for programs.
type Moment struct{ Words, ISO string }

// Sentence splits the text of a key at its only placeholder, around a string or a Moment. The value stays separate, so that a template
// can isolate its writing direction.
func (c Catalogue) Sentence(key string, value any) (Sentence, error) {
	text, err := c.Text(key)
	if err != nil {
		return Sentence{}, err
	}
	before, rest, _ := strings.Cut(text, "{")
	_, after, found := strings.Cut(rest, "}")
	if !found {
		return Sentence{}, fmt.Errorf("the text %q has no placeholder", key)
	}
	switch value := value.(type) {
	case string:
		return Sentence{Before: before, Value: value, After: after}, nil
	case Moment:
		return Sentence{Before: before, Value: value.Words, ISO: value.ISO, After: after}, nil
	}
	return Sentence{}, fmt.Errorf("the text %q: no words for a %T", key, value)
}

// Role returns a role in words, or its name.
func (c Catalogue) Role(name string) string {
	if text, ok := c["role."+name]; ok {
		return text
	}
	return name
}

// Day formats a date.
func (c Catalogue) Day(at time.Time) Moment { return c.date("date.day", at) }

// Moment formats a date and time.
func (c Catalogue) Moment(at time.Time) Moment { return c.date("date.moment", at) }

// date formats a time in UTC, because the reader's time zone is unknown. Some languages write the first day of a month differently.
func (c Catalogue) date(key string, at time.Time) Moment {
	at = at.UTC()
	day := strconv.Itoa(at.Day())
	if at.Day() == 1 {
		day = c["date.first"]
	}
	return Moment{
		Words: c.Fill(key, "{day}", day, "{month}", c["month."+strconv.Itoa(int(at.Month()))],
			"{year}", strconv.Itoa(at.Year()), "{time}", at.Format("15:04")),
		ISO: at.Format(time.RFC3339),
	}
}

// Retry says when to retry, rounded up.
func (c Catalogue) Retry(after time.Duration) string {
	seconds := int64(after / time.Second)
	if after%time.Second > 0 {
		seconds++
	}
	minutes, hours := (seconds+59)/60, (seconds+3599)/3600
	switch {
	case seconds < 5:
		return c["retry.moment"]
	case seconds < 60:
		return c.count("retry.seconds", seconds)
	case minutes == 1:
		return c["retry.minute"]
	case minutes < 60:
		return c.count("retry.minutes", minutes)
	case hours == 1:
		return c["retry.hour"]
	}
	return c.count("retry.hours", hours)
}

// Duration returns a duration in its largest whole unit: days, hours or minutes.
func (c Catalogue) Duration(d time.Duration) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		switch n := int64(d / unit.length); {
		case d%unit.length != 0 && unit.length > time.Minute:
		case n == 1:
			return c["lifetime."+unit.name]
		default:
			return c.count("lifetime."+unit.name+"s", n)
		}
	}
	return ""
}

// CodesLeft says how many recovery codes are left.
func (c Catalogue) CodesLeft(n int) string {
	if n == 1 {
		return c["account.code_left"]
	}
	return c.count("account.codes_left", int64(n))
}

func (c Catalogue) count(key string, n int64) string {
	return c.Fill(key, "{count}", strconv.FormatInt(n, 10))
}
