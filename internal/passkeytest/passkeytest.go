// Package passkeytest is an authenticator in software, with the browser around it (WebAuthn Level 3 §6), for tests. Its fields let it do what no
// browser does.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"
)

// Authenticator makes passkeys and signs with them.
type Authenticator struct {
	tb testing.TB
	// Origin and TopOrigin are those that the browser reports.
	Origin, TopOrigin string
	CrossOrigin       bool
	Lies
	// Synced makes passkeys that can be synced.
	Synced bool
	// Counter is the signature counter.
	Counter uint32
	// AAGUID is the model. Attestation is a statement in CBOR with its format before it; empty: none.
	AAGUID      [16]byte
	Attestation []byte
	// Modulus is the length in bytes of an RSA modulus that is claimed as the public key; 0: the key is one for ES256.
	Modulus int
	// Passkeys are those that were made, oldest first.
	Passkeys []*Passkey
}

// Lies are what an authenticator answers in place of the truth.
type Lies struct {
	// RelyingParty replaces the RP ID that was asked for; Type, Challenge and Handle replace what is answered.
	RelyingParty, Type, Challenge, Handle string
	// Absent leaves out user presence, and Unverified user verification.
	Absent, Unverified bool
}

// Passkey is a credential.
type Passkey struct {
	ID      []byte
	handle  []byte
	private *ecdsa.PrivateKey
}

// New returns an authenticator in a browser at an origin.
func New(tb testing.TB, origin string) *Authenticator {
	tb.Helper()
	return &Authenticator{tb: tb, Origin: origin}
}

// Text is a credential id in base64url.
func (p *Passkey) Text() string { return encode(p.ID) }

// asked are the options that it heeds.
type asked struct {
	Challenge string                `json:"challenge"`
	RPID      string                `json:"rpId"`
	RP        struct{ ID string }   `json:"rp"`
	User      struct{ ID string }   `json:"user"`
	Allowed   []struct{ ID string } `json:"allowCredentials"`
	Excluded  []struct{ ID string } `json:"excludeCredentials"`
}

func (a *Authenticator) read(options string) asked {
	a.tb.Helper()
	var q asked
	if err := json.Unmarshal([]byte(options), &q); err != nil {
		a.tb.Fatalf("options %q: %v", options, err)
	}
	return q
}

