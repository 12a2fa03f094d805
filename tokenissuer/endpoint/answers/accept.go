package answers

import (
	"strconv"
	"strings"
)

// prefersJSONAPI reports whether Accept gives JSON:API at least the weight of JSON (RFC 9110 §12.5.1).
func prefersJSONAPI(accept []string) bool {
	document, plain := 0.0, 0.0
	for _, line := range accept {
		if !strings.Contains(line, JSONAPIMediaType) && document == 0 {
			continue
		}
		for element := range strings.SplitSeq(line, ",") {
			media, parameters, _ := strings.Cut(element, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case JSONAPIMediaType:
				document = max(document, Weight(parameters))
			case "application/json":
				plain = max(plain, Weight(parameters))
			}
		}
	}
	return document > 0 && document >= plain
}

// Weight returns the q parameter: 1 if absent, 0 if malformed.
func Weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

// PrefersJSON reports whether Accept gives JSON more weight than HTML (RFC 9110 §12.5.1). Wildcards count for neither, so the default is a
// page.
func PrefersJSON(accept []string) bool {
	var json, html float64
	for item := range strings.SplitSeq(strings.ToLower(strings.Join(accept, ",")), ",") {
		media, parameters, _ := strings.Cut(item, ";")
		switch {
		case strings.Contains(media, "json"):
			json = max(json, Weight(parameters))
		case strings.Contains(media, "html"):
			html = max(html, Weight(parameters))
		}
	}
	return json > html
}
