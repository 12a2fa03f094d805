package accesstoken

import (
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Outcomes of a check.
const (
	CheckPassed = "passed"
	CheckFailed = "failed"
	// CheckNotReached is the outcome of a check that could not be made: what it reads is not there.
	CheckNotReached = "not reached"
)

// Finding is what one check says of a token.
type Finding struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`
	// Outcome is CheckPassed, CheckFailed or CheckNotReached.
	Outcome string `json:"outcome"`
	// Reason is the audit log's word for the failure.
	Reason string `json:"reason,omitempty"`
	// Note says what else an operator should know.
	Note string `json:"note,omitempty"`
}

// Explanation tells how a token fares.
type Explanation struct {
	// Accepted reports whether Verify accepts the token.
	Accepted bool `json:"accepted"`
	// Undecided tells that only the token's issuer knows, whom nobody asks for an explanation.
	Undecided bool      `json:"undecided,omitempty"`
	Findings  []Finding `json:"findings"`
	// Claims are what a token says whose signature is good; nil for any other, since anybody can write anything.
	Claims *AccessToken `json:"-"`
}

// Explain runs the checks of Verify on a token, past the cache, and says which pass and which fail. Checks that need
// something that an earlier one could not provide are not reached; the others run, so that one look shows every fault.
func (v *Verifier) Explain(token string, audiences []string) Explanation {
	c := &candidate{verifier: v, token: token, audience: audience{wanted: audiences}}
	x := Explanation{Accepted: true}
	record := func(s step, reachable bool) bool {
		f := c.finding(s, reachable)
		passed := f.Outcome == CheckPassed
		x.Accepted = x.Accepted && passed
		x.Findings = append(x.Findings, f)
		return passed
	}
	for _, s := range verification {
		if s.name == "tag" && v.macs.Load() == nil {
			continue
		}
		passed := record(s, c.reaches(s.name))
		if s.name == "signature" && passed {
			x.Claims = c.claims
		}
	}
	record(step{"revocation", "neither the token nor its family, user, client, organisation or key is revoked",
		func(c *candidate) error {
			if err := v.checkFresh(v.now()); err != nil {
				return err
			}
			return v.checkRevoked(c.claims, c.key.Algorithm)
		}}, c.claims != nil)
	return x
}

// finding makes a check, if what it reads is there.
func (c *candidate) finding(s step, reachable bool) Finding {
	f := Finding{Check: s.name, Promise: c.verifier.rules.promise(s), Outcome: CheckNotReached}
	if !reachable {
		return f
	}
	f.Outcome = CheckPassed
	if err := s.run(c); err != nil {
		f.Outcome, f.Reason = CheckFailed, oauth.AsError(err).Reason
	}
	if s.name == "tag" && f.Outcome == CheckPassed && !c.hasMAC {
		f.Note = "it has none that is ours, which tokens need not have while older nodes may have signed them"
	}
	return f
}

// promise is what a check asks of an issuer's tokens. Less is asked of those of others.
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

// reaches reports whether what a check reads is there.
func (c *candidate) reaches(check string) bool {
	switch check {
	case "tag", "form":
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

// ExplainStranger says of a JWT that names none of the known issuers what is wrong with it.
func ExplainStranger(token string, known []string) Explanation {
	f := (&candidate{verifier: new(Verifier), token: token}).finding(stepForm, true)
	if f.Outcome == CheckPassed {
		f = Finding{
			Check: "issuer", Promise: "iss is an issuer that is known here: " + strings.Join(known, ", "),
			Outcome: CheckFailed, Reason: "issuer_unknown",
		}
	}
	return Explanation{Findings: []Finding{f}}
}
