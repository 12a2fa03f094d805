package accesstoken

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// acceptsTrustedJWS is acceptsJWS with the keys of a trusted issuer, which has each key for every algorithm that fits it.
func acceptsTrustedJWS(rawKey json.RawMessage, token string) error {
	list, err := publishedKeys(rawKey, oauth.TrustedAlgorithms)
	if err != nil {
		return err
	}
	j, err := parseJWS(token)
	if err != nil {
		return err
	}
	one := !slices.ContainsFunc(list, func(k *keys.VerificationKey) bool { return k.ID != list[0].ID })
	for _, key := range list {
		if (one || key.ID == j.header.KeyID) && string(key.Algorithm) == j.header.Algorithm {
			return j.verify(key)
		}
	}
	return errors.New("no key")
}

// TestG120WycheproofJWSOfATrustedIssuer holds the signatures in JOSE form against all that a trusted issuer may use.
func TestG120WycheproofJWSOfATrustedIssuer(t *testing.T) {
	var cases joseFile
	tokentest.ReadWycheproof(t, "json_web_signature", &cases)
	var accepted []int
	for _, group := range cases.Groups {
		rawKey := group.Public
		if rawKey == nil {
			rawKey = group.Private
		}
		for _, c := range group.Tests {
			if c.JWS == nil {
				continue
			}
			token := compact(c.JWS)
			alg := headerAlgorithm(token)
			right := c.Result == "valid" && slices.Contains(oauth.TrustedAlgorithms, oauth.Algorithm(alg)) && alg == keyAlgorithm(rawKey)
			err := acceptsTrustedJWS(rawKey, token)
			if (err == nil) != right {
				t.Errorf("case %d (%s, %s): %v", c.ID, c.Result, group.Comment, err)
			}
			if err == nil {
				accepted = append(accepted, c.ID)
			}
		}
	}
	want := []int{
		18, 33, 259, 260, 261, 262, 263, 264, 265, 266, 267, 268, 269, 270, 271, 272, 273, 274, 275, 287, 288, 320, 321, 322, 323, 325, 326, 327,
		328, 345, 349, 378,
	}
	if !slices.Equal(accepted, want) {
		t.Errorf("accepted %v, want %v", accepted, want)
	}
}
