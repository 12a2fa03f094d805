package logfilter

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// redacted stands in logs where a credential was.
const redacted = "REDACTED"

// credentialNames are the parameters whose values give access, in lower case and without `_` and `-`: those of OAuth and its
// neighbours, and the sealed ones of our own pages.
var credentialNames = map[string]bool{
	"accesstoken": true, "actortoken": true, "assertion": true, "authorization": true, "bearertoken": true,
	"clientassertion": true, "clientsecret": true, "code": true, "codeverifier": true, "devicecode": true, "formtoken": true,
	"idtoken": true, "idtokenhint": true, "jwt": true, "logouttoken": true, "password": true, "pending": true,
	"refreshtoken": true, "registrationaccesstoken": true, "request": true, "requesturi": true, "response": true,
	"samlresponse": true, "secret": true, "subjecttoken": true, "token": true, "usercode": true,
}

// plainName gives the spelling of credentialNames.
var plainName = strings.NewReplacer("_", "", "-", "")

// scheme begins the value of an Authorization.
var scheme = regexp.MustCompile(`^\s*["']?(?i:bearer|basic|dpop|digest|negotiate)\s+`)

// credentialShapes are what credentials look like that stand under no name. A text without the sign has none of the shape: most have
// not, and a look costs less than the expression.
var credentialShapes = []struct {
	sign    string
	pattern *regexp.Regexp
	with    string
}{
	// A compact JWS or JWE (RFC 7515 §7.1, RFC 7516 §7.1), whole or broken off, with its dots as they are or escaped, however
	// often.
	{"eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_=-]*(?:(?:\.|%(?:25)*2[eE])[A-Za-z0-9_=-]*)+`), redacted},
	// An Authorization, with all that comes after it, in a text that quotes one.
	{":", regexp.MustCompile(`(?is)(authorization["']?\s*:).*`), "${1} " + redacted},
	// A member of a JSON object that gives access, likewise.
	{":", regexp.MustCompile(`(?is)((?:token|secret|password|assertion|["'](?:code|code_verifier|device_code|user_code))\\*["']\s*:).*`), "${1} " + redacted},
	// A credential behind its scheme in the middle of a text. No word that follows `bearer` is as long.
	{" ", regexp.MustCompile(`(?i)\b(bearer|basic|dpop)( +)[A-Za-z0-9._~+/-]{16,}=*`), "${1}${2}" + redacted},
	// What stands before the host of a URL.
	{"@", regexp.MustCompile(`((?:^|:)//)[^/?#\s"]*@`), "${1}" + redacted + "@"},
}

// redactField takes credentials out of the value of a field. The field's name may be that of a header.
func redactField(name, value string) string {
	if value == "" {
		return ""
	}
	switch name = plainName.Replace(strings.ToLower(name)); {
	case name == "cookie":
		return redactCookies(value)
	case name == "setcookie":
		return redactSetCookie(value)
	case strings.HasSuffix(name, "authenticate"): // a challenge has the same schemes, and no credential
		return redactText(value)
	case scheme.MatchString(value):
		return scheme.FindString(value) + redacted
	case strings.HasSuffix(name, "authorization"), givesAccess(name):
		return redacted
	}
	return redactText(value)
}

// redactCookies keeps the names of cookies. A value is always a credential of somebody's.
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

// redactSetCookie keeps the name of a cookie, and its attributes.
func redactSetCookie(line string) string {
	cookie, attributes, more := strings.Cut(line, ";")
	if line = redactCookies(cookie); more {
		line += ";" + redactText(attributes)
	}
	return line
}

// redactText takes credentials out of any text: a path, a URL, whole or not, or words with such things among them. It reads
// no grammar, because whatever a strict reader stops at, another one goes on from.
func redactText(text string) string {
	return redactDeep(text, maxEscapes)
}

// maxEscapes is how often a text may be escaped in itself before nobody looks any further, and all of it goes.
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

// redactPart takes credentials out of what stands between two ampersands. A value reaches to the end of the part: what
// separates it from something else for one reader belongs to it for another.
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

// credentialAt finds the first parameter whose value gives access, and returns where its equals sign is; -1: there is none.
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

// hides reports whether something is in a text in an escaped form that would have to go.
func hides(text string, depth int) bool {
	decoded := unescape(text)
	return decoded != text && (depth == 0 || redactDeep(decoded, depth-1) != decoded)
}

// isCredential reports whether the value of a parameter gives access. Of a name that cannot be decoded nobody knows.
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
	words := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("[].", c) }) // as some frameworks nest them
	return slices.ContainsFunc(words, func(word string) bool {
		return givesAccess(plainName.Replace(strings.ToLower(strings.TrimFunc(word, isNoLetter))))
	})
}

func isNoLetter(c rune) bool { return !unicode.IsLetter(c) }

// givesAccess reports whether a plain name is that of a credential: one of those that are known, or another token, secret or
// password of an application's.
func givesAccess(name string) bool {
	return credentialNames[name] || strings.Contains(name, "password") ||
		slices.ContainsFunc([]string{"token", "secret", "assertion"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// unescape decodes what is percent-encoded well, and leaves everything else as it is.
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
