package token

import (
	"crypto"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// IDTokenLifetime is the lifetime of an ID token. As a hint it is accepted for longer; see ReadHint.
	IDTokenLifetime = time.Hour
	// LogoutTokenLifetime is the longest that OpenID Connect Back-Channel Logout §2.4 recommends.
	LogoutTokenLifetime = 2 * time.Minute

	// MaxIDTokenBytes is the maximum length of an ID token. Every claim of the largest user fits, beside the longest nonce.
	MaxIDTokenBytes = 32 << 10

	idTokenType = "JWT"
	logoutType  = "logout+jwt" // Back-Channel Logout §2.4

	logoutEvent = `{"http://schemas.openid.net/event/backchannel-logout":{}}`
)

// IDToken has the claims of an ID token (OpenID Connect Core §2). Its only audience is the client, so it has no azp.
type IDToken struct {
	// Issuer is the issuer identifier, as it is configured.
	Issuer string
	// Subject is the id of the user.
	Subject  string
	ClientID string
	// IssuedAt, ExpiresAt and AuthTime are in whole seconds on the wire.
	IssuedAt, ExpiresAt, AuthTime time.Time
	// Nonce is that of the authorization request, byte for byte; empty: it had none, or the token is from a refresh.
	Nonce string
	// AccessToken is the access token that is issued with it; its hash is at_hash (§3.1.3.6). Empty: there is none.
	AccessToken oauth.Secret
	// SessionID is the browser session in which the user signed in; empty: there was none.
	SessionID string
	// ACR and AMR are how the user signed in; empty: unknown.
	ACR string
	AMR []string
	// Claims are further claims of the user; see IDClaims. None may have the name of a claim above.
	Claims jsontext.Value
}

// idClaims is the claims set on the wire.
type idClaims struct {
	Issuer          string         `json:"iss"`
	Subject         string         `json:"sub,omitzero"`
	Audience        string         `json:"aud"`
	ExpiresAt       int64          `json:"exp"`
	IssuedAt        int64          `json:"iat"`
	AuthTime        int64          `json:"auth_time,omitzero"`
	Nonce           string         `json:"nonce,omitzero"`
	AccessTokenHash string         `json:"at_hash,omitzero"`
	SessionID       string         `json:"sid,omitzero"`
	ACR             string         `json:"acr,omitzero"`
	AMR             []string       `json:"amr,omitzero"`
	ID              string         `json:"jti,omitzero"`
	Events          jsontext.Value `json:"events,omitzero"`
	Claims          jsontext.Value `json:",embed"`
}

// Sign returns the ID token, signed with the key. It is the only place where ID tokens are made. It fails for texts that are
// not UTF-8, for a claim that is there twice, and for a token longer than MaxBytes.
func (t *IDToken) Sign(key *keys.SigningKey) (oauth.Secret, error) {
	set := idClaims{
		Issuer: t.Issuer, Subject: t.Subject, Audience: t.ClientID, IssuedAt: t.IssuedAt.Unix(), ExpiresAt: t.ExpiresAt.Unix(),
		Nonce: t.Nonce, SessionID: t.SessionID, ACR: t.ACR, AMR: t.AMR, Claims: t.Claims,
	}
	if !t.AuthTime.IsZero() {
		set.AuthTime = t.AuthTime.Unix()
	}
	if !t.AccessToken.IsEmpty() {
		set.AccessTokenHash = halfHash(key.Algorithm, t.AccessToken)
	}
	return signIDToken(key, idTokenType, &set)
}

// LogoutToken tells a client that a session has ended (Back-Channel Logout §2.4).
type LogoutToken struct {
	Issuer   string
	ClientID string
	// Subject is the id of the user, SessionID the session that has ended.
	Subject, SessionID string
	IssuedAt           time.Time
}

// Sign returns the logout token, signed with the key, with a jti of its own.
func (t *LogoutToken) Sign(key *keys.SigningKey) (oauth.Secret, error) {
	return signIDToken(key, logoutType, &idClaims{
		Issuer: t.Issuer, Subject: t.Subject, Audience: t.ClientID, SessionID: t.SessionID, ID: oauth.NewID(),
		IssuedAt: t.IssuedAt.Unix(), ExpiresAt: t.IssuedAt.Add(LogoutTokenLifetime).Unix(), Events: jsontext.Value(logoutEvent),
	})
}

func signIDToken(key *keys.SigningKey, typ string, set *idClaims) (oauth.Secret, error) {
	claims, err := json.Marshal(set)
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	token, err := key.SignAs(typ, claims)
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	if len(token) > MaxIDTokenBytes {
		return oauth.Secret{}, oauth.NewError(oauth.ServerError, "id_token_too_long").WithCause(errors.New("the claims do not fit an ID token of 32 KiB"))
	}
	return oauth.NewSecret(token), nil
}

// halfHash returns at_hash (OpenID Connect Core §3.1.3.6): the left half of the token's digest by the hash of the key's
// algorithm. Ed25519 signs by SHA-512 (RFC 8032 §5.1).
func halfHash(algorithm oauth.Algorithm, token oauth.Secret) string {
	hash := crypto.SHA256
	if algorithm == oauth.EdDSA {
		hash = crypto.SHA512
	}
	digest := hash.New()
	_, _ = digest.Write([]byte(token.Reveal())) // never fails
	sum := digest.Sum(nil)
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
