package token

import (
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Outcomes of a check.
const (
	CheckPassed = "passed"
	CheckFailed = "failed"
	// CheckNotReached is the outcome of a check whose input an earlier failure left unavailable.
	CheckNotReached = "not reached"
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`
	// Outcome is CheckPassed, CheckFailed or CheckNotReached.
	Outcome string `json:"outcome"`
	// Reason is the failure's reason in the audit log.
	Reason string `json:"reason,omitempty"`
	// Note is a remark for the operator.
	Note string `json:"note,omitempty"`
}

// Explanation is the result of every check of a token.
type Explanation struct {
	// Accepted reports whether Verify accepts the token.
	Accepted bool `json:"accepted"`
	// Undecided means that only the token's issuer can decide, which Explain does not ask.
	Undecided bool      `json:"undecided,omitempty"`
	Findings  []Finding `json:"findings"`
	// Claims are set only if the signature is valid: anybody can write unsigned claims.
	Claims *AccessToken `json:"-"`
}

// Explain runs the checks of Verify on a token, without the cache, and returns their outcomes. It continues after a
// failure, so that one run shows every fault. A check whose input is missing is not reached.
func (v *Verifier) Explain(token string, audiences []string) Explanation {
	c := &unverifiedToken{verifier: v, token: token, audience: audience{wanted: audiences}}
	x := Explanation{Accepted: true}
	record := func(s step, reachable bool) bool {
		f := c.finding(s, reachable)
		passed := f.Outcome == CheckPassed
		x.Accepted = x.Accepted && passed
		x.Findings = append(x.Findings, f)
		return passed
	}
	for _, s := range verificationSteps {
		if s.name == "tag" && v.macs.Load() == nil {
			continue
		}
		passed := record(s, c.reaches(s.name))
		if s.name == "signature" && passed {
			x.Claims = c.claims
		}
	}
	record(step{"revocation", "neither the token nor its family, user, client, organisation or key is revoked",
		func(c *unverifiedToken) error {
			if err := v.checkFresh(v.now()); err != nil {
				return err
			}
			return v.checkRevoked(c.claims, c.key.Algorithm)
		}}, c.claims != nil)
	return x
}

// finding runs a check if its input is available.
func (c *unverifiedToken) finding(s step, reachable bool) Finding {
	f := Finding{Check: s.name, Promise: c.verifier.rules.promise(s), Outcome: CheckNotReached}
	if !reachable {
		return f
	}
	f.Outcome = CheckPassed
	if err := s.run(c); err != nil {
		f.Outcome, f.Reason = CheckFailed, oauth.AsError(err).Reason
	}
	return f
}

// promise returns what a check demands of an issuer's tokens. It demands less of external issuers.
func (r *tokenRules) promise(s step) string {
	if !r.trusted {
		return s.promise
	}
	switch s.name {
	case "type":
		names := slices.Clone(r.types)
		for i, name := range names {
			if name == "" {
				names[i] = TypeNone
			}
		}
		return "typ is one that this issuer's access tokens may have (" + strings.Join(names, ", ") + "), and the header leads to no other key and no other meaning"
	case "key":
		return "kid names one of this issuer's keys that may be used for alg; without kid exactly one key fits"
	case "claims":
		return "iss, sub, aud, iat and exp are present and well formed, with at+jwt also client_id and jti, and nothing says that it is another kind of token"
	case "time":
		return "the token is not expired and not from the future"
	case "revocation":
		return "its key is still the issuer's; that a single token was revoked, nobody tells us"
	}
	return s.promise
}

// reaches reports whether the input of a check is available.
func (c *unverifiedToken) reaches(check string) bool {
	switch check {
	case "tag":
		return strings.Count(c.token, ".") == 2 // no other text has one
	case "form":
		return true
	case "type", "key":
		return c.jws != nil
	case "signature":
		return c.jws != nil && c.key != nil
	case "claims":
		return c.key != nil
	default:
		return c.claims != nil
	}
}

// ExplainStranger explains a JWT that names no known issuer.
func ExplainStranger(token string, known []string) Explanation {
	f := (&unverifiedToken{verifier: new(Verifier), token: token}).finding(stepForm, true)
	if f.Outcome == CheckPassed {
		f = Finding{
			Check: "issuer", Promise: "iss is an issuer that is known here: " + strings.Join(known, ", "),
			Outcome: CheckFailed, Reason: "issuer_unknown",
		}
	}
	return Explanation{Findings: []Finding{f}}
}