// Create makes a passkey and returns the browser's answer, as the script sends it.
func (a *Authenticator) Create(options string) string {
	a.tb.Helper()
	q := a.read(options)
	if a.Excludes(options) {
		a.tb.Fatal("one of the passkeys is excluded")
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	p := &Passkey{ID: make([]byte, 32), handle: a.decode(q.User.ID), private: private}
	_, _ = rand.Read(p.ID)
	a.Passkeys = append(a.Passkeys, p)
	attested := slices.Concat(a.AAGUID[:], binary.BigEndian.AppendUint16(nil, uint16(len(p.ID))), p.ID, a.publicKey(p)) //lint:ignore gosec 32
	data := a.data(q.RP.ID, attested)
	statement := a.Attestation
	if statement == nil {
		statement = append(text("none"), append(text("attStmt"), 0xa0)...)
	}
	object := slices.Concat([]byte{0xa3}, text("fmt"), statement, text("authData"), bytesOf(data))
	return a.answer(p, map[string]any{"clientDataJSON": encode(a.client("webauthn.create", q.Challenge)), "attestationObject": encode(object), "transports": []string{"internal"}})
}

// Excludes reports whether one of the passkeys must not be joined by another.
func (a *Authenticator) Excludes(options string) bool {
	a.tb.Helper()
	for _, known := range a.read(options).Excluded {
		if slices.ContainsFunc(a.Passkeys, func(p *Passkey) bool { return p.Text() == known.ID }) {
			return true
		}
	}
	return false
}

// Get signs with the newest passkey that is allowed and returns the browser's answer.
func (a *Authenticator) Get(options string) string {
	a.tb.Helper()
	q := a.read(options)
	for _, p := range slices.Backward(a.Passkeys) {
		if len(q.Allowed) == 0 || slices.ContainsFunc(q.Allowed, func(known struct{ ID string }) bool { return known.ID == p.Text() }) {
			return a.GetWith(p, options)
		}
	}
	a.tb.Fatalf("no passkey for %s", options)
	return ""
}

// GetWith signs with that passkey.
func (a *Authenticator) GetWith(p *Passkey, options string) string {
	a.tb.Helper()
	q := a.read(options)
	client, data := a.client("webauthn.get", q.Challenge), a.data(q.RPID, nil)
	digest := sha256.Sum256(client)
	signed := sha256.Sum256(append(slices.Clone(data), digest[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, p.private, signed[:])
	if err != nil {
		a.tb.Fatal(err)
	}
	handle := encode(p.handle)
	if a.Handle != "" {
		handle = encode([]byte(a.Handle))
	}
	return a.answer(p, map[string]any{"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature), "userHandle": handle})
}

func (a *Authenticator) answer(p *Passkey, response map[string]any) string {
	a.tb.Helper()
	text, err := json.Marshal(map[string]any{"id": p.Text(), "rawId": p.Text(), "type": "public-key", "response": response})
	if err != nil {
		a.tb.Fatal(err)
	}
	return string(text)
}

// client returns the client data (WebAuthn Level 3 §5.8.1).
func (a *Authenticator) client(ceremony, challenge string) []byte {
	a.tb.Helper()
	if a.Type != "" {
		ceremony = a.Type
	}
	if a.Challenge != "" {
		challenge = a.Challenge
	}
	said := map[string]any{"type": ceremony, "challenge": challenge, "origin": a.Origin, "crossOrigin": a.CrossOrigin}
	if a.TopOrigin != "" {
		said["topOrigin"] = a.TopOrigin
	}
	encoded, err := json.Marshal(said)
	if err != nil {
		a.tb.Fatal(err)
	}
	return encoded
}

// data returns the authenticator data (WebAuthn Level 3 §6.1).
func (a *Authenticator) data(relyingParty string, attested []byte) []byte {
	if a.RelyingParty != "" {
		relyingParty = a.RelyingParty
	}
	digest := sha256.Sum256([]byte(relyingParty))
	var flags byte
	for bit, is := range map[byte]bool{0x01: !a.Absent, 0x04: !a.Unverified, 0x18: a.Synced, 0x40: attested != nil} {
		if is {
			flags |= bit
		}
	}
	return slices.Concat(digest[:], []byte{flags}, binary.BigEndian.AppendUint32(nil, a.Counter), attested)
}

// publicKey returns an ES256 key in COSE (RFC 9053 §7.1), or an RS256 one with a modulus that nobody has factored (RFC 8230 §4).
func (a *Authenticator) publicKey(p *Passkey) []byte {
	a.tb.Helper()
	if a.Modulus > 0 {
		modulus := make([]byte, a.Modulus)
		_, _ = rand.Read(modulus)
		modulus[0], modulus[len(modulus)-1] = modulus[0]|0x80, modulus[len(modulus)-1]|1
		return slices.Concat([]byte{0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20}, bytesOf(modulus), []byte{0x21, 0x43, 0x01, 0x00, 0x01})
	}
	point, err := p.private.PublicKey.Bytes()
	if err != nil {
		a.tb.Fatal(err)
	}
	return slices.Concat([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33], []byte{0x22, 0x58, 0x20}, point[33:])
}

// bytesOf returns a byte string in CBOR (RFC 8949 §3.1).
func bytesOf(b []byte) []byte {
	return slices.Concat(binary.BigEndian.AppendUint16([]byte{0x59}, uint16(len(b))), b) //lint:ignore gosec shorter than 64 KiB
}

// text returns a short string in CBOR.
func text(s string) []byte { return append([]byte{0x60 | byte(len(s))}, s...) } //lint:ignore gosec shorter than 24 bytes

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (a *Authenticator) decode(s string) []byte {
	a.tb.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		a.tb.Fatal(err)
	}
	return b
}
