package accesstoken

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Inspection is what a text is and what it says of itself. Nobody has verified any of it.
type Inspection struct {
	// What it is, in words for an operator.
	What string
	// Header and Claims are the JSON objects of a JWT; nil where there is none that can be read.
	Header, Claims jsontext.Value
}

// Inspect says what an operator has at hand, whoever has made it. It is more lenient than the gate, verifies nothing and
// repeats nothing of a text that may be a secret.
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
		_ = json.Unmarshal(header, &named) // members of another type stay empty
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

// readObject decodes a part of a JWT, with padding or without; nil when it is no JSON object.
func readObject(part string) jsontext.Value {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
	if err != nil || len(text) == 0 || len(text) > MaxTokenBytes || tooDeep(text) {
		return nil
	}
	object := jsontext.Value(text)
	if !object.IsValid() || object.Compact() != nil || object.Kind() != '{' { // nor one with a name that is there twice
		return nil
	}
	return object
}

// maxPrintable bounds what is shown of one unverified text.
const maxPrintable = 200

// Printable is a text that nobody has verified, for a terminal: what could move the cursor or hide itself is escaped, and
// what is long is cut.
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
