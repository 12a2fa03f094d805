package token

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// parsedClaims are claims as golang-jwt's parser reads them. It performs no checks of its own: our steps check the
// same claims, with reasons for the audit log.
type parsedClaims struct{ payload }

func (c *parsedClaims) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &c.payload) }

func (*parsedClaims) GetExpirationTime() (*jwt.NumericDate, error) {
	return jwt.NewNumericDate(tokentest.Start.Add(time.Hour)), nil
}
func (*parsedClaims) GetIssuedAt() (*jwt.NumericDate, error)  { return nil, nil } // signature of the interface
func (*parsedClaims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil } // likewise
func (*parsedClaims) GetIssuer() (string, error)              { return "", nil }
func (*parsedClaims) GetSubject() (string, error)             { return "", nil }
func (*parsedClaims) GetAudience() (jwt.ClaimStrings, error)  { return nil, nil }

// verifyByParser is Verify built on golang-jwt's parser: after the strict reading, the parser decodes header and
// claims and verifies the signature. The other steps check what it has decoded.
func (c *unverifiedToken) verifyByParser(parser *jwt.Parser, public any) error {
	for _, step := range verificationSteps {
		var err error
		switch step.name {
		case "signature":
		case "claims":
			var claims parsedClaims
			if _, err = parser.ParseWithClaims(c.token, &claims, func(*jwt.Token) (any, error) { return public, nil }); err == nil {
				c.payload = claims.payload
				c.claims, err = c.verifier.tokenOf(&c.payload, c.key.ID, c.jws.header.media)
			}
		default:
			err = step.run(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkFirstSightByParser compares the cost of golang-jwt's parser with that of our own parsing of header and
// claims.
func BenchmarkFirstSightByParser(b *testing.B) {
	for _, algorithm := range testkeys.Algorithms {
		g := newMACGate(b)
		token, _ := g.issue(b, algorithm)
		c := &unverifiedToken{verifier: g.verifier, token: token, audience: audience{wanted: g.audiences}, buffer: make([]byte, 0, MaxTokenBytes)}
		b.Run(string(algorithm)+"/Ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				*c = unverifiedToken{verifier: c.verifier, token: c.token, audience: c.audience, buffer: c.buffer}
				if _, err := c.verify(); err != nil {
					b.Fatal(err)
				}
			}
		})
		public := testkeys.Public(g.signing[algorithm])
		parser := jwt.NewParser(jwt.WithValidMethods([]string{string(algorithm)}), jwt.WithTimeFunc(g.Now))
		b.Run(string(algorithm)+"/Parser", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				*c = unverifiedToken{verifier: c.verifier, token: c.token, audience: c.audience, buffer: c.buffer}
				if err := c.verifyByParser(parser, public); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
