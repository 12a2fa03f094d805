package token

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// MaxTokenBytes is the maximum length of an access token.
const MaxTokenBytes = 8 << 10

// jws is a well-formed compact JWS (RFC 7515 §7.1) whose signature is not verified.
type jws struct {
	header       *joseHeader
	signingInput string
	payload      []byte
	signature    []byte
}

// joseHeader holds the header parameters of RFC 7515 §4.1. Names are case-sensitive; duplicates are an error.
type joseHeader struct {
	Algorithm string         `json:"alg"`
	Type      string         `json:"typ"`
	KeyID     string         `json:"kid"`
	Critical  jsontext.Value `json:"crit"`
	Base64    jsontext.Value `json:"b64"`
	Others    jsontext.Value `json:",embed"`

	media string // mediaType of Type
}

// checkParts checks length and dots, before the token is even hashed.
func checkParts(token string) error {
	switch {
	case len(token) > MaxTokenBytes:
		return errTokenTooLong
	case strings.Count(token, ".") != 2:
		return errTokenMalformed
	}
	return nil
}

// parse parses a token. It checks length and dots before it decodes anything, so that hostile input is cheap. It accepts only canonical
// base64url, so each token has one spelling. It stores payload and signature in buffer as far as they fit.
func (j *jws) parse(token string, buffer []byte) error {
	if err := checkParts(token); err != nil {
		return err
	}
	first, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	if first == 0 || last == len(token)-1 {
		return errTokenMalformed
	}
	payload, err1 := oauth.DecodeBase64URL(buffer[:0], token[first+1:last])
	signature, err2 := oauth.DecodeBase64URL(payload[len(payload):], token[last+1:])
	if err1 != nil || err2 != nil {
		return errTokenMalformed
	}
	j.signingInput, j.payload, j.signature = token[:last], payload, signature
	var err error
	j.header, err = parseHeader(token[:first])
	return err
}

// parseHeader parses the first part of a token. The alg is the canonical one.
func parseHeader(part string) (*joseHeader, error) {
	text, err := oauth.DecodeBase64URL(nil, part)
	if err != nil {
		return nil, errTokenMalformed
	}
	h := new(joseHeader)
	if readPart(text, h) != nil {
		return nil, errHeaderMalformed
	}
	// An extension that we do not understand must not be ignored (RFC 7515 §4.1.11), and we understand none. An unencoded
	// payload (RFC 7797) would change what is signed.
	if h.Critical != nil || h.Base64 != nil {
		return nil, errHeaderExtension
	}
	h.Algorithm, h.media = string(oauth.Algorithm(h.Algorithm).Canonical()), mediaType(h.Type)
	return h, nil
}

// readPart decodes the header or the claims, which begin with the brace.
func readPart(text []byte, into any) error {
	if len(text) == 0 || text[0] != '{' {
		return errTokenMalformed
	}
	return strictjson.Object(text, into)
}

// mediaType returns typ in lower case, without the optional prefix (RFC 7515 §4.1.9).
func mediaType(typ string) string {
	typ = strings.ToLower(typ)
	if subtype, prefixed := strings.CutPrefix(typ, "application/"); prefixed && subtype != "" {
		return subtype
	}
	return typ
}

// verify verifies the signature with a key. The header's alg must be the key's; it selects nothing (RFC 8725 §3.1).
func (j *jws) verify(key *keys.VerificationKey) error {
	if err := j.checkAlgorithm(key); err != nil {
		return err
	}
	if err := key.VerifySignature(j.signingInput, j.signature); err != nil {
		return errSignatureWrong.WithCause(err)
	}
	return nil
}

func (j *jws) checkAlgorithm(key *keys.VerificationKey) error {
	if j.header.Algorithm != string(key.Algorithm) {
		return errAlgorithmMismatch
	}
	return nil
}
