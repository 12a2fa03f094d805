package words

import (
	"iter"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Limits of a language preference: more languages than anyone reads, and the longest tag of RFC 5646 §4.4.1 with a weight. Anything beyond
// them is ignored.
const (
	maxTags = 20
	maxTag  = 64
)

// Language returns the language for a response: the first available one of ui_locales (OpenID Connect Core §3.1.2.1), then of
// Accept-Language (RFC 9110 §12.5.4), then the default. It ignores malformed parts.
func (c *Catalogues) Language(uiLocales string, acceptLanguage []string) Language {
	for _, tag := range slices.Concat(parseLocales(uiLocales), parseAccept(acceptLanguage)) {
		if _, i, confidence := c.matcher.Match(tag); confidence >= language.High {
			return c.languages[i]
		}
	}
	return c.languages[0]
}

// parseLocales parses space-separated tags in order of preference.
func parseLocales(list string) []language.Tag {
	var tags []language.Tag
	for item := range items(list, " ") {
		if tag, err := language.Parse(item); err == nil {
			tags = append(tags, tag)
		}
	}
	return tags
}

// parseAccept parses each item separately, because the library refuses the whole header if one item is invalid.
func parseAccept(values []string) []language.Tag {
	type weighted struct {
		tag    language.Tag
		weight float32
	}
	var accepted []weighted
	for item := range items(strings.Join(values, ","), ",") {
		tags, weights, err := language.ParseAcceptLanguage(item)
		if err == nil && len(tags) == 1 {
			accepted = append(accepted, weighted{tags[0], weights[0]})
		}
	}
	slices.SortStableFunc(accepted, func(a, b weighted) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	tags := make([]language.Tag, len(accepted))
	for i, a := range accepted {
		tags[i] = a.tag
	}
	return tags
}

// items yields the first maxTags items of a list, except overlong ones.
func items(list, separator string) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := 0
		for item := range strings.SplitSeq(list, separator) {
			if seen++; seen > maxTags {
				return
			}
			if len(item) <= maxTag && !yield(item) {
				return
			}
		}
	}
}
