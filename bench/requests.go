package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// get is a request as a service sends it, with a bearer token.
func get(host, path, token string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n" +
		"Accept-Encoding: gzip\r\nAuthorization: Bearer " + token + "\r\n\r\n")
}

// tokenRequest asks for a token, with HTTP Basic as golang.org/x/oauth2 does.
func (b *bench) tokenRequest() []byte {
	const body = "grant_type=client_credentials&scope=public"
	basic := base64.StdEncoding.EncodeToString([]byte(clientID + ":" + clientSecret))
	return fmt.Appendf(nil, "POST /oauth/token HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept-Encoding: gzip\r\n"+
		"Authorization: Basic %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
		b.gateway.issuer, basic, len(body), body)
}

// accessToken reads the token from the body of an answer.
func accessToken(body []byte) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	if strings.Count(answer.AccessToken, ".") != 2 {
		return "", errNoToken
	}
	return answer.AccessToken, nil
}

// forger makes bad tokens out of a good one. Nothing is signed: all but one kind must be refused before anybody looks at
// the signature.
type forger struct {
	header    string // base64url: the gateway's own, with the kid of its key
	claims    map[string]any
	signature string // of the good token
}

func (b *bench) newForger() (*forger, error) {
	tokens, err := b.obtain(1)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(tokens[0], ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	f := &forger{header: parts[0], signature: parts[2]}
	return f, json.Unmarshal(payload, &f.claims)
}

// badToken is a token that must be refused.
type badToken struct{ name, token string }

// kinds are the bad tokens that cost no cryptography.
func (f *forger) kinds() []badToken {
	now := time.Now().Unix()
	return []badToken{
		{"unknown kid", f.unknownKey("0")},
		{"oversize", f.header + "." + strings.Repeat("A", 8<<10) + "." + f.signature},
		{"malformed", strings.Repeat("A", len(f.unknownKey("0")))},
		{"wrong iss", f.with(map[string]any{"iss": "https://issuer.example"})},
		{"wrong aud", f.with(map[string]any{"aud": "https://audience.example"})},
		{"expired", f.with(map[string]any{"iat": now - 7200, "exp": now - 3600})},
	}
}

// distinct is the i-th bad token of a flood: in turns one that falls at its kid and one that falls at its signature.
func (f *forger) distinct(i int) string {
	jti := fmt.Sprintf("bad%019d", i)
	if i%2 == 0 {
		return f.unknownKey(jti)
	}
	return f.with(map[string]any{"jti": jti})
}

// with changes claims and keeps header and signature.
func (f *forger) with(changes map[string]any) string {
	claims := make(map[string]any, len(f.claims))
	for name, value := range f.claims {
		claims[name] = value
	}
	for name, value := range changes {
		claims[name] = value
	}
	return f.header + "." + encode(claims) + "." + f.signature
}

// unknownKey names a key that the gateway does not have.
func (f *forger) unknownKey(jti string) string {
	header := encode(map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": strings.Repeat("k", 43)})
	token := f.with(map[string]any{"jti": jti})
	return header + token[strings.IndexByte(token, '.'):]
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
