package logfilter

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// redacted replaces a credential.
const redacted = "REDACTED"

// credentialNames are the parameters that hold credentials, in lower case and without `_` and `-`: those of OAuth and
// related protocols, and the sealed parameters of our pages.
var credentialNames = map[string]bool{
	"accesstoken": true, "actortoken": true, "assertion": true, "authorization": true, "bearertoken": true,
	"clientassertion": true, "clientsecret": true, "code": true, "codeverifier": true, "devicecode": true, "formtoken": true,
	"idtoken": true, "idtokenhint": true, "jwt": true, "logouttoken": true, "password": true, "pending": true,
	"refreshtoken": true, "registrationaccesstoken": true, "request": true, "requesturi": true, "response": true,
	"samlresponse": true, "secret": true, "subjecttoken": true, "token": true, "usercode": true,
}

// plainName converts a name to the form of credentialNames.
var plainName = strings.NewReplacer("_", "", "-", "")

// scheme matches the beginning of an Authorization value.
var scheme = regexp.MustCompile(`^\s*["']?(?i:bearer|basic|dpop|digest|negotiate)\s+`)

// credentialShapes match credentials without a name. A text without the sign cannot match; checking for it is cheaper
// than the expression.
var credentialShapes = []struct {
	sign    string
	pattern *regexp.Regexp
	with    string
}{
	// A compact JWS or JWE (RFC 7515 §7.1, RFC 7516 §7.1), complete or truncated, with its dots escaped any number of
	// times.
	{"eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_=-]*(?:(?:\.|%(?:25)*2[eE])[A-Za-z0-9_=-]*)+`), redacted},
	// A personal access token, complete or truncated, with any escaped characters.
	{"gh_pat_", regexp.MustCompile(`gh_pat_[0-9A-Za-z%]+`), redacted},
	// An Authorization header quoted in a text, with everything after it.
	{":", regexp.MustCompile(`(?is)(authorization["']?\s*:).*`), "${1} " + redacted},
	// A JSON member with a credential, quoted in a text.
	{":", regexp.MustCompile(`(?is)((?:token|secret|password|assertion|["'](?:code|code_verifier|device_code|user_code))\\*["']\s*:).*`), "${1} " + redacted},
	// A credential after its scheme within a text. It is longer than any word that may follow `bearer`.
	{" ", regexp.MustCompile(`(?i)\b(bearer|basic|dpop)( +)[A-Za-z0-9._~+/-]{16,}=*`), "${1}${2}" + redacted},
	// The userinfo of a URL.
	{"@", regexp.MustCompile(`((?:^|:)//)[^/?#\s"]*@`), "${1}" + redacted + "@"},
}

// redactField removes credentials from the value of a field, whose name may be that of a header.
func redactField(name, value string) string {
	if value == "" {
		return ""
	}
	switch name = plainName.Replace(strings.ToLower(name)); {
	case name == "cookie":
		return redactCookies(value)
	case name == "setcookie":
		return redactSetCookie(value)
	case strings.HasSuffix(name, "authenticate"): // a challenge has the same schemes, but no credential
		return redactText(value)
	case scheme.MatchString(value):
		return scheme.FindString(value) + redacted
	case strings.HasSuffix(name, "authorization"), givesAccess(name):
		return redacted
	}
	return redactText(value)
}

// redactCookies keeps only the names of cookies.
func redactCookies(line string) string {
	pairs := strings.Split(line, ";")
	for i, pair := range pairs {
		if name, _, ok := strings.Cut(pair, "="); ok {
			pairs[i] = redactText(name) + "=" + redacted
		} else if strings.TrimSpace(pair) != "" {
			pairs[i] = redacted
		}
	}
	return strings.Join(pairs, ";")
}

// redactSetCookie keeps a cookie's name and attributes.
func redactSetCookie(line string) string {
	cookie, attributes, more := strings.Cut(line, ";")
	if line = redactCookies(cookie); more {
		line += ";" + redactText(attributes)
	}
	return line
}

// redactText removes credentials from any text: a path, a complete or partial URL, or words with such parts. It does not
// parse a grammar, because a lenient reader goes on where a strict one stops.
func redactText(text string) string {
	return redactDeep(text, maxEscapes)
}

// maxEscapes is how many levels of escaping are examined. A text with more is removed entirely.
const maxEscapes = 6

func redactDeep(text string, depth int) string {
	for _, shape := range credentialShapes {
		if strings.Contains(text, shape.sign) {
			text = shape.pattern.ReplaceAllString(text, shape.with)
		}
	}
	if !strings.ContainsAny(text, "=%") {
		return text
	}
	parts := strings.Split(text, "&")
	for i, part := range parts {
		parts[i] = redactPart(part, depth)
	}
	return strings.Join(parts, "&")
}

// redactPart removes credentials from the text between two ampersands. A value extends to the end of the part, because
// readers differ in the other separators.
func redactPart(part string, depth int) string {
	plain, rest := part, ""
	if i := credentialAt(part); i >= 0 {
		plain, rest = part[:i], "="+redacted
	}
	if !hides(plain, depth) {
		return plain + rest
	}
	if name, _, ok := strings.Cut(part, "="); ok && unescape(name) == name {
		return name + "=" + redacted
	}
	return redacted
}

// credentialAt returns the index of the equals sign of the first parameter with a credential, or -1.
func credentialAt(part string) int {
	name := 0
	for i := range len(part) {
		switch part[i] {
		case '=':
			if isCredential(part[name:i]) {
				return i
			}
			name = i + 1
		case '?', '#', ';', '/', ',', '"', '\'', '<', '>', '(', '{', '+', ' ', '\t', '\r', '\n':
			name = i + 1
		}
	}
	return -1
}

// hides reports whether a text contains a credential in escaped form.
func hides(text string, depth int) bool {
	decoded := unescape(text)
	return decoded != text && (depth == 0 || redactDeep(decoded, depth-1) != decoded)
}

// isCredential reports whether the value of a parameter is a credential. A name that cannot be decoded counts as one.
func isCredential(name string) bool {
	for range maxEscapes {
		decoded := unescape(name)
		if decoded == name {
			break
		}
		name = decoded
	}
	if strings.Contains(name, "%") {
		return true
	}
	words := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("[].", c) }) // nested names of some frameworks
	return slices.ContainsFunc(words, func(word string) bool {
		return givesAccess(plainName.Replace(strings.ToLower(strings.TrimFunc(word, isNoLetter))))
	})
}

func isNoLetter(c rune) bool { return !unicode.IsLetter(c) }

// givesAccess reports whether a plain name is that of a credential: a known one, or any other token, secret or password.
func givesAccess(name string) bool {
	return credentialNames[name] || strings.Contains(name, "password") ||
		slices.ContainsFunc([]string{"token", "secret", "assertion"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// unescape decodes valid percent-encoding and keeps everything else.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for text != "" {
		if len(text) > 2 && text[0] == '%' {
			if c, err := hex.DecodeString(text[1:3]); err == nil {
				decoded, text = append(decoded, c...), text[3:]
				continue
			}
		}
		decoded, text = append(decoded, text[0]), text[1:]
	}
	return string(decoded)
}
