package token

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// Inspection describes a text and what it claims. Nothing in it is verified.
type Inspection struct {
	// What describes the kind of text for an operator.
	What string
	// Header and Claims are the JSON objects of a JWT; nil if they cannot be parsed.
	Header, Claims jsontext.Value
}

// Inspect describes any text that an operator has at hand. It is more lenient than the gate, verifies nothing, and does
// not repeat text that may be a secret.
func Inspect(text string) Inspection {
	first, rest, _ := strings.Cut(text, ".")
	header := readObject(first)
	var named struct {
		Type       string `json:"typ"`
		Algorithm  string `json:"alg"`
		KeyID      string `json:"kid"`
		Encryption string `json:"enc"`
	}
	if header != nil {
		_ = strictjson.Object(header, &named) // members of other types stay empty
	}
	switch parts := strings.Count(text, ".") + 1; {
	case text == "":
		return Inspection{What: "nothing: there was no input"}
	case len(text) > MaxTokenBytes:
		return Inspection{What: fmt.Sprintf("a text of %d bytes: no token may have more than %d", len(text), MaxTokenBytes)}
	case parts == 5 && named.Encryption != "":
		return Inspection{What: "an encrypted JWT (JWE, RFC 7516), which only its audience can read", Header: header}
	case parts == 3 && header != nil:
		payload, _, _ := strings.Cut(rest, ".")
		x := Inspection{Header: header, Claims: readObject(payload)}
		x.What = fmt.Sprintf("a JWT (typ %s, alg %s, kid %s)", Printable(named.Type), Printable(named.Algorithm), Printable(named.KeyID))
		if x.Claims == nil {
			x.What += " whose claims cannot be read"
		}
		return x
	case strings.HasPrefix(text, "{"):
		return Inspection{What: "JSON: give the token alone, as it stands in access_token"}
	case looksLikeJWT(text):
		return Inspection{What: "what looks like a JWT, and is damaged: a JWT has three parts in base64url, the first of which is a JSON object"}
	case oauth.IsB64Token(text):
		return Inspection{What: fmt.Sprintf("no JWT, but opaque text of %d bytes: a token of another issuer, a refresh token and a secret look so", len(text))}
	}
	return Inspection{What: "no token: it has characters that no token has"}
}

// readObject decodes a part of a JWT, with or without padding. It returns nil if that is not a JSON object.
func readObject(part string) jsontext.Value {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
	if err != nil || len(text) == 0 || len(text) > MaxTokenBytes {
		return nil
	}
	var object jsontext.Value
	if strictjson.Object(text, &object) != nil || object.Compact() != nil {
		return nil
	}
	return object
}

// maxPrintable bounds the output of Printable, in bytes of its argument.
const maxPrintable = 200

// Printable escapes unverified text for a terminal, so that it cannot move the cursor or hide, and truncates it.
func Printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case i >= maxPrintable:
			return b.String() + "…"
		case unicode.IsPrint(r) && r != unicode.ReplacementChar:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if text == "" {
		return "-"
	}
	return b.String()
}
