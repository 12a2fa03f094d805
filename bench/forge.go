package main

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// forger makes bad tokens from a good one.
type forger struct {
	token     string
	header    string // base64url: the issuer's own, with the kid of its key
	claims    map[string]any
	signature string // of the good token
}

func newForger(token string) *forger {
	parts := strings.Split(token, ".")
	f := &forger{token: token, header: parts[0], signature: parts[2]}
	check(json.Unmarshal(must(base64.RawURLEncoding.DecodeString(parts[1])), &f.claims))
	return f
}

// badToken is a token that must be refused. Every token made from it is different.
type badToken struct {
	name  string
	token string
	// at are positions in the token where two characters can be replaced by any others of base64url.
	at []int
}

// kinds returns the bad tokens that are refused before their signature is verified.
func (f *forger) kinds() []badToken {
	malformed := strings.Repeat("A", len(f.token))
	return []badToken{
		f.changedSignature("unknown kid", f.unknownKey()),
		f.changedSignature("oversize", f.header+"."+strings.Repeat("A", 8<<10)+"."+f.signature),
		{"malformed", malformed, []int{20, 40, 60}},
		f.changedSignature("wrong iss", f.with(map[string]any{"iss": "https://issuer.example"})),
		f.changedSignature("wrong aud", f.with(map[string]any{"aud": "https://audience.example"})),
		f.expired(),
	}
}

// expired returns a token that has expired.
func (f *forger) expired() badToken {
	now := time.Now().Unix()
	return f.changedSignature("expired", f.with(map[string]any{"iat": now - 7200, "exp": now - 3600}))
}

// changedSignature names the bad token that has the claims of a good one.
const changedSignature = "changed signature"

// forgeries returns the bad tokens in which only the signature is wrong.
func (f *forger) forgeries() []badToken {
	madeUp := f.with(map[string]any{"sub": "u-mallory", "client_id": "mallory"})
	// An unsigned token has 64 pseudorandom bytes in place of an ES256 signature.
	noise := sha512.Sum512([]byte(madeUp))
	return []badToken{
		f.changedSignature(changedSignature, f.token),
		f.changedSignature("changed payload", f.with(map[string]any{"scope": "public admin"})),
		f.changedSignature("made up with the right kid", madeUp[:strings.LastIndexByte(madeUp, '.')+1]+encodeBytes(noise[:])),
	}
}

// changedSignature varies the middle of the signature, which keeps it well-formed.
func (f *forger) changedSignature(name, token string) badToken {
	middle := len(token) - len(f.signature)/2
	return badToken{name, token, []int{middle, middle + 4, middle - 4}}
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// vary writes the i-th variant over a copy of the token.
func (t badToken) vary(token []byte, i int) {
	for _, at := range t.at {
		token[at], token[at+1] = base64url[i%64], base64url[i/64%64]
		i /= 64 * 64
	}
}

// requests sends tokens of the kind to a site, a different one in each request.
func (t badToken) requests(addr string) load.Load {
	request := get(addr, "/orders/1", t.token)
	begin := strings.Index(string(request), t.token)
	return load.Load{Addr: addr, Status: http.StatusUnauthorized, Request: func(i int, scratch []byte) []byte {
		scratch = append(scratch, request...)
		t.vary(scratch[begin:begin+len(t.token)], i)
		return scratch
	}}
}

// with changes claims and keeps header and signature.
func (f *forger) with(changes map[string]any) string {
	claims := maps.Clone(f.claims)
	maps.Copy(claims, changes)
	return f.header + "." + encode(claims) + "." + f.signature
}

// unknownKey returns a token whose kid the issuer does not have.
func (f *forger) unknownKey() string {
	header := encode(map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": strings.Repeat("k", 43)})
	return header + f.token[strings.IndexByte(f.token, '.'):]
}

func encode(v any) string { return encodeBytes(must(json.Marshal(v))) }

// badTokens returns the bad tokens of our own issuer and of the other one.
func (b *bench) badTokens(ours *server, p *provider) (own, external []badToken) {
	f := newForger(b.obtain(ours, 1)[0])
	for _, goal := range externalGoals {
		if goal.forged > 0 {
			external = append(external, forged(p, goal.algorithm))
		}
	}
	return append(f.kinds(), f.forgeries()...), external
}

// forged returns another issuer's tokens with changed signatures.
func forged(p *provider, algorithm string) badToken {
	token := p.token(algorithm)
	return newForger(token).changedSignature("forged "+algorithm, token)
}
